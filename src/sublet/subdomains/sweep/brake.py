"""The brake of the sweep: stops it when the clock or the losses are implausible, until the operator resumes it.

A wrong clock or a wrong setting would otherwise empty the registry. A loss is a name that its dates put into the trash, or purge
from it. A purge counts only if the name was in the trash for longer than a forecast looks ahead: no forecast could know of a name
that its user has just deleted.
"""

from datetime import datetime, timedelta

from sublet import audit
from sublet.audit import SYSTEM
from sublet.counted import counted
from sublet.db import Tx
from sublet.subdomains.sweep import store
from sublet.subdomains.sweep.plausible_clock import implausible_reason, shown
from sublet.subdomains.sweep.stop import stop_sweep
from sublet.subdomains.sweep.store import SweepState

JUMP_MAX = timedelta(hours=1)
"""How far the wall clock may move relative to the monotonic clock between two looks at both."""
AWAY_MAX = timedelta(days=7)
"""How long after its last run the sweep still starts."""
FORECAST_AGE = timedelta(days=1)
"""How old a forecast must be to count: the brake is for changes since then."""
FORECAST_EVERY = timedelta(hours=1)
FORECAST_SPAN = FORECAST_AGE + 2 * FORECAST_EVERY
"""How far a forecast looks ahead: it is used at an age between `FORECAST_AGE` and an hour more."""
LOSSES_MIN = 20
LOSSES_DIVISOR = 100
"""Beyond the forecast, 20 names or 1 % of all names may be lost within a day, whichever is more."""
SEEN_EVERY = timedelta(minutes=1)
"""How often the sweep stores that it runs."""


def jump_reason(wall: timedelta, monotonic: timedelta) -> str | None:
    """Return why the sweep must stop after these times have passed on the two clocks, or None."""
    jump = wall - monotonic
    if abs(jump) <= JUMP_MAX:
        return None
    way = "forward" if jump > timedelta() else "back"
    return f"The clock jumped {way} by {shown(abs(jump))} while the service ran."


def away_reason(seen_at: datetime | None, now: datetime) -> str | None:
    """Return why the sweep, which last ran at `seen_at` (None: never), was away for too long, or None."""
    if seen_at is None or now - seen_at <= AWAY_MAX:
        return None
    return (
        f"The clock says {now:%Y-%m-%d %H:%M} UTC, {shown(now - seen_at)} after the sweep last ran: "
        "it was away for long, or the clock is wrong."
    )


def behind_reason(seen_at: datetime | None, now: datetime) -> str | None:
    """Return why the clock is behind the last run of the sweep at `seen_at` (None: never), or None."""
    if seen_at is None or seen_at - now <= JUMP_MAX:
        return None
    return (
        f"The clock says {now:%Y-%m-%d %H:%M} UTC, {shown(seen_at - now)} before the sweep last ran: "
        "it is wrong, or was wrong then."
    )


