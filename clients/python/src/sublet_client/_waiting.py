"""When a name's state counts as settled, and how often to look (no network, no clock)."""

from collections.abc import Iterator

UNSETTLED = frozenset({"provisioning"})
FIRST_PAUSE_SECONDS, PAUSE_MAX_SECONDS = 0.25, 5.0


def pauses() -> Iterator[float]:
    """Yield the seconds between two looks: each longer than the one before, up to five."""
    seconds = FIRST_PAUSE_SECONDS
    while True:
        yield seconds
        seconds = min(PAUSE_MAX_SECONDS, seconds * 1.5)
