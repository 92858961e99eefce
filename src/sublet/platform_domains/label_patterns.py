"""Patterns of blocked labels: the rule, and the operator's `sublet label block` and `unblock`.

`*` matches any number of characters, `?` matches one character, and each other character matches itself.
`fnmatch` compares them without backtracking, so that a comparison takes at most as many steps as the product
of the two lengths. Its `[` is in no pattern, because it is in no label.
"""

import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from functools import lru_cache

from sublet import audit
from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.look_alikes import skeleton
from sublet.dns.names import InvalidName, map_part, shown, to_unicode
from sublet.errors import Conflict, FieldError, NotFound, validation_failed
from sublet.platform_domains import store
from sublet.platform_domains.find import find_platform_domain
from sublet.platform_domains.model import PATTERN_CHARACTERS_MAX, LabelPattern

PATTERNS_MAX = 1000
"""The maximum number of patterns of one platform domain, and of patterns for all. Each registration is
compared with both lists.
"""

_WILD = re.compile(r"([*?])")


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
    if found is None:
        where = f"for {identifier}" if identifier is not None else "for all platform domains"
        raise NotFound(f"The pattern `{shown(text)}` is not blocked {where}. See `sublet label blocked`.")
    store.delete_pattern(tx, found.id)
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
    """True if a pattern matches a canonical label: its A-label, its Unicode form, or
    its skeleton (UTS 39).
    """
    if not patterns:
        return False
    forms = {label, to_unicode(label)}
    label_skeleton = skeleton(label)
    return any(_matches_any_form(pattern, forms, label_skeleton) for pattern in patterns)


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
