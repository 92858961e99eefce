"""How long an event loop works between two turns, in its own CPU time: other processes on the machine don't
count.
"""

import asyncio
import time


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
