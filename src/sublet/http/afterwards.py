"""What is done about a request once it is answered: it is counted, and gets its line in the log."""

import asyncio
from collections.abc import Callable, Sequence

from sublet.http.access_log import Answered
from sublet.http.observe import Metrics


class Afterwards:
    """Counts and logs requests once the event loop has gone round, all together that it has answered in one go.

    One after the other each of them would take this code out of the processor's caches, and find it gone: some 8 µs of a read.
    """

    def __init__(self, metrics: Metrics, write_lines: Callable[[Sequence[Answered]], None]) -> None:
        self._metrics = metrics
        self._write_lines = write_lines
        self._answered: list[tuple[Answered, float]] = []

    def tell(self, of: Answered, seconds: float) -> None:
        """Have one request, answered in so many seconds, counted and logged; called on an event loop."""
        if not self._answered:
            asyncio.get_running_loop().call_soon(self._tell_all)
        self._answered.append((of, seconds))

    def _tell_all(self) -> None:
        answered, self._answered = self._answered, []
        for each, seconds in answered:
            self._metrics.count(each.endpoint, each.status, seconds)
        self._write_lines([each for each, _ in answered])
