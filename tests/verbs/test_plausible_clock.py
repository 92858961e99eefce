"""Verbs refuse to compute dates with an implausible clock, and change nothing; on both databases."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from sublet.accounts.users import suspend_user
from sublet.credits.model import Payable
from sublet.doctor.running import check_sweep
from sublet.errors import AccountSuspended, ClockImplausible
from sublet.subdomains.delete import delete
from sublet.subdomains.model import UpdateNameservers
from sublet.subdomains.renew import renew
from sublet.subdomains.restore import restore
from sublet.subdomains.sweep.brake import resume_sweep
from sublet.subdomains.sweep.plausible_clock import (
    AHEAD_MAX,
    BEHIND_MAX,
    find_implausible_clock_reason,
    implausible_clock_reason,
)
from sublet.subdomains.update_nameservers import update_nameservers
from support.registry import FREE_QUOTA, OPERATOR, START, Registry

HELD, TRASHED = "held.example.test", "trashed.example.test"
TICK = timedelta(microseconds=1)
PAID = Payable(confirm=True)
VERBS: dict[str, Callable[[Registry], object]] = {
    "register": lambda registry: registry.register("new.example.test"),
    "quote": lambda registry: registry.register(
        "new.example.test", registration_mode="plus", payable=Payable()
    ),
    "renew": lambda registry: registry.write(renew, registry.actor(), HELD, PAID),
    "restore": lambda registry: registry.write(
        restore, registry.actor(), TRASHED, PAID, free_quota=FREE_QUOTA
    ),
}


def test_the_bounds_of_a_plausible_clock() -> None:
    assert (timedelta(days=400), timedelta(days=1)) == (AHEAD_MAX, BEHIND_MAX)
    for since_newest, plausible in (
        (timedelta(), True),
        (AHEAD_MAX, True),
        (AHEAD_MAX + TICK, False),
        (-BEHIND_MAX, True),
        (-BEHIND_MAX - TICK, False),
    ):
        assert (implausible_clock_reason(START, START + since_newest) is None) == plausible
        assert implausible_clock_reason(None, START + since_newest) is None


@pytest.mark.parametrize("swept", [False, True], ids=["never swept", "swept"])
@pytest.mark.parametrize("wrong", [AHEAD_MAX + TICK, -BEHIND_MAX - TICK], ids=["ahead", "behind"])
@pytest.mark.parametrize("verb", VERBS)
def test_dates_are_refused_from_an_implausible_clock(
    registry: Registry, verb: str, wrong: timedelta, *, swept: bool
) -> None:
    """The clock is compared with the last sweep, or before the first sweep with the newest audit event."""
    registry.advance(days=2)
    registry.register(HELD)
    registry.register(TRASHED)
    registry.write(delete, registry.actor(), TRASHED)
    right = registry.now
    if swept:
        registry.sweep()
    registry.now += wrong
    if swept:
        assert registry.sweep().stopped_reason is not None  # an audit event by the wrong clock
        # A change without dates doesn't make the wrong clock plausible either.
        registry.write(
            update_nameservers, registry.actor(), HELD, UpdateNameservers(nameservers=("ns1.example.org",))
        )
    with registry.refuses(ClockImplausible) as caught:
        VERBS[verb](registry)
    assert "The registry's clock says " in caught[0].message
    assert "operator" in caught[0].message
    assert caught[0].retry_after_seconds is not None
    registry.write(suspend_user, OPERATOR, "ann@example.org")
    with registry.refuses(AccountSuspended):
        VERBS[verb](registry)
    if swept:
        registry.now = right
        assert registry.read(find_implausible_clock_reason) is None
        registry.register("new.example.test", "ben")


@pytest.mark.parametrize("wrong", [AHEAD_MAX + TICK, -timedelta(days=30)], ids=["ahead", "behind"])
def test_the_operator_confirms_a_right_clock(registry: Registry, wrong: timedelta) -> None:
    registry.advance(days=30)
    registry.register(HELD)
    registry.sweep()
    registry.now += wrong
    assert registry.sweep().stopped_reason is not None
    registry.write(resume_sweep, OPERATOR)
    with registry.refuses(ClockImplausible):  # Until the worker has seen the operator's confirmation.
        registry.register("new.example.test")
    assert registry.sweep().stopped_reason is None
    registered = registry.register("new.example.test")
    assert registered.expires_at == registry.now + timedelta(days=365)
    assert registry.read(check_sweep) == []


def test_the_first_sweep_of_a_new_registry_detects_a_wrong_clock(registry: Registry) -> None:
    """The registry was initialised at the right time, and first swept with the clock far ahead."""
    registry.now += AHEAD_MAX + TICK
    assert "after the last known correct time" in str(registry.sweep().stopped_reason)
    with registry.refuses(ClockImplausible):
        registry.register("new.example.test")
    registry.now = START
    registry.register("new.example.test")
    registry.now += AHEAD_MAX + TICK
    registry.write(resume_sweep, OPERATOR)
    assert registry.sweep().stopped_reason is None
    registry.register("other.example.test")
