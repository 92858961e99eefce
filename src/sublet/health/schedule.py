"""Decide when names are checked, when their states change, and when broken names leave the DNS (rules)."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sublet.health.model import BROKEN, DEGRADED, HEALTHY, IMPAIRED, UNKNOWN, Finding, Health, Report
from sublet.structs import replace

FIRST_CHECK = timedelta(minutes=2)
"""The minimum time between a change and the first check, so that the holder can start the nameservers."""
CONFIRM_AFTER = timedelta(minutes=10)
"""The minimum time between the two checks that must find the same new state before the state changes."""
CONFIRM_SLACK = timedelta(seconds=30)
"""How much earlier the second check may be."""
DAILY = timedelta(days=1)
JITTER = 0.1
"""The fraction by which the pause between checks varies, so that names that were registered together aren't
checked together.
"""
BROKEN_FIRST = timedelta(hours=1)
UNKNOWN_FIRST = timedelta(minutes=10)
IMPAIRED_MAX = timedelta(minutes=30)
"""The maximum pause while the registry can't check, so that the states are right again within an hour after
that.
"""
MAILED_AFTER = timedelta(hours=3)
"""How long a name must be broken before its user gets a mail."""
NOTICE = timedelta(days=7)
"""The time between the warning mail and the removal of a broken name from the DNS. It is at most half of
`broken_days`.
"""
WORKING = (HEALTHY, DEGRADED)


def first_check_at(now: datetime, chance: float) -> datetime:
    """Return the time of the first check after a change. `chance` is a random number from 0 to 1."""
    return now + FIRST_CHECK * (1 + chance / 2)


def new_health(subdomain_id: int, now: datetime, due_at: datetime) -> Health:
    """Return the health of a name that was never checked."""
    return Health(subdomain_id, 0, UNKNOWN, now, (), None, None, None, 0, None, due_at)


def after_check(health: Health, report: Report, generation: int, now: datetime, chance: float) -> Health:
    """Return the health after a check of a generation. `chance` is a random number from 0 to 1.

    The first check of a generation sets the state. After that, two checks, `CONFIRM_AFTER` apart, must find a
    new state before it is set.
    """
    # Checks that say nothing about the name are counted apart, so that the next real check comes soon after
    # them.
    before = health.failures if _is_impaired(health.findings) == _is_impaired(report.findings) else 0
    failures = 0 if report.state in WORKING else before + 1
    checked = replace(
        health,
        generation=generation,
        findings=report.findings,
        checked_at=now,
        failures=failures,
        next_state=None,
        next_since=None,
    )
    is_first = health.generation != generation or health.checked_at is None
    if report.state == health.state or is_first:
        return _schedule_next(_set_state(checked, report.state, now), now, chance)
    seen_since = health.next_since if health.next_state == report.state else None
    if seen_since is None:
        return replace(checked, next_state=report.state, next_since=now, due_at=now + CONFIRM_AFTER)
    if now - seen_since < CONFIRM_AFTER - CONFIRM_SLACK:
        return replace(
            checked, next_state=report.state, next_since=seen_since, due_at=seen_since + CONFIRM_AFTER
        )
    return _schedule_next(_set_state(checked, report.state, now), now, chance)


def _is_impaired(findings: Sequence[Finding]) -> bool:
    return any(each.code == IMPAIRED for each in findings)


def _set_state(health: Health, state: str, now: datetime) -> Health:
    return health if state == health.state else replace(health, state=state, since=now)


def _schedule_next(health: Health, now: datetime, chance: float) -> Health:
    pause = next_pause(health.state, health.failures, chance)
    return replace(
        health, due_at=now + (min(pause, IMPAIRED_MAX) if _is_impaired(health.findings) else pause)
    )


def next_pause(state: str, failures: int, chance: float) -> timedelta:
    """Return the time until the next check: about a day.

    While the name doesn't work it is shorter, and doubles with each failure up to a day.
    """
    daily = DAILY * (1 + JITTER * (2 * chance - 1))
    if state in WORKING:
        return daily
    first = BROKEN_FIRST if state == BROKEN else UNKNOWN_FIRST
    doublings = min(max(failures - 1, 0), 10)
    return min(daily, first * (float(2**doublings) * (1 + JITTER * chance)))


def is_breakage_due(health: Health, now: datetime) -> bool:
    """True if the mail that the name is broken is due."""
    return health.state == BROKEN and health.mailed_at is None and now - health.since >= MAILED_AFTER


def leaves_at(health: Health, broken_days: int) -> datetime | None:
    """Return when a name leaves the DNS if it stays broken: after `broken_days`, and at least a notice period
    after the warning.

    Return None if the name isn't broken, or if `broken_days` is 0, which never removes broken names.
    """
    if health.state != BROKEN or broken_days == 0:
        return None
    at = health.since + timedelta(days=broken_days)
    return at if health.warned_at is None else max(at, health.warned_at + _notice_period(broken_days))


def is_notice_due(health: Health, broken_days: int, now: datetime) -> bool:
    """True if the warning that the name will leave the DNS is due."""
    at = leaves_at(health, broken_days)
    return at is not None and health.warned_at is None and now >= at - _notice_period(broken_days)


def is_undelegation_due(health: Health, broken_days: int, now: datetime) -> bool:
    """True if a broken name must leave the DNS now."""
    at = leaves_at(health, broken_days)
    return at is not None and health.warned_at is not None and now >= at


def next_consequence_at(health: Health, broken_days: int) -> datetime | None:
    """Return when the next mail about a breakage or the removal from the DNS is due, so that a check comes in
    time; None if none is.
    """
    if health.state != BROKEN:
        return None
    if health.mailed_at is None:
        return health.since + MAILED_AFTER
    at = leaves_at(health, broken_days)
    return at - _notice_period(broken_days) if at is not None and health.warned_at is None else at


def _notice_period(broken_days: int) -> timedelta:
    return min(NOTICE, timedelta(days=broken_days) / 2)


def is_recovery_due(health: Health) -> bool:
    """True if the mail that the name works again is due."""
    return health.mailed_at is not None and health.state in WORKING
