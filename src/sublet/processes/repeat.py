"""Repeat a step of a worker until the task is cancelled."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from sublet.errors import Unavailable

FAULT_PAUSE_SECONDS = 1.0
log = structlog.get_logger()


async def repeat(step: Callable[[], Awaitable[float]], fault: str) -> None:
    """Call `step` until cancelled.

    `step` returns the seconds until the next call; after an exception wait `FAULT_PAUSE_SECONDS`.

    Exceptions are logged as the event `fault`, except `Unavailable`, which the database layer has logged
    already.
    """
    while True:
        try:
            seconds = await step()
        except Unavailable:
            seconds = FAULT_PAUSE_SECONDS
        except Exception:
            log.exception(fault)
            seconds = FAULT_PAUSE_SECONDS
        await asyncio.sleep(seconds)
