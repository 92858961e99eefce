"""Stop the sweep while the clock or the number of losses is implausible.

A wrong clock or setting could otherwise empty the registry. A loss is a name that the sweep trashes or purges
because its dates have passed. Not counted: the purge of a name that was trashed after the forecast was made,
because the forecast can't include the purge.
"""

from datetime import datetime, timedelta

from sublet import audit
from sublet.accounts.fields import check_reason
from sublet.audit import SYSTEM, Actor
from sublet.counted import counted
from sublet.db import Tx
from sublet.errors import Conflict, validation_failed
from sublet.mail.operator_notices import notify_operator
from sublet.subdomains.sweep import store
from sublet.subdomains.sweep.plausible_clock import implausible_clock_reason, span_in_words
from sublet.subdomains.sweep.store import SweepState


def stop_sweep(tx: Tx, actor: Actor, reason: str | None = None, *, losses: int = 0) -> SweepState:
    """Stop the sweep until the operator resumes it.

    Publishing continues. If the brake stops it, notify the operator.

    `losses` is the number of losses that the sweep was about to cause. `resume_sweep` will allow this number.

    Raises, in this order:
        ValidationFailed: the reason is too long or has unprintable characters.
        Conflict: the sweep is stopped already.
    """
    state = store.lock_sweep_state(tx)
    text, errors = check_reason(reason)
    if errors:
        raise validation_failed(errors)
    if state.stopped_at is not None and not state.resumed:
        raise Conflict("The sweep is stopped already. See `sublet sweep status`.")
    why = text or "The operator stopped it."
    store.update_sweep_state(tx, stopped_at=tx.now, stopped_reason=why, stopped_losses=losses, resumed=False)
    audit.record(tx, actor, "sweep.stop", 1, after={"reason": why, "losses": losses})
    if actor.kind == "system":
        notify_operator(
            tx,
            "sweep",
            f"The sweep has stopped, so names don't expire: {why} Check the clock with `sublet sweep "
            "status`, then run `sublet sweep resume`.",
            reference=f"sweep:{tx.now.isoformat()}",
        )
    return store.find_sweep_state(tx)


def resume_sweep(tx: Tx, actor: Actor) -> SweepState:
    """Resume the sweep after the operator has checked the clock.

    Allow the number of losses that the sweep was about to cause.

    The worker continues within a second. The brake stops the sweep again if more losses are due.

    Raises:
        Conflict: the sweep is not stopped.
    """
    state = store.lock_sweep_state(tx)
    if state.stopped_at is None or state.resumed:
        raise Conflict("The sweep is not stopped. No action needed.")
    store.update_sweep_state(tx, resumed=True)
    before = {"reason": state.stopped_reason, "losses": state.stopped_losses}
    audit.record(tx, actor, "sweep.resume", 1, before=before)
    return store.find_sweep_state(tx)


JUMP_MAX = timedelta(hours=1)
"""The maximum difference between the times that have passed by the wall clock and by the monotonic clock, and
between the clocks of this host and of the database.
"""
AWAY_MAX = timedelta(days=7)
"""The maximum time since the last sweep. After a longer time the operator must resume the sweep."""
FORECAST_AGE = timedelta(days=1)
"""The minimum age of the forecast that losses are compared with. A newer one could contain the mistake."""
FORECAST_EVERY = timedelta(hours=1)
FORECAST_SPAN = FORECAST_AGE + 2 * FORECAST_EVERY
"""The period that a forecast covers. It exceeds `FORECAST_AGE`, because a forecast may be older when it is
used.
"""
LOSSES_MIN = 20
LOSSES_DIVISOR = 100
"""The losses allowed within a day beyond the forecast: 20 names or 1 % of all names, whichever is more."""
SEEN_EVERY = timedelta(minutes=1)
"""The interval at which a running sweep stores the current time as `seen_at`."""


def jump_reason(wall: timedelta, monotonic: timedelta) -> str | None:
    """Return why the sweep must stop, or None.

    The arguments are the times by which the two clocks have advanced.
    """
    jump = wall - monotonic
    if abs(jump) <= JUMP_MAX:
        return None
    direction = "forward" if jump > timedelta() else "back"
    return f"The clock jumped {direction} by {span_in_words(abs(jump))} while the service ran."


def apart_reason(ahead: timedelta) -> str | None:
    """Return why the sweep must stop, or None: this host's clock is `ahead` of the clock that all workers
    share, or behind it if `ahead` is negative.
    """
    if abs(ahead) <= JUMP_MAX:
        return None
    direction = "ahead of" if ahead > timedelta() else "behind"
    return f"The clock of the worker's host is {span_in_words(abs(ahead))} {direction} the database's clock."


def away_reason(seen_at: datetime | None, now: datetime) -> str | None:
    """Return why the sweep must stop, or None: the last sweep, at `seen_at`, is too long ago."""
    if seen_at is None or now - seen_at <= AWAY_MAX:
        return None
    return (
        f"The clock says {now:%Y-%m-%d %H:%M} UTC, {span_in_words(now - seen_at)} after the sweep last ran: "
        "the worker was off for a long time, or the clock is wrong."
    )


