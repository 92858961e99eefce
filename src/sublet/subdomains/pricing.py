"""Which mode a registration runs in, and what an operation costs before coupons (docs/spec-choices.md, "Modes and prices")."""

from collections.abc import Mapping

from sublet.errors import FreeQuotaExceeded, Refusal, RegistrationModeNotAllowed
from sublet.platform_domains.labels import MODES_BY_CLASS
from sublet.platform_domains.model import Label, Offer


def choose_mode(
    requested: str | None, label_class: str, offers: Mapping[str, Offer], *, free_used: int, free_limit: int
) -> Offer | Refusal:
    """Return the offer that a registration runs under, or the refusal that the verb raises in its place of the order.

    `offers` are those not withdrawn, by mode. Without a requested mode: free while quota lasts, then plus; premium or
    special where the label is. The refusals: RegistrationModeNotAllowed (admin, a mode that does not fit the label's class,
    one that is not offered), then FreeQuotaExceeded.
    """
    fitting = MODES_BY_CLASS[label_class]
    quota_refusal = FreeQuotaExceeded(
        f"All {free_limit} free names of your quota are in use; delete one, or register in another mode.",
        details={"limit": free_limit, "used": free_used},
    )
    quota_left = free_used < free_limit
    if requested is None:
        candidates = [offers[mode] for mode in fitting if mode in offers]
        affordable = [offer for offer in candidates if offer.mode != "free" or quota_left]
        if affordable:
            return affordable[0]
        if candidates:
            return quota_refusal
        return RegistrationModeNotAllowed("This platform domain offers no mode for this label at present.")
    if requested == "admin":
        return RegistrationModeNotAllowed("The mode admin is not available through the API.")
    if requested not in fitting:
        return RegistrationModeNotAllowed(
            f"The mode {requested} does not take this label; it is {label_class}: {' or '.join(fitting) or 'none'}."
        )
    if requested not in offers:
        return RegistrationModeNotAllowed(f"This platform domain does not offer the mode {requested}.")
    if requested == "free" and not quota_left:
        return quota_refusal
    return offers[requested]


def registration_price(offer: Offer, listed: Label | None) -> int:
    """Return the list price of a registration in credits: the label's own price, or the offer's."""
    if offer.mode != "free" and listed is not None and listed.price_credits is not None:
        return listed.price_credits
    return offer.price_credits


def renewal_price(offer: Offer, listed: Label | None) -> int:
    """Return the list price of a renewal in credits: the label's own renewal price, or the offer's, withdrawn or not."""
    if offer.mode != "free" and listed is not None and listed.renewal_price_credits is not None:
        return listed.renewal_price_credits
    return offer.renewal_price_credits
