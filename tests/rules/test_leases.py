"""Leases: when they are free, when they are renewed, and when a process counts as gone."""

from datetime import UTC, datetime, timedelta

import pytest

from sublet.processes.leases import (
    DURATION_MAX,
    PUBLISH_FOR,
    SWEEP_FOR,
    WATCH_FOR,
    check_lease,
    is_fresh,
    is_over,
    publish_lease,
)
from sublet.processes.model import Lease, Process
from sublet.processes.processes import GONE_AFTER, HEARTBEAT_SECONDS, is_running
from sublet.structs import replace

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
STEP = timedelta(microseconds=1)


def _lease(left: timedelta) -> Lease:
    return Lease("publish:1", "a", 1, NOW + left)


@pytest.mark.parametrize(
    ("left", "over"),
    [
        (timedelta(days=-1), True),
        (timedelta(), True),
        (STEP, False),
        (DURATION_MAX, False),
        (DURATION_MAX + STEP, True),
        (timedelta(days=400), True),
    ],
)
def test_a_lease_is_over_if_expired_or_set_by_a_wrong_clock(left: timedelta, over: bool) -> None:
    assert is_over(_lease(left), NOW) is over


@pytest.mark.parametrize(
    ("left", "fresh"),
    [
        (timedelta(), False),
        (PUBLISH_FOR / 2, False),
        (PUBLISH_FOR / 2 + STEP, True),
        (PUBLISH_FOR, True),
        (DURATION_MAX + STEP, False),
    ],
)
def test_a_lease_is_renewed_after_half_of_its_duration(left: timedelta, fresh: bool) -> None:
    assert is_fresh(_lease(left), NOW, PUBLISH_FOR) is fresh


def test_a_process_is_gone_after_three_missed_heartbeats() -> None:
    assert timedelta(seconds=3 * HEARTBEAT_SECONDS) < GONE_AFTER
    process = Process("a", "worker", "host", 1, "0.1.0", "0004", NOW, NOW)
    for silent, there in ((timedelta(), True), (GONE_AFTER, True), (GONE_AFTER + STEP, False)):
        assert is_running(process, NOW + silent) is there
        assert is_running(replace(process, seen_at=NOW + silent), NOW) is there


def test_leases_are_at_most_as_long_as_the_maximum_duration() -> None:
    assert max(PUBLISH_FOR, SWEEP_FOR, WATCH_FOR) <= DURATION_MAX
    assert publish_lease(2**63 - 1) != check_lease(2**63 - 1)
    assert len(publish_lease(2**63 - 1)) <= 64
