"""Build quotes and require confirmation (spec, part 3, rule 4)."""

from datetime import datetime

from sublet.counted import counted
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
    new_expires_at: datetime,
) -> Quote:
    """Return the quote of an operation, in credits.

    `new_expires_at` is the name's expiry after the operation.
    """
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
        new_expires_at=new_expires_at,
    )


def check_payment(quote: Quote, payable: Payable) -> None:
    """Raise unless an operation is free, or the client confirmed a price that it may spend and can pay.

    Raises, in this order, if the operation costs credits:
        PaymentConfirmationRequired: `confirm` is not true, whether or not the balance suffices.
        InsufficientScope: the token may not spend credits.
        PriceChanged: the price is above `max_credits`.
        InsufficientCredits: the balance is too low.
    """
    if quote.price == 0:
        return
    if not payable.confirm:
        raise PaymentConfirmationRequired(f"{_price(quote)} {_confirmation_advice(quote)}", quote=quote)
    if not payable.may_spend:
        raise InsufficientScope(
            "This token may not spend credits. Use a token with the scope credits:spend.",
            details={"required_scope": "credits:spend"},
        )
    if payable.max_credits is not None and quote.price > payable.max_credits:
        raise PriceChanged(
            f"{_price(quote)} Your highest price is {counted(payable.max_credits, 'credit')}, so nothing "
            "was charged. To accept the new price, give a higher one.",
            quote=quote,
        )
    if not quote.sufficient:
        raise InsufficientCredits(f"{_price(quote)} Buy credits, then try again.", quote=quote)


def _price(quote: Quote) -> str:
    """Return a sentence about the price, and about the balance if it is too low."""
    if quote.sufficient:
        return f"This costs {counted(quote.price, 'credit')}."
    return (
        f"The balance of {counted(quote.balance, 'credit')} is too low: this costs "
        f"{counted(quote.price, 'credit')}, and {quote.shortfall:,} "
        f"{'is' if quote.shortfall == 1 else 'are'} missing."
    )


def _confirmation_advice(quote: Quote) -> str:
    if quote.sufficient:
        return "To accept the price, give `confirm`: true."
    return "Buy credits first, then accept the price with `confirm`: true."
