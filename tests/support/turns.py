"""How long an event loop works between two turns, in its own CPU time: other processes on the machine don't
count.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

TURN_MAX_SECONDS = 0.05
"""The maximum turn of an event loop in service."""


class Turns:
    """Wakes up every few milliseconds, and remembers how much CPU time the thread of the event loop used in
    between at most.
    """

    def __init__(self) -> None:
        self.longest_seconds = 0.0

    async def watch(self) -> None:
        """Watch until cancelled."""
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.005)
            self.longest_seconds = max(self.longest_seconds, time.thread_time() - before)


@contextmanager
def watched(loop: asyncio.AbstractEventLoop) -> Iterator[Turns]:
    """Watch an event loop in another thread until the block ends."""
    turns = Turns()
    watching = asyncio.run_coroutine_threadsafe(turns.watch(), loop)
    try:
        yield turns
        # The watcher notes a turn when it wakes up.
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0.02), loop).result()
    finally:
        watching.cancel()
