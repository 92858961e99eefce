"""List a label of a platform domain in a class of its own (the operator's `sublet label set`)."""

from collections.abc import Sequence

from sublet import audit
from sublet.accounts.organizations import find_organization
from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.names import InvalidName, parse_label, shown
from sublet.errors import FieldError, validation_failed
from sublet.platform_domains import store
from sublet.platform_domains.find import find_platform_domain
from sublet.platform_domains.model import LABEL_CLASSES, Label
from sublet.platform_domains.offer_mode import CREDITS_MAX

_PRICED = ("standard", "premium", "special")


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
    """Give a label a class, perhaps prices of its own, and for a special one the organizations that may take it.

    It replaces what was listed, grants and prices too. A name that is held already stays.

    Raises, in this order:
        NotFound: no such platform domain.
        ValidationFailed: all wrong fields: label, label_class, prices (not for reserved and blocked), organizations (only
            for special).
        NotFound: no such organization. Conflict: several are meant.
    """
    platform_domain = find_platform_domain(tx, identifier)
    errors: list[FieldError] = []
    try:
        label = parse_label(label)
    except InvalidName as error:
        errors.append(FieldError("label", "label_invalid", str(error)))
    if label_class not in LABEL_CLASSES:
        message = f"`{shown(label_class)}` is no class. Give one of {', '.join(LABEL_CLASSES)}."
        errors.append(FieldError("label_class", "value_invalid", message))
    for field, value in (
        ("price_credits", price_credits),
        ("renewal_price_credits", renewal_price_credits),
    ):
        if value is not None and not 0 <= value <= CREDITS_MAX:
            errors.append(FieldError(field, "value_invalid", f"Give a price of 0 to {CREDITS_MAX} credits."))
        elif value is not None and label_class not in _PRICED:
            message = "No registrant can take a label of this class. Leave the price out."
            errors.append(FieldError(field, "value_invalid", message))
    if organizations and label_class != "special":
        message = "Only special labels are granted. Leave --grant out, or give the class special."
        errors.append(FieldError("organizations", "value_invalid", message))
    if errors:
        raise validation_failed(errors)
    granted = sorted({find_organization(tx, each).id for each in organizations})
    before = store.find_label(tx, platform_domain.id, label)
    listed = Label(
        platform_domain.id, label, label_class, price_credits, renewal_price_credits, tuple(granted)
    )
    if listed == before:
        return listed
    store.replace_label(tx, listed)
    audit.record(
        tx,
        actor,
        "label.set",
        "platform_domain",
        platform_domain.id,
        before=describe(before) if before else None,
        after=describe(listed),
    )
    return listed


def describe(label: Label) -> dict[str, object]:
    """Return a listed label as the audit keeps it."""
    return {
        "label": label.label,
        "label_class": label.label_class,
        "price_credits": label.price_credits,
        "renewal_price_credits": label.renewal_price_credits,
        "organization_ids": list(label.organization_ids),
    }
