"""Who waits for a commit is told of it."""

import asyncio


class Changes:
    """Tells waiting coroutines that something was committed."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    async def wait(self, timeout_seconds: float) -> bool:
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
        for future in tuple(self._waiting):
            if not future.done():
                future.set_result(None)
