"""When a name is looked at, and when its state changes (rules)."""

from dataclasses import replace
from datetime import datetime, timedelta

from sublet.health.model import BROKEN, DEGRADED, HEALTHY, UNKNOWN, Health, Report

FIRST_LOOK = timedelta(minutes=2)
"""How long after a change the first look is: the holder may still start its nameservers."""
CONFIRM_AFTER = timedelta(minutes=10)
"""A state changes if two looks this far apart agree."""
CONFIRM_SLACK = timedelta(seconds=30)
DAILY = timedelta(days=1)
JITTER = 0.1
"""The part by which the daily look moves, so that names that were registered together drift apart."""
BROKEN_FIRST = timedelta(hours=1)
UNKNOWN_FIRST = timedelta(minutes=10)
LASTING = timedelta(hours=3)
"""How long a name is broken before its user is mailed."""
NOTICE = timedelta(days=7)
"""How long before a broken name leaves the DNS its user gets a mail; half of `broken_days` if that is shorter."""
WORKING = (HEALTHY, DEGRADED)


def first_look_at(now: datetime, chance: float) -> datetime:
    """Return when a name that was just published is looked at; `chance` is 0 to 1."""
    return now + FIRST_LOOK * (1 + chance / 2)


def new_health(subdomain_id: int, now: datetime, due_at: datetime) -> Health:
    """Return the health of a name that was never looked at."""
    return Health(subdomain_id, 0, UNKNOWN, now, (), None, None, None, 0, None, due_at)


def after_look(health: Health, report: Report, generation: int, now: datetime, chance: float) -> Health:
    """Return the health after a look at a generation.

    The first look at a generation decides. Later ones need a second look that agrees, `CONFIRM_AFTER` later.
    """
    failures = 0 if report.state in WORKING else health.failures + 1
    looked = replace(
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
        return _scheduled(_in_state(looked, report.state, now), now, chance)
    seen_since = health.next_since if health.next_state == report.state else None
    if seen_since is None:
        return replace(looked, next_state=report.state, next_since=now, due_at=now + CONFIRM_AFTER)
    if now - seen_since < CONFIRM_AFTER - CONFIRM_SLACK:
        return replace(
            looked, next_state=report.state, next_since=seen_since, due_at=seen_since + CONFIRM_AFTER
        )
    return _scheduled(_in_state(looked, report.state, now), now, chance)


def _in_state(health: Health, state: str, now: datetime) -> Health:
    return health if state == health.state else replace(health, state=state, since=now)


def _scheduled(health: Health, now: datetime, chance: float) -> Health:
    return replace(health, due_at=now + pause(health.state, health.failures, chance))


def pause(state: str, failures: int, chance: float) -> timedelta:
    """Return the time until the next look: a day, or less while the name doesn't work; the pauses double. `chance` is 0 to 1."""
    daily = DAILY * (1 + JITTER * (2 * chance - 1))
    if state in WORKING:
        return daily
    first = BROKEN_FIRST if state == BROKEN else UNKNOWN_FIRST
    doublings = min(max(failures - 1, 0), 10)
    return min(daily, first * (float(2**doublings) * (1 + JITTER * chance)))


def is_breakage_due(health: Health, now: datetime) -> bool:
    """True if the user has to learn by mail that the name is broken."""
    return health.state == BROKEN and health.mailed_at is None and now - health.since >= LASTING


def leaves_at(health: Health, broken_days: int) -> datetime | None:
    """Return when a broken name leaves the DNS if it stays broken: after `broken_days`, and not before its user was told in time.

    None if it isn't broken, or its platform domain keeps such names (0 days).
    """
    if health.state != BROKEN or broken_days == 0:
        return None
    at = health.since + timedelta(days=broken_days)
    return at if health.warned_at is None else max(at, health.warned_at + _notice(broken_days))


def is_notice_due(health: Health, broken_days: int, now: datetime) -> bool:
    """True if the user has to be told that the name leaves the DNS."""
    at = leaves_at(health, broken_days)
    return at is not None and health.warned_at is None and now >= at - _notice(broken_days)


def is_undelegation_due(health: Health, broken_days: int, now: datetime) -> bool:
    """True if a broken name leaves the DNS now."""
    at = leaves_at(health, broken_days)
    return at is not None and health.warned_at is not None and now >= at


def _notice(broken_days: int) -> timedelta:
    return min(NOTICE, timedelta(days=broken_days) / 2)


def is_recovery_due(health: Health) -> bool:
    """True if the user was mailed about a breakage that is over."""
    return health.mailed_at is not None and health.state in WORKING
