"""Refuse registrations, renewals and restores while the clock is implausible, because their terms would get
wrong dates.

The clock is compared with the time of the last sweep (`clockwork.seen_at`). The brake lets this time advance
by at most a week at once, unless the operator runs `sublet sweep resume`. Before the first sweep, the clock
is compared with the newest audit event. Afterwards audit events aren't used: a wrong clock also sets their
times, so the first event would make the wrong clock plausible.
"""

from datetime import datetime, timedelta

from sublet import audit
from sublet.counted import counted
from sublet.db import Tx
from sublet.errors import ClockImplausible
from sublet.subdomains.sweep import store

AHEAD_MAX = timedelta(days=400)
"""The maximum time from the last sweep to the clock. It is over a year, so that a registry can restart after
a year.
"""
BEHIND_MAX = timedelta(days=1)
RETRY_SECONDS = 60


def implausible_clock_reason(newest_at: datetime | None, now: datetime) -> str | None:
    """Return why the clock is implausible after the stored instant `newest_at` (None: nothing is stored yet),
    or None.
    """
    if newest_at is None:
        return None
    if now - newest_at > AHEAD_MAX:
        return (
            f"The registry's clock says {now:%Y-%m-%d %H:%M} UTC, {span_in_words(now - newest_at)} after "
            "the last known correct time."
        )
    if newest_at - now > BEHIND_MAX:
        return (
            f"The registry's clock says {now:%Y-%m-%d %H:%M} UTC, {span_in_words(newest_at - now)} before "
            "the last known correct time."
        )
    return None


def span_in_words(span: timedelta) -> str:
    """Return a span in words: in days, or in hours if it is less than two days."""
    hours = round(span / timedelta(hours=1))
    return counted(hours // 24, "day") if hours >= 48 else counted(hours, "hour")


def find_implausible_clock_reason(tx: Tx) -> str | None:
    """Return why the clock of this transaction is implausible, or None. Reads one row."""
    seen_at = store.find_sweep_state(tx).seen_at
    return implausible_clock_reason(seen_at or audit.newest_at(tx), tx.now)


def refuse_implausible_clock(tx: Tx) -> None:
    """Raise `ClockImplausible` if the clock is more than `AHEAD_MAX` ahead of the last sweep, or more than
    `BEHIND_MAX` behind it.
    """
    refuse_clock(find_implausible_clock_reason(tx))


def refuse_clock(reason: str | None) -> None:
    """Raise `ClockImplausible` if there is a reason (`find_implausible_clock_reason`)."""
    if reason is not None:
        raise ClockImplausible(
            f"{reason} Names can be registered, renewed and restored once the operator has checked the "
            "clock. Try again later.",
            retry_after_seconds=RETRY_SECONDS,
        )