def losses_reason(
    *, lost: int, to_trash: int, to_purge: int, forecast: int | None, granted: int, names: int
) -> str | None:
    """Return why the sweep must stop before it takes the names that are due, or None.

    All are counts of names: `lost` within the last day; `to_trash` and `to_purge` now; `forecast` a day ago for the day since
    (None: there is no forecast yet); `granted` by the operator beyond the forecast; `names` in all.
    """
    allowed = (forecast or 0) + granted + max(LOSSES_MIN, names // LOSSES_DIVISOR)
    if lost + to_trash + to_purge <= allowed:
        return None
    said = "no forecast was made yet" if forecast is None else f"a day ago the dates said {forecast}"
    return (
        f"Of {counted(names, 'name')} {to_trash} would go to the trash now and {to_purge} be purged, after {lost} within a day; "
        f"{said}. A clock or a setting may be wrong."
    )


def resume_if_asked(tx: Tx, state: SweepState) -> SweepState:
    """Carry out the operator's `resume_sweep`, if there is one, and return the new state.

    Names that were changed while the clock was ahead become due: their dates depend on instants that have not come yet.
    """
    if not state.resumed:
        return state
    store.mark_changed_ahead(tx)
    store.update_sweep_state(
        tx,
        seen_at=tx.now,
        stopped_at=None,
        stopped_reason=None,
        stopped_losses=0,
        resumed=False,
        granted_losses=state.stopped_losses,
        granted_at=tx.now,
        granted_settled=False,
    )
    return store.find_sweep_state(tx)


def stop_if_clock_implausible(tx: Tx, state: SweepState) -> str | None:
    """Stop the sweep if the clock is implausible, and return why; otherwise store that the sweep runs."""
    reason = away_reason(state.seen_at, tx.now) or behind_reason(state.seen_at, tx.now)
    if state.seen_at is None:
        reason = _first_run_reason(tx)
    if reason is not None:
        stop_sweep(tx, SYSTEM, reason)
    elif state.seen_at is None or abs(tx.now - state.seen_at) >= SEEN_EVERY:
        store.update_sweep_state(tx, seen_at=tx.now)
    return reason


def _first_run_reason(tx: Tx) -> str | None:
    """Return why the first sweep of a registry without names must not trust the clock, or None.

    Later registrations are compared with the instant that the first sweep stores. If there are names, the losses decide.
    """
    newest_at = audit.newest_at(tx)
    reason = implausible_reason(newest_at, tx.now)
    if reason is None or store.count_names(tx) > 0:
        return None
    # `stop_sweep` records an event at the implausible instant, so keep the newest one before it.
    store.update_sweep_state(tx, seen_at=newest_at)
    return reason


def stop_if_losses_implausible(tx: Tx, state: SweepState) -> str | None:
    """Stop the sweep if more names are about to be lost than the dates said a day ago, and return why."""
    day_ago = tx.now - FORECAST_AGE
    # If no forecast is a day old yet, changes after the oldest one still show.
    forecast = store.find_forecast(tx, day_ago) or store.find_oldest_forecast(tx)
    granted_at = state.granted_at
    granted = state.granted_losses if granted_at is not None and day_ago < granted_at <= tx.now else 0
    lost = _count_lost(tx, day_ago)
    to_trash, to_purge = store.count_due_losses(tx, tx.now - FORECAST_SPAN)
    # Counting all names reads the whole table, so do it only if the result can matter.
    many = lost + to_trash + to_purge > (forecast or 0) + granted + LOSSES_MIN
    reason = losses_reason(
        lost=lost,
        to_trash=to_trash,
        to_purge=to_purge,
        forecast=forecast,
        granted=granted,
        names=store.count_names(tx) if many else 0,
    )
    if reason is not None:
        stop_sweep(tx, SYSTEM, reason, losses=lost + to_trash + to_purge)
    return reason


def settle(tx: Tx, state: SweepState) -> None:
    """Finish a sweep after all due names are done: end the operator's grant, and store a forecast once an hour.

    The grant shrinks to the losses that really happened, so that a second mistake can't use the rest.
    """
    if state.granted_at is not None and not state.granted_settled:
        lost = min(state.granted_losses, _count_lost(tx, state.granted_at - timedelta(microseconds=1)))
        store.update_sweep_state(tx, granted_losses=lost, granted_at=tx.now, granted_settled=True)
    newest = store.find_newest_forecast_at(tx)
    if newest is not None and timedelta() <= tx.now - newest < FORECAST_EVERY:
        return
    # A forecast of the future was made while the clock was ahead.
    store.delete_forecasts(tx, before=tx.now - 3 * FORECAST_AGE, since=tx.now)
    store.insert_forecast(tx, store.count_losses(tx, tx.now + FORECAST_SPAN))


def _count_lost(tx: Tx, since: datetime) -> int:
    return store.count_lost(tx, since, trashed_before=since - FORECAST_SPAN)
