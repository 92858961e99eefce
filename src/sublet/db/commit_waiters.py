"""Wake coroutines that wait for the next commit."""

import asyncio
from contextlib import suppress


class CommitWaiters:
    """The coroutines that wait for the next commit."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    async def wait(self, timeout_seconds: float) -> bool:
        """Wait until `wake` is called. Return False after the timeout."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            # Not wait_for: before Python 3.12 it loses a cancellation that comes together with the result.
            async with asyncio.timeout(timeout_seconds):
                await future
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(future)
        return True

    def wake(self) -> None:
        """Wake all waiting coroutines of the running event loop."""
        for future in tuple(self._waiting):
            if not future.done():
                future.set_result(None)

    def wake_from_thread(self) -> None:
        """Wake all waiting coroutines, from a thread without an event loop."""
        for loop in {future.get_loop() for future in tuple(self._waiting)}:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self.wake)
