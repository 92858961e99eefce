"""How long requests may take: one timer looks at all that are under way, which is cheaper than one for each."""

import asyncio
import time
from typing import Any

LOOK_SECONDS = 0.25
"""How often it is looked whether one is overdue, while there are any."""


class Deadlines:
    """Cancels tasks that are under way for more than `seconds`; of one event loop."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due: dict[asyncio.Task[Any], float] = {}
        self._is_looking = False

    def begin(self) -> asyncio.Task[Any]:
        """Count from now on for the task that runs; return it for `end`."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - it runs
        self._due[task] = time.monotonic() + self._seconds
        if not self._is_looking:
            self._is_looking = True
            task.get_loop().call_later(LOOK_SECONDS, self._look)
        return task

    def end(self, task: asyncio.Task[Any]) -> bool:
        """Count no longer; tell whether it is in time: else it was cancelled, or will be at its next wait."""
        return self._due.pop(task, None) is not None

    def _look(self) -> None:
        now = time.monotonic()
        for task in [task for task, due in self._due.items() if due < now]:
            del self._due[task]
            task.cancel()
        self._is_looking = bool(self._due)
        if self._due:
            asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)
