"""What an operation costs before coupons (docs/spec-choices.md, "Modes and prices")."""

from sublet.platform_domains.model import Label, Offer


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
