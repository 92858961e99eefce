from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublet.credits.model import AppliedCoupon, Payable, Quote
from sublet.credits.quote import check_payment, make_quote
from sublet.errors import (
    InsufficientCredits,
    InsufficientScope,
    PaymentConfirmationRequired,
    PriceChanged,
    Refusal,
)

EXPIRY = datetime(2027, 11, 21, 9, 30, tzinfo=UTC)


def _quote(list_price: int, balance: int, discount: int = 0) -> Quote:
    coupon = AppliedCoupon("SPRING", "fixed", discount, discount) if discount else None
    return make_quote(
        action="register",
        fqdn="shop.example.test",
        registration_mode="plus",
        period_days=365,
        list_price=list_price,
        coupon=coupon,
        balance=balance,
        new_expires_at=EXPIRY,
    )


@pytest.mark.parametrize(
    ("list_price", "discount", "balance", "price", "balance_after", "sufficient", "shortfall"),
    [
        (10, 0, 10, 10, 0, True, 0),
        (10, 0, 9, 10, -1, False, 1),
        (10, 3, 7, 7, 0, True, 0),
        (10, 10, 0, 0, 0, True, 0),
        (0, 0, 0, 0, 0, True, 0),
        (10, 0, 100, 10, 90, True, 0),
    ],
)
def test_the_parts_of_a_quote_add_up(
    *,
    list_price: int,
    discount: int,
    balance: int,
    price: int,
    balance_after: int,
    sufficient: bool,
    shortfall: int,
) -> None:
    quote = _quote(list_price, balance, discount)
    assert (quote.list_price, quote.discount, quote.price) == (list_price, discount, price)
    assert (quote.balance, quote.balance_after) == (balance, balance_after)
    assert (quote.sufficient, quote.shortfall) == (sufficient, shortfall)
    assert (quote.action, quote.fqdn, quote.new_expires_at) == ("register", "shop.example.test", EXPIRY)


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.data())
def test_a_shortfall_agrees_with_the_balance(list_price: int, balance: int, data: st.DataObject) -> None:
    quote = _quote(list_price, balance, data.draw(st.integers(0, list_price)))
    assert quote.price >= 0
    assert quote.sufficient == (quote.balance_after >= 0) == (quote.shortfall == 0)
    assert quote.shortfall == max(0, -quote.balance_after)


# The faults are added from the last check to the first. Each is reported instead of the faults that were
# added before.
ORDER: list[tuple[type[Refusal], dict[str, Any]]] = [
    (InsufficientCredits, {}),
    (PriceChanged, {"max_credits": 9}),
    (InsufficientScope, {"may_spend": False}),
    (PaymentConfirmationRequired, {"confirm": False}),
]


@pytest.mark.parametrize("count", range(1, len(ORDER) + 1))
def test_errors_of_a_payment_are_checked_in_order(count: int) -> None:
    members: dict[str, Any] = {"confirm": True}
    for _, more in ORDER[:count]:
        members |= more
    quote = _quote(10, 0)
    with pytest.raises(ORDER[count - 1][0]) as caught:
        check_payment(quote, Payable(**members))
    if caught.type is InsufficientScope:
        assert caught.value.details == {"required_scope": "credits:spend"}
    else:
        assert caught.value.quote == quote


@pytest.mark.parametrize(
    "payable",
    [Payable(), Payable(confirm=False, may_spend=False), Payable(max_credits=0), Payable(confirm=True)],
)
def test_a_free_operation_needs_no_confirmation(payable: Payable) -> None:
    check_payment(_quote(0, 0), payable)
    check_payment(_quote(10, 0, discount=10), payable)


@pytest.mark.parametrize("max_credits", [None, 10, 11])
def test_a_confirmed_and_covered_payment_within_its_bound_is_accepted(max_credits: int | None) -> None:
    check_payment(_quote(10, 10), Payable(confirm=True, max_credits=max_credits))


def test_the_quote_is_shown_even_if_the_balance_is_too_low() -> None:
    with pytest.raises(PaymentConfirmationRequired) as caught:
        check_payment(_quote(10, 3), Payable())
    assert caught.value.quote.shortfall == 7
    assert "The balance of 3 credits is too low" in caught.value.message
