"""From a price to a quote, and from a quote to the word to go on: quote, then confirm (spec, part 3, rule 4)."""

from datetime import datetime

from sublet.credits.model import AppliedCoupon, Payable, Quote
from sublet.errors import InsufficientCredits, InsufficientScope, PaymentConfirmationRequired, PriceChanged


def make_quote(
    *,
    action: str,
    fqdn: str,
    registration_mode: str,
    period_days: int,
    list_price: int,
    coupon: AppliedCoupon | None,
    balance: int,
    expires_at: datetime,
) -> Quote:
    """Return what an operation costs; `expires_at` is the name's expiry after it; amounts in credits."""
    discount = coupon.discount_credits if coupon else 0
    price = list_price - discount
    return Quote(
        action=action,
        fqdn=fqdn,
        registration_mode=registration_mode,
        period_days=period_days,
        list_price=list_price,
        discount=discount,
        price=price,
        balance=balance,
        balance_after=balance - price,
        sufficient=price <= balance,
        shortfall=max(0, price - balance),
        coupon=coupon,
        expires_at=expires_at,
    )


def check_payment(quote: Quote, payable: Payable) -> None:
    """Let an operation pass that costs nothing, or that is confirmed, within its bound and covered.

    Raises:
        PaymentConfirmationRequired: it costs credits and `confirm` is not true, even where the balance is short.
        InsufficientScope: the token may not spend credits.
        PriceChanged: the price is above `max_credits`.
        InsufficientCredits: the balance is short.
    """
    if quote.price == 0:
        return
    if not payable.confirm:
        raise PaymentConfirmationRequired(
            f"This costs {quote.price} credits; send the same request with `confirm`: true to go on.",
            quote=quote,
        )
    if not payable.may_spend:
        raise InsufficientScope(
            "This token may not spend credits: it lacks the scope credits:spend.",
            details={"required_scope": "credits:spend"},
        )
    if payable.max_credits is not None and quote.price > payable.max_credits:
        raise PriceChanged(
            f"The price is {quote.price} credits, above your `max_credits` of {payable.max_credits}; nothing was charged.",
            quote=quote,
        )
    if not quote.sufficient:
        raise InsufficientCredits(
            f"This costs {quote.price} credits and the balance is {quote.balance}: {quote.shortfall} are missing.",
            quote=quote,
        )
