"""The classes of labels, and patterns of blocked labels: the rules, and the operator's `sublet label set`,
`unset`, `block` and `unblock` (docs/spec-choices.md, "Modes and prices").

In a pattern, `*` matches any number of characters, `?` matches one character, and each other character
matches itself. `fnmatch` compares them without backtracking, so that a comparison takes at most as many steps
as the product of the two lengths. Its `[` is in no pattern, because it is in no label.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from sublet import audit
from sublet.accounts.organizations import find_organization, refuse_deleted_organization
from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.look_alikes import skeleton
from sublet.dns.names import InvalidName, is_reserved, map_part, parse_label, shown, to_unicode
from sublet.errors import Conflict, FieldError, NotFound, validation_failed
from sublet.platform_domains import store
from sublet.platform_domains.model import (
    CREDITS_MAX,
    LABEL_CLASSES,
    PATTERN_CHARACTERS_MAX,
    Label,
    LabelPattern,
    PlatformDomain,
)
from sublet.platform_domains.platform_domain import find_platform_domain

PATTERNS_MAX = 1000
"""The maximum number of patterns of one platform domain, and of patterns for all. Each registration is
compared with both lists.
"""

_WILD = re.compile(r"([*?])")


MODES_BY_CLASS: dict[str, tuple[str, ...]] = {
    "standard": ("free", "plus"),
    "premium": ("premium",),
    "special": ("special",),
    "reserved": (),
    "blocked": (),
}
"""The registration modes of each class. A request without a mode gets the first mode that is offered."""


def block_labels(tx: Tx, actor: Actor, text: str, identifier: str | None = None) -> LabelPattern:
    """Block the labels that match a pattern, under one platform domain or under all. Held names stay.

    Listed labels keep their listed class.

    Raises, in this order:
        NotFound: no such platform domain.
        ValidationFailed: the text is not a pattern.
        Conflict: the pattern is blocked already; there are `PATTERNS_MAX` patterns.
    """
    platform_domain_id = find_platform_domain(tx, identifier).id if identifier is not None else None
    pattern, errors = parse_pattern(text)
    if errors:
        raise validation_failed(errors)
    if store.find_pattern(tx, platform_domain_id, pattern) is not None:
        raise Conflict(f"The pattern {pattern} is blocked already. No action needed.")
    if store.count_patterns(tx, platform_domain_id) >= PATTERNS_MAX:
        raise Conflict(f"There are {PATTERNS_MAX} patterns already, the maximum. Unblock one first.")
    added = store.insert_pattern(tx, platform_domain_id, pattern)
    audit.record(tx, actor, "label_pattern.block", added.id, after=_describe(added))
    return added


def unblock_labels(tx: Tx, actor: Actor, text: str, identifier: str | None = None) -> LabelPattern:
    """Remove a pattern of one platform domain, or a pattern for all, and return it.

    Raises, in this order:
        NotFound: no such platform domain; the platform domain (or the list for all) has no such pattern.
    """
    platform_domain_id = find_platform_domain(tx, identifier).id if identifier is not None else None
    pattern, errors = parse_pattern(text)
    found = None if errors else store.find_pattern(tx, platform_domain_id, pattern)
    if found is None or not store.delete_pattern(tx, found.id):
        where = f"for {identifier}" if identifier is not None else "for all platform domains"
        raise NotFound(f"The pattern `{shown(text)}` is not blocked {where}. See `sublet label blocked`.")
    audit.record(tx, actor, "label_pattern.unblock", found.id, before=_describe(found))
    return found


def _describe(pattern: LabelPattern) -> dict[str, object]:
    return {"pattern": pattern.pattern, "platform_domain_id": pattern.platform_domain_id}


def parse_pattern(text: str) -> tuple[str, list[FieldError]]:
    """Return a pattern in the stored form (after the mapping of UTS 46, like labels), and the errors of the
    pattern.

    `value_invalid`: the pattern is too long, has a character that no label has, or only wildcards.
    """
    if len(text) > PATTERN_CHARACTERS_MAX:
        return _refuse(text, f"The pattern is too long. Give at most {PATTERN_CHARACTERS_MAX} characters.")
    try:
        pattern = "".join(each if each in ("", "*", "?") else map_part(each) for each in _WILD.split(text))
    except InvalidName as error:
        return _refuse(text, str(error))
    if not pattern.strip("*?"):
        return _refuse(
            text,
            f"`{shown(text)}` would block every label. Give at least one character other than `*` and `?`.",
        )
    return re.sub(r"\*+", "*", pattern), []


def _refuse(text: str, problem: str) -> tuple[str, list[FieldError]]:
    return text, [FieldError("pattern", "value_invalid", problem)]


def is_blocked(label: str, patterns: Collection[str]) -> bool:
    """True if one of the patterns matches a canonical label."""
    return any(matching_patterns(label, patterns))


def matching_patterns(label: str, patterns: Collection[str]) -> Iterator[str]:
    """Yield the patterns that match a canonical label: its A-label, its Unicode form, or its skeleton (UTS
    39).
    """
    if not patterns:
        return
    forms = {label, to_unicode(label)}
    label_skeleton = skeleton(label)
    for pattern in patterns:
        if _matches_any_form(pattern, forms, label_skeleton):
            yield pattern


def _matches_any_form(pattern: str, forms: Collection[str], label_skeleton: str) -> bool:
    longest, pattern_skeleton, longest_in_skeleton = _parts(pattern)
    # The fast test `in` comes first: nearly all labels lack the longest text of the pattern.
    return (longest_in_skeleton in label_skeleton and fnmatchcase(label_skeleton, pattern_skeleton)) or any(
        longest in form and fnmatchcase(form, pattern) for form in forms
    )


@lru_cache(maxsize=2 * PATTERNS_MAX)
def _parts(pattern: str) -> tuple[str, str, str]:
    """Return the longest text of a pattern without wildcards, the pattern's skeleton (UTS 39), and the
    longest text of the skeleton.
    """
    pattern_skeleton = skeleton(pattern)
    longest, longest_in_skeleton = (
        max(re.split(r"[*?]", each), key=len) for each in (pattern, pattern_skeleton)
    )
    return longest, pattern_skeleton, longest_in_skeleton


def classify(
    label: str,
    platform_domain: PlatformDomain,
    listed: Label | None,
    organization_id: int,
    patterns: Collection[str] = (),
) -> str:
    """Return the class of a label (canonical A-label): standard, premium, special, reserved or blocked.

    The first of these decides: the operator's list, the blocked patterns, the labels that are reserved under
    all platform domains, the length. For organizations without a grant, a special label is in the class
    reserved.
    """
    if listed is not None:
        if listed.label_class == "special" and organization_id not in listed.organization_ids:
            return "reserved"
        return listed.label_class
    if is_blocked(label, patterns):
        return "blocked"
    if is_reserved(label):
        return "reserved"
    if len(to_unicode(label)) <= platform_domain.premium_length_max:
        return "premium"
    return "standard"


def set_label(
    tx: Tx,
    actor: Actor,
    identifier: str,
    label: str,
    label_class: str,
    *,
    price_credits: int | None = None,
    renewal_price_credits: int | None = None,
    organizations: Sequence[str] = (),
) -> Label:
    """Set the class of a label, its prices, and the organizations that may register a special label.

    Replaces an earlier entry of the label. Held names stay.

    Raises, in this order:
        NotFound: no such platform domain.
        ValidationFailed: any wrong fields: label, label_class, prices (not for reserved and blocked),
            organizations (only for special).
        NotFound, Conflict: for one of `organizations` none matches, or several do.
        NotFound: one of the organizations is deleted.
    """
    platform_domain = find_platform_domain(tx, identifier)
    errors: list[FieldError] = []
    try:
        label = parse_label(label)
    except InvalidName as error:
        errors.append(FieldError("label", "label_invalid", str(error)))
    if label_class not in LABEL_CLASSES:
        message = f"`{shown(label_class)}` is not a class. Give one of {', '.join(LABEL_CLASSES)}."
        errors.append(FieldError("label_class", "value_invalid", message))
    for field, value in (("price_credits", price_credits), ("renewal_price_credits", renewal_price_credits)):
        if value is not None and not 0 <= value <= CREDITS_MAX:
            errors.append(FieldError(field, "value_invalid", f"Give a price of 0 to {CREDITS_MAX} credits."))
        elif value is not None and not MODES_BY_CLASS.get(label_class):
            message = "Labels of this class can't be registered. Give no price."
            errors.append(FieldError(field, "value_invalid", message))
    if organizations and label_class != "special":
        message = "Only special labels are granted. Leave --grant out, or give the class special."
        errors.append(FieldError("organizations", "value_invalid", message))
    if errors:
        raise validation_failed(errors)
    granted_to = [find_organization(tx, each) for each in organizations]
    for organization in granted_to:
        refuse_deleted_organization(tx, organization)
    granted = tuple(sorted({each.id for each in granted_to}))
    before = store.find_label(tx, platform_domain.id, label)
    listed = Label(platform_domain.id, label, label_class, price_credits, renewal_price_credits, granted)
    if listed == before:
        return listed
    store.replace_label(tx, listed)
    was, after = describe_label(before) if before else None, describe_label(listed)
    audit.record(
        tx, actor, "label.set", platform_domain.id, object_type="platform_domain", before=was, after=after
    )
    return listed


def unset_label(tx: Tx, actor: Actor, identifier: str, label: str) -> Label:
    """Remove a label from the list, and return the removed entry.

    From then on the rules of `classify` give the class of the label.

    Raises, in this order:
        NotFound: no such platform domain; the label is not listed.
    """
    platform_domain = find_platform_domain(tx, identifier)
    try:
        label = parse_label(label)
    except InvalidName:
        listed = None
    else:
        listed = store.find_label(tx, platform_domain.id, label)
    if listed is None or not store.delete_label(tx, platform_domain.id, label):
        raise NotFound(
            f"The label `{shown(label)}` is not listed for {platform_domain.domain}. See `sublet label list`."
        )
    before = describe_label(listed)
    audit.record(tx, actor, "label.unset", platform_domain.id, object_type="platform_domain", before=before)
    return listed


def describe_label(label: Label) -> dict[str, object]:
    """Return the fields of a label as a dictionary, for the audit and `--json`."""
    return {
        "label": label.label,
        "label_class": label.label_class,
        "price_credits": label.price_credits,
        "renewal_price_credits": label.renewal_price_credits,
        "organization_ids": list(label.organization_ids),
    }
