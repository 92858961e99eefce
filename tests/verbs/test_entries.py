"""Moving credits as the operator: grant, adjust, refund, record a payment."""

from datetime import timedelta
from pathlib import Path

import pytest

from sublet.accounts.find import find_user
from sublet.audit import Actor
from sublet.credits.entries import (
    ExternalPayment,
    adjust_credits,
    grant_credits,
    record_payment,
    refund_charge,
)
from sublet.credits.packages import add_package, retire_package
from sublet.credits.store import find_balance, list_entries, list_own_entries
from sublet.doctor.credits import check_credits
from sublet.errors import Conflict
from sublet.ids import Position
from support.operator_registry import ANNA, BOB, Registry, small_registry

BETA = "beta.example.test"


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return small_registry(tmp_path)


def _balance(registry: Registry, email: str = ANNA) -> int:
    return registry.read(lambda tx: find_balance(tx, find_user(tx, email).id))


def test_each_movement_has_its_reference_and_they_sum_up_to_the_balance(registry: Registry) -> None:
    registry.do(grant_credits, ANNA, 5, "again")
    registry.do(adjust_credits, ANNA, -7, "error")
    registry.do(adjust_credits, ANNA, 2)
    registry.do(refund_charge, 2, 4, "half a year")
    package = registry.do(add_package, "Small", 10, "009.9", "eur")
    assert (package.price, package.currency) == ("9.90", "EUR")
    registry.do(retire_package, package.id)
    registry.do(record_payment, ANNA, ExternalPayment("bank-1", package_id=package.id))
    registry.do(record_payment, BOB, ExternalPayment("bank-2", credits=3, amount="3", currency="EUR"))
    history = registry.read(list_entries, 1, 100)
    assert [(each.credits, each.reference) for each in reversed(history)][2:] == [
        (5, "grant:1:2"),
        (-7, "adjustment:1:1"),
        (2, "adjustment:1:2"),
        (4, "refund:2"),
        (10, "payment:bank-1"),
    ]
    assert (history[0].kind, history[0].amount, history[0].currency) == ("purchase", "9.90", "EUR")
    assert history[1].subdomain == BETA
    assert _balance(registry) == 100 - 10 + 5 - 7 + 2 + 4 + 10 == history[0].balance_after
    assert registry.read(check_credits) == []


def test_the_history_has_the_order_of_the_balances_even_if_a_transaction_waited(registry: Registry) -> None:
    registry.do(grant_credits, ANNA, 5, "began later, and was first")
    registry.now -= timedelta(seconds=1)
    registry.do(adjust_credits, ANNA, -2)
    assert [each.balance_after for each in registry.read(list_entries, 1, 2)] == [93, 95]
    anna = Actor(kind="user", user_id=1)
    (newest,) = registry.read(list_own_entries, anna, 1, None)
    (older,) = registry.read(list_own_entries, anna, 1, Position(newest.created_at, newest.id))
    assert (newest.balance_after, older.balance_after) == (93, 95)


def test_a_payment_s_reference_is_unique_among_all_users(registry: Registry) -> None:
    made = ExternalPayment("bank-1", credits=3, amount="3.00", currency="EUR")
    registry.do(record_payment, ANNA, made)
    with pytest.raises(Conflict):
        registry.do(record_payment, BOB, made)
    assert _balance(registry, BOB) == 0
