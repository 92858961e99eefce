"""Repeat a worker's step until it is cancelled."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from sublet.errors import Unavailable

FAULT_PAUSE_SECONDS = 1.0
log = structlog.get_logger()


async def repeat(step: Callable[[], Awaitable[float]], fault: str) -> None:
    """Call `step` again and again, each time after as many seconds as it returned, or `FAULT_PAUSE_SECONDS` after an exception.

    Exceptions are logged as the event `fault`, except `Unavailable`, which the database has logged.
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
