"""The classes of labels (docs/spec-choices.md, "Modes and prices"): the rule, and the operator's `sublet
label set` and `unset`.
"""

from collections.abc import Collection, Sequence

from sublet import audit
from sublet.accounts.organizations import find_organization
from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.names import InvalidName, is_reserved, parse_label, shown, to_unicode
from sublet.errors import FieldError, NotFound, validation_failed
from sublet.platform_domains import store
from sublet.platform_domains.find import find_platform_domain
from sublet.platform_domains.label_patterns import is_blocked
from sublet.platform_domains.model import CREDITS_MAX, LABEL_CLASSES, Label, PlatformDomain

MODES_BY_CLASS: dict[str, tuple[str, ...]] = {
    "standard": ("free", "plus"),
    "premium": ("premium",),
    "special": ("special",),
    "reserved": (),
    "blocked": (),
}
"""The registration modes of each class. A request without a mode gets the first mode that is offered."""


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
        NotFound: no such organization.
        Conflict: several organizations match.
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
    granted = tuple(sorted({find_organization(tx, each).id for each in organizations}))
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
    if listed is None:
        raise NotFound(
            f"The label `{shown(label)}` is not listed for {platform_domain.domain}. See `sublet label list`."
        )
    store.delete_label(tx, platform_domain.id, label)
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
