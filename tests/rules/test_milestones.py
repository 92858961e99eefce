"""Milestones, the sentences of the brake, and the texts of reminders."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sublet.subdomains.lifecycle import (
    SweepDates,
    dates_of,
    lost_at,
    next_milestone_at,
    planned_milestones,
    reached,
)
from sublet.subdomains.model import Subdomain
from sublet.subdomains.sweep.brake import away_reason, behind_reason, jump_reason, losses_reason
from support.sample_subdomain import DAY, NAME, NOW

TRASHED = replace(NAME, trashed_at=NOW)
HOUR = timedelta(hours=1)

names = st.builds(
    lambda **facts: replace(NAME, **facts),
    expires_at=st.integers(-400, 400).map(lambda days: NOW + days * DAY),
    registered_at=st.integers(-800, -401).map(lambda days: NOW + days * DAY),
    last_renewed_at=st.none() | st.integers(-400, 0).map(lambda days: NOW + days * DAY),
    trashed_at=st.none() | st.integers(-60, 0).map(lambda days: NOW + days * DAY),
    suspended_at=st.none() | st.just(NOW - DAY),
    purged_at=st.none(),
    grace_days=st.integers(0, 60),
    trash_days=st.integers(0, 60),
    period_days=st.integers(1, 400),
)


def days(name: Subdomain) -> list[tuple[str, int]]:
    return [(each.kind, (each.at - NOW).days) for each in planned_milestones(name)]


def test_the_milestones_of_a_year() -> None:
    for gone in (replace(NAME, suspended_at=NOW), replace(TRASHED, purged_at=NOW)):
        assert days(gone) == []
    month = replace(NAME, period_days=30, expires_at=NOW + 30 * DAY)
    assert [kind for kind, _ in days(month)] == [
        "renewal_opens",
        "expires_in_7_days",
        "expires_in_1_day",
        "expired",
    ]
    assert days(NAME) == [
        ("renewal_opens", 305),
        ("expires_in_30_days", 335),
        ("expires_in_7_days", 358),
        ("expires_in_1_day", 364),
        ("expired", 365),
    ]


@pytest.mark.parametrize(
    ("facts", "days_before"),
    [
        ({"renewal_window_days": 29}, [7, 1]),
        ({"renewal_window_days": 7}, [7, 1]),
        ({"renewal_window_days": 1}, [1]),
        ({"last_renewed_at": NOW + 358 * DAY}, [1]),  # no renewal follows another within a day
        ({"renewal_window_days": 1, "registration_type": "admin"}, [30, 7, 1]),
    ],
)
def test_no_reminder_comes_before_renewal_opens(facts: dict[str, object], days_before: list[int]) -> None:
    reminders = [at for kind, at in days(replace(NAME, **facts)) if kind.startswith("expires_in")]
    assert reminders == [365 - each for each in days_before]


@pytest.mark.parametrize(
    ("facts", "due_days", "loss_days"),
    [
        ({}, 305, 395),
        ({"auto_renew_max_credits": 5}, 305, 395),
        ({"expires_at": NOW + 20 * DAY}, 0, 50),  # renewal is open: is that recorded?
        ({"grace_days": 100}, 305, 465),
        ({"suspended_at": NOW}, None, None),
        ({"trashed_at": NOW - DAY}, 0, 29),  # other names may depend on it
        ({"trashed_at": NOW - DAY, "suspended_at": NOW}, 0, None),
        ({"trashed_at": NOW - DAY, "purged_at": NOW}, 0, None),
        ({"trashed_at": NOW - DAY, "purged_at": NOW, "released_at": NOW}, None, None),
    ],
)
def test_the_dates_of_the_sweep(
    facts: dict[str, object], due_days: int | None, loss_days: int | None
) -> None:
    expected = (None if each is None else NOW + each * DAY for each in (due_days, loss_days))
    assert dates_of(replace(NAME, **facts), NOW) == SweepDates(*expected)


@given(names)
def test_a_name_is_due_no_later_than_its_next_step(name: Subdomain) -> None:
    ahead = (next_milestone_at(name, NOW), lost_at(name))
    due_at = dates_of(name, NOW).due_at
    if ahead[0] is not None:
        assert due_at is not None
        assert due_at <= ahead[0]
    assert dates_of(name, NOW).loss_at == ahead[1]


@pytest.mark.parametrize(("trash_days", "at"), [(30, 23), (14, 7), (7, 3), (2, 1), (1, None), (0, None)])
def test_the_reminder_of_the_trash_is_in_its_second_half(trash_days: int, at: int | None) -> None:
    wanted = [] if at is None else [("trash_ends", at)]
    assert days(replace(TRASHED, trash_days=trash_days)) == wanted


def test_only_the_last_of_several_reached_milestones_is_mailed() -> None:
    found = reached(NAME, set(), NOW + 366 * DAY)
    assert [(each.kind, each.is_mailed) for each in found] == [
        ("renewal_opens", False),
        ("expires_in_30_days", False),
        ("expires_in_7_days", False),
        ("expires_in_1_day", False),
        ("expired", True),
    ]
    done = {(each.kind, each.about) for each in found}
    assert reached(NAME, done, NOW + 366 * DAY) == ()


def test_milestones_reached_with_a_loss_are_not_mailed() -> None:
    assert not any(each.is_mailed for each in reached(NAME, set(), NOW + 395 * DAY))
    assert not any(each.is_mailed for each in reached(TRASHED, set(), NOW + 30 * DAY))


@given(names, st.integers(0, 500))
def test_each_milestone_is_reached_once_in_order(name: Subdomain, later_days: int) -> None:
    now = NOW + later_days * DAY
    found = reached(name, set(), now)
    assert [each.at for each in found] == sorted(each.at for each in found)
    assert all(each.at <= now for each in found)
    assert sum(each.is_mailed for each in found) <= 1
    assert reached(name, {(each.kind, each.about) for each in found}, now) == ()
    upcoming = next_milestone_at(name, now)
    assert upcoming is None or upcoming > now
    assert len(found) + sum(each.at > now for each in planned_milestones(name)) == len(
        planned_milestones(name)
    )


# The brake


@pytest.mark.parametrize(
    ("wall", "monotonic", "stops"),
    [
        (HOUR, HOUR, False),
        (2 * HOUR, HOUR, False),
        (2 * HOUR + timedelta(seconds=1), HOUR, True),
        (-HOUR, timedelta(), False),
        (-HOUR - timedelta(seconds=1), timedelta(), True),
        (400 * DAY, timedelta(seconds=1), True),
    ],
)
def test_a_clock_jump_of_more_than_an_hour_stops_the_sweep(
    wall: timedelta, monotonic: timedelta, stops: bool
) -> None:
    assert (jump_reason(wall, monotonic) is not None) is stops


def test_an_absence_of_more_than_a_week_stops_the_sweep() -> None:
    for seen_at in (None, NOW, NOW - 7 * DAY, NOW + 9 * DAY):
        assert away_reason(seen_at, NOW) is None
    assert away_reason(NOW - 7 * DAY, NOW + timedelta(seconds=1)) is not None


def test_a_clock_before_the_last_sweep_stops_the_sweep() -> None:
    for seen_at in (None, NOW, NOW + HOUR):
        assert behind_reason(seen_at, NOW) is None
    assert "before the sweep last ran" in str(behind_reason(NOW + HOUR + timedelta(seconds=1), NOW))


@pytest.mark.parametrize(
    ("lost", "to_trash", "to_purge", "forecast", "granted", "names", "stops"),
    [
        (0, 20, 0, 0, 0, 100, False),
        (0, 20, 1, 0, 0, 100, True),
        (0, 21, 0, None, 0, 100, True),
        (10, 1, 10, 0, 0, 100, True),
        (0, 50, 0, 30, 0, 100, False),
        (0, 51, 0, 30, 0, 100, True),
        (0, 500, 500, 0, 0, 100_000, False),
        (0, 501, 500, 0, 0, 100_000, True),
        (0, 501, 500, 0, 981, 2000, False),
    ],
)
def test_losses_beyond_the_forecast_stop_the_sweep(
    lost: int, to_trash: int, to_purge: int, forecast: int | None, granted: int, names: int, stops: bool
) -> None:
    reason = losses_reason(
        lost=lost, to_trash=to_trash, to_purge=to_purge, forecast=forecast, granted=granted, names=names
    )
    assert (reason is not None) is stops
