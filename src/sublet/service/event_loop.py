"""The event loop of a serving process, and coroutines that run in it together."""

import asyncio
import gc
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import uvloop


def run_event_loop(serving: Coroutine[Any, Any, None]) -> None:
    """Run a serving coroutine to its end."""
    gc.freeze()  # Modules are never freed, but each full collection would spend 60 ms on them.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serving)


@asynccontextmanager
async def run_in_background(*parts: Coroutine[Any, Any, None]) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Run coroutines until the block ends, then cancel them and wait until they have ended."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
