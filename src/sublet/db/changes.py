"""Who waits for a commit is told of it."""

import asyncio
from contextlib import suppress


class Changes:
    """Tells waiting coroutines that something was committed. They may be of several loops; a loop calls for its own."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    async def wait(self, timeout_seconds: float) -> bool:
        """Wait until `tell`, or for the time given; tell which."""
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

    def tell(self) -> None:
        """Wake all who wait."""
        for future in tuple(self._waiting):
            if not future.done():
                future.set_result(None)

    def tell_from_thread(self) -> None:
        """Wake all who wait, from a thread that is no loop's."""
        for loop in {future.get_loop() for future in tuple(self._waiting)}:
            with suppress(RuntimeError):  # its loop is closed by now
                loop.call_soon_threadsafe(self.tell)