def behind_reason(seen_at: datetime | None, now: datetime) -> str | None:
    """Return why the sweep must stop, or None: the clock is behind the last sweep, at `seen_at`."""
    if seen_at is None or seen_at - now <= JUMP_MAX:
        return None
    return (
        f"The clock says {now:%Y-%m-%d %H:%M} UTC, {span_in_words(seen_at - now)} before the sweep last ran: "
        "the clock is wrong, or was wrong then."
    )


def losses_reason(
    *, lost: int, to_trash: int, to_purge: int, forecast: int | None, granted: int, names: int
) -> str | None:
    """Return why the sweep must stop before it trashes or purges the due names, or None.

    The arguments are numbers of names: `lost` within the last day, `to_trash` and `to_purge` now, `forecast`
    a day ago (None: no forecast yet), `granted` by the operator in addition, and all `names`.
    """
    allowed = (forecast or 0) + granted + max(LOSSES_MIN, names // LOSSES_DIVISOR)
    if lost + to_trash + to_purge <= allowed:
        return None
    expected = (
        "There is no forecast yet." if forecast is None else f"The forecast of a day ago was {forecast}."
    )
    return (
        f"Of {counted(names, 'name')}, {to_trash} would go to the trash now and {to_purge} would be "
        f"purged, after {lost} losses within a day. "
        f"{expected} The clock or a setting may be wrong."
    )


def apply_resume(tx: Tx, state: SweepState) -> SweepState:
    """Resume the sweep if the operator has called `resume_sweep`. Return the new state.

    Names that were changed while the clock was ahead become due, because their dates were computed from
    instants in the future.
    """
    if not state.resumed:
        return state
    store.mark_future_changes_due(tx)
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
    """Stop the sweep if the clock is implausible, and return why. Otherwise store the time of this sweep."""
    reason = away_reason(state.seen_at, tx.now) or behind_reason(state.seen_at, tx.now)
    if state.seen_at is None:
        reason = _first_run_reason(tx)
    if reason is not None:
        stop_sweep(tx, SYSTEM, reason)
    elif state.seen_at is None or abs(tx.now - state.seen_at) >= SEEN_EVERY:
        store.update_sweep_state(tx, seen_at=tx.now)
    return reason


def _first_run_reason(tx: Tx) -> str | None:
    """Return why the clock is implausible at the first sweep of a registry without names, or None.

    In a registry with names, the check of losses detects a wrong clock.
    """
    newest_at = audit.newest_at(tx)
    reason = implausible_clock_reason(newest_at, tx.now)
    if reason is None or store.count_names(tx) > 0:
        return None
    # `stop_sweep` will record an audit event with the implausible time. Store the last plausible time first.
    store.update_sweep_state(tx, seen_at=newest_at)
    return reason


def stop_if_losses_implausible(tx: Tx, state: SweepState) -> str | None:
    """Stop the sweep if the losses would exceed the forecast of a day ago by too many, and return why."""
    day_ago = tx.now - FORECAST_AGE
    forecast = store.find_forecast(tx, day_ago)
    if forecast is None:
        # No forecast is a day old yet.
        forecast = store.find_oldest_forecast(tx)
    granted_at = state.granted_at
    granted = state.granted_losses if granted_at is not None and day_ago < granted_at <= tx.now else 0
    lost = _count_lost(tx, day_ago)
    to_trash, to_purge = store.count_due_losses(tx, tx.now - FORECAST_SPAN)
    # Counting all names reads the whole table, so count only if the limit depends on the number.
    needs_count = lost + to_trash + to_purge > (forecast or 0) + granted + LOSSES_MIN
    reason = losses_reason(
        lost=lost,
        to_trash=to_trash,
        to_purge=to_purge,
        forecast=forecast,
        granted=granted,
        names=store.count_names(tx) if needs_count else 0,
    )
    if reason is not None:
        stop_sweep(tx, SYSTEM, reason, losses=lost + to_trash + to_purge)
    return reason


def settle_grant(tx: Tx, state: SweepState) -> None:
    """Reduce the operator's grant to the losses that happened, so that a second mistake can't use the
    remainder.
    """
    if state.granted_at is not None and not state.granted_settled:
        lost = min(state.granted_losses, _count_lost(tx, state.granted_at - timedelta(microseconds=1)))
        store.update_sweep_state(tx, granted_losses=lost, granted_at=tx.now, granted_settled=True)


def store_forecast_if_due(tx: Tx) -> None:
    """Store a forecast and delete old forecasts, unless one was stored within the last hour."""
    newest = store.find_newest_forecast_at(tx)
    if newest is not None and timedelta() <= tx.now - newest < FORECAST_EVERY:
        return
    # Also delete forecasts with a time in the future: they were made while the clock was ahead.
    store.delete_forecasts(tx, before=tx.now - 3 * FORECAST_AGE, since=tx.now)
    store.insert_forecast(tx, store.count_losses(tx, tx.now + FORECAST_SPAN))


def _count_lost(tx: Tx, since: datetime) -> int:
    return store.count_lost(tx, since, trashed_before=since - FORECAST_SPAN)
