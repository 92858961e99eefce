from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import floor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublet.credits.coupons import apply_coupon, coupon_problem, normalise_code
from sublet.credits.model import Coupon
from sublet.structs import replace

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
TICK = timedelta(microseconds=1)
PERCENT = Coupon(1, "SPRING", "percent", 30, None, None, 0, None, None, None, None, None, None, NOW)
FIXED = replace(PERCENT, kind="fixed", value=25)
USE: dict[str, Any] = {
    "now": NOW,
    "uses_by_user": 0,
    "action": "register",
    "platform_domain_id": 7,
    "registration_mode": "plus",
    "list_price": 10,
}


@given(st.integers(1, 100), st.integers(0, 10**12))
def test_percent_are_exact_and_never_more_than_the_price(percent: int, list_price: int) -> None:
    discount = apply_coupon(replace(PERCENT, value=percent), list_price).discount_credits
    assert discount == floor(Fraction(percent, 100) * list_price)
    assert 0 <= discount <= list_price
    assert (discount == list_price) == (percent == 100 or list_price == 0)
    applied = apply_coupon(PERCENT, list_price)
    assert (applied.code, applied.kind, applied.value) == ("SPRING", "percent", 30)


@pytest.mark.parametrize(("list_price", "discount"), [(0, 0), (10, 10), (25, 25), (26, 25), (1000, 25)])
def test_a_fixed_coupon_reduces_the_price_to_0_at_most(list_price: int, discount: int) -> None:
    assert apply_coupon(FIXED, list_price).discount_credits == discount


def test_codes_ignore_case_and_surrounding_spaces() -> None:
    assert normalise_code(" Spring\n") == "SPRING"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"valid_from": NOW},
        {"valid_until": NOW + TICK},
        {"max_uses": 1},
        {"max_uses_per_user": 1},
        {"action": "register"},
        {"platform_domain_id": 7},
        {"registration_mode": "plus"},
    ],
)
def test_a_valid_coupon_has_no_problem(changes: dict[str, Any]) -> None:
    assert coupon_problem(replace(PERCENT, **changes), **USE) is None


# In the order they are checked: of several errors the first one is reported.
PROBLEMS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("coupon_invalid", "no such", {"retired_at": NOW}, {}),
    ("coupon_invalid", "not valid yet", {"valid_from": NOW + TICK}, {}),
    ("coupon_invalid", "no longer", {"valid_until": NOW}, {}),
    ("coupon_invalid", "used up", {"max_uses": 3, "uses": 3}, {}),
    ("coupon_invalid", "as often", {"max_uses_per_user": 2}, {"uses_by_user": 2}),
    ("coupon_not_applicable", "another purpose", {"action": "renew"}, {}),
    ("coupon_not_applicable", "another platform domain", {"platform_domain_id": 8}, {}),
    ("coupon_not_applicable", "registered as premium", {"registration_mode": "premium"}, {}),
    ("coupon_not_applicable", "is free", {}, {"list_price": 0}),
    ("coupon_not_applicable", "less than one credit", {"value": 9}, {}),
]


@pytest.mark.parametrize("index", range(len(PROBLEMS)))
def test_problems_are_checked_in_order(index: int) -> None:
    code, words, _, _ = PROBLEMS[index]
    for last in range(index, len(PROBLEMS)):
        changes: dict[str, Any] = {}
        use = dict(USE)
        for _, _, more, of_use in (PROBLEMS[index], *PROBLEMS[last:]):
            changes |= more
            use |= of_use
        problem = coupon_problem(replace(PERCENT, **changes), **use)
        assert problem is not None
        assert (problem.field, problem.code) == ("coupon_code", code)
        assert words in problem.message


def test_a_retired_and_a_missing_coupon_give_the_same_answer() -> None:
    assert coupon_problem(None, **USE) == coupon_problem(replace(PERCENT, retired_at=NOW), **USE)
