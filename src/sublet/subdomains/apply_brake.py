"""The sweep's dealings with its brake: what it compares, the operator's word, the forecasts. The rules are in `brake.py`.

The counts are of names. A name in the trash counts as lost only where it was there longer than a forecast looks ahead: what a
user has just deleted, and a short time in the trash, no forecast could know.
"""

from datetime import datetime, timedelta

from sublet import audit
from sublet.audit import SYSTEM
from sublet.db import Tx
from sublet.subdomains import sweep_store
from sublet.subdomains.brake import (
    FORECAST_AGE,
    FORECAST_EVERY,
    FORECAST_SPAN,
    LOSSES_MIN,
    away_reason,
    behind_reason,
    losses_reason,
)
from sublet.subdomains.plausible_clock import implausible_reason
from sublet.subdomains.stop_sweep import stop_sweep
from sublet.subdomains.sweep_store import Clockwork

SEEN_EVERY = timedelta(minutes=1)
"""How exact it is remembered when the sweep last ran."""


def take_word(tx: Tx, state: Clockwork) -> Clockwork:
    """Go on when the operator said so: the clock is right, and what would have been lost when it stopped may be lost.

    What was written while the clock was ahead is looked at: its dates are of a time that has not come.
    """
    if not state.resumed:
        return state
    sweep_store.look_at_the_future(tx)
    sweep_store.update_clockwork(
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
    return sweep_store.find_clockwork(tx)


def stop_for_the_clock(tx: Tx, state: Clockwork) -> str | None:
    """Stop where the clock is implausible after what was last seen, and return why; else remember that the sweep runs."""
    reason = away_reason(state.seen_at, tx.now) or behind_reason(state.seen_at, tx.now)
    if state.seen_at is None:
        reason = _look_first(tx)
    if reason is not None:
        stop_sweep(tx, SYSTEM, reason)
    elif state.seen_at is None or abs(tx.now - state.seen_at) >= SEEN_EVERY:
        sweep_store.update_clockwork(tx, seen_at=tx.now)
    return reason


def _look_first(tx: Tx) -> str | None:
    """Return why the first sweep of a registry without names must not take the clock for right, or None.

    What it sees is what registrations are held against from now on. Where there are names already, losses are what counts.
    """
    newest_at = audit.newest_at(tx)
    reason = implausible_reason(newest_at, tx.now)
    if reason is None or sweep_store.count_names(tx) > 0:
        return None
    # The stop is an audit event of the implausible clock, so the newest instant before it is kept here.
    sweep_store.update_clockwork(tx, seen_at=newest_at)
    return reason


def stop_for_the_losses(tx: Tx, state: Clockwork) -> str | None:
    """Stop where more names are to be lost now than the dates said a day ago, and return why."""
    day_ago = tx.now - FORECAST_AGE
    # Where none is a day old, the oldest: what was changed since that one was made is still seen.
    forecast = sweep_store.find_forecast(tx, day_ago) or sweep_store.find_oldest_forecast(tx)
    granted_at = state.granted_at
    granted = state.granted_losses if granted_at is not None and day_ago < granted_at <= tx.now else 0
    lost = _count_lost(tx, day_ago)
    to_trash, to_purge = sweep_store.count_due_losses(tx, tx.now - FORECAST_SPAN)
    known = (forecast or 0) + granted
    # All names are only counted where it may come to that: it takes long.
    many = lost + to_trash + to_purge > known + LOSSES_MIN
    reason = losses_reason(
        lost=lost,
        to_trash=to_trash,
        to_purge=to_purge,
        forecast=forecast,
        granted=granted,
        names=sweep_store.count_names(tx) if many else 0,
    )
    if reason is not None:
        stop_sweep(tx, SYSTEM, reason, losses=lost + to_trash + to_purge)
    return reason


def settle(tx: Tx, state: Clockwork) -> None:
    """Do what is for the end of a sweep, when all that was due is done: end the operator's grant, forecast once an hour.

    Of a grant what was really lost is kept, for as long as that counts: nothing is left for the next mistake.
    """
    if state.granted_at is not None and not state.granted_settled:
        lost = min(state.granted_losses, _count_lost(tx, state.granted_at - timedelta(microseconds=1)))
        sweep_store.update_clockwork(tx, granted_losses=lost, granted_at=tx.now, granted_settled=True)
    newest = sweep_store.find_newest_forecast_at(tx)
    if newest is not None and timedelta() <= tx.now - newest < FORECAST_EVERY:
        return
    # Those of the future were made while the clock was ahead.
    sweep_store.delete_forecasts(tx, before=tx.now - 3 * FORECAST_AGE, since=tx.now)
    sweep_store.insert_forecast(tx, sweep_store.count_losses(tx, tx.now + FORECAST_SPAN))


def _count_lost(tx: Tx, since: datetime) -> int:
    return sweep_store.count_lost(tx, since, trashed_before=since - FORECAST_SPAN)
