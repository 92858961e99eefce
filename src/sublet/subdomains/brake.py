"""The brake of the sweep: when it has to stop and ask, since a wrong clock or a wrong setting would empty the registry (rules)."""

from datetime import datetime, timedelta

from sublet.counted import counted

JUMP_MAX = timedelta(hours=1)
"""How far the wall clock may go apart from the monotonic one between two looks at them."""
AWAY_MAX = timedelta(days=7)
"""How far the clock may lie after what was last seen."""
FORECAST_AGE = timedelta(days=1)
"""How old a forecast has to be to count: what was changed since is what the brake is for."""
FORECAST_EVERY = timedelta(hours=1)
FORECAST_SPAN = FORECAST_AGE + 2 * FORECAST_EVERY
"""How far a forecast looks ahead: it counts at an age between `FORECAST_AGE` and an hour more."""
LOSSES_MIN = 20
LOSSES_DIVISOR = 100
"""Beyond the forecast 20 names may be lost within a day, or one in a hundred."""


def jump_reason(wall: timedelta, monotonic: timedelta) -> str | None:
    """Return why the sweep has to stop after these times went by on the two clocks, or None."""
    jump = wall - monotonic
    if abs(jump) <= JUMP_MAX:
        return None
    way = "forward" if jump > timedelta() else "back"
    return f"The clock jumped {way} by {shown(abs(jump))} while the service ran."


def away_reason(seen_at: datetime | None, now: datetime) -> str | None:
    """Return why the sweep has to stop that last ran at `seen_at` (None: never before), or None."""
    if seen_at is None or now - seen_at <= AWAY_MAX:
        return None
    return (
        f"The clock says {now:%Y-%m-%d %H:%M} UTC, {shown(now - seen_at)} after the sweep last ran: "
        "it was away for long, or the clock is wrong."
    )


def behind_reason(seen_at: datetime | None, now: datetime) -> str | None:
    """Return why the sweep has to stop whose clock lies before its own last look, or None."""
    if seen_at is None or seen_at - now <= JUMP_MAX:
        return None
    return (
        f"The clock says {now:%Y-%m-%d %H:%M} UTC, {shown(seen_at - now)} before the sweep last ran: "
        "it is wrong, or was wrong then."
    )


def losses_reason(
    *, lost: int, to_trash: int, to_purge: int, forecast: int | None, granted: int, names: int
) -> str | None:
    """Return why the sweep has to stop before it loses the names that are due, or None.

    All are counts of names: `lost` within the last day; due now, `to_trash` and `to_purge`; `forecast` a day ago for the day since
    (None: nothing was forecast yet); `granted` by the operator beyond it; `names` held in all.
    """
    allowed = (forecast or 0) + granted + max(LOSSES_MIN, names // LOSSES_DIVISOR)
    if lost + to_trash + to_purge <= allowed:
        return None
    said = "no forecast was made yet" if forecast is None else f"a day ago the dates said {forecast}"
    return (
        f"Of {counted(names, 'name')} {to_trash} would go to the trash now and {to_purge} be purged, after {lost} within a day; "
        f"{said}. A clock or a setting may be wrong."
    )


def shown(span: timedelta) -> str:
    """Return a span as a sentence has it: days, or hours where it is less than two days."""
    hours = round(span / timedelta(hours=1))
    return counted(hours // 24, "day") if hours >= 48 else counted(hours, "hour")
