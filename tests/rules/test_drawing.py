from datetime import UTC, datetime, timedelta

from sublet.subdomains.dates.api import TimelineEventShape
from sublet.web.drawing import draw_timeline

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def event(name: str, days: int) -> TimelineEventShape:
    return TimelineEventShape(
        event=name,
        at=NOW + timedelta(days=days),
        past=days <= 0,
        detail=None,
        by=None,
        expires_at=None,
        charged_credits=None,
    )


def test_points_stand_at_their_dates() -> None:
    found = draw_timeline([event("registered", -100), event("expires", 300), event("trashed", 200)], NOW)
    assert found is not None
    assert [(each.x, each.event) for each in found.points] == [
        (0, "registered"),
        (375, "trashed"),
        (500, "expires"),
    ]
    assert found.today == 125


def test_no_length_no_drawing() -> None:
    assert draw_timeline([], NOW) is None
    assert draw_timeline([event("registered", 0)], NOW) is None
