"""The drawing of a name's timeline: a line from its first to its last date, with a point for each event."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from sublet.subdomains.dates.api import TimelineEventShape

WIDTH = 500
"""The width of the drawing in its own units."""


class DrawnPoint(Struct, frozen=True):
    """An event on the line, at `x` from 0 to `WIDTH`."""

    x: int
    event: str
    at: datetime
    past: bool


class Drawing(Struct, frozen=True):
    """The points of a timeline in their order, and the place of the present."""

    points: tuple[DrawnPoint, ...]
    today: int


def draw_timeline(events: Sequence[TimelineEventShape], now: datetime) -> Drawing | None:
    """Return the drawing of events; None if they have no length."""
    moments = sorted([now, *(each.at for each in events)])
    length = (moments[-1] - moments[0]).total_seconds()
    if length <= 0:
        return None

    def place(at: datetime) -> int:
        return round(WIDTH * (at - moments[0]).total_seconds() / length)

    points = (DrawnPoint(place(each.at), each.event, each.at, each.past) for each in events)
    return Drawing(tuple(sorted(points, key=lambda each: each.at)), place(now))
