"""Whether the clock may date a term: registrations and renewals are refused while it is implausible.

The newest instant that counts is the one at which the sweep last ran (`clockwork.seen_at`). The sweep's brake moves it forward by at
most a week at a time, or by the operator's word (`sublet sweep resume`). Audit events and transfers don't count, since a wrong
clock stamps them too: the first of them would make the wrong clock plausible. Only before the first sweep the newest audit event does.
"""

from datetime import datetime, timedelta

from sublet import audit
from sublet.db import Tx
from sublet.errors import ClockImplausible
from sublet.subdomains import sweep_store
from sublet.subdomains.brake import shown

AHEAD_MAX = timedelta(days=400)
"""How far the clock may be ahead of the newest instant: longer than a year, for a registry that was off for one."""
BEHIND_MAX = timedelta(days=1)
"""How far it may be behind it."""
RETRY_SECONDS = 60


def implausible_reason(newest_at: datetime | None, now: datetime) -> str | None:
    """Return why the clock is implausible after `newest_at` (None: nothing is stored yet), or None if it is plausible."""
    if newest_at is None:
        return None
    if now - newest_at > AHEAD_MAX:
        return f"The registry's clock says {now:%Y-%m-%d %H:%M} UTC, {shown(now - newest_at)} after it was last known to be right."
    if newest_at - now > BEHIND_MAX:
        return f"The registry's clock says {now:%Y-%m-%d %H:%M} UTC, {shown(newest_at - now)} before it was last known to be right."
    return None


def find_implausible_reason(tx: Tx) -> str | None:
    """Return why the clock of this transaction is implausible, or None. Reads one row."""
    seen_at = sweep_store.find_clockwork(tx).seen_at
    return implausible_reason(seen_at or audit.newest_at(tx), tx.now)


def refuse_implausible_clock(tx: Tx) -> None:
    """Refuse what would get its dates from a wrong clock.

    Raises:
        ClockImplausible: it is more than `AHEAD_MAX` ahead of the newest instant, or more than `BEHIND_MAX` behind it.
    """
    reason = find_implausible_reason(tx)
    if reason is not None:
        raise ClockImplausible(
            f"{reason} Names can be registered, renewed and restored once the operator has checked the clock. Try again later.",
            retry_after_seconds=RETRY_SECONDS,
        )
