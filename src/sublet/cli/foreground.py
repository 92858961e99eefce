"""Run a serving command until SIGTERM or SIGINT."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from sublet.cli.output import Answer
from sublet.config import Settings


def serve_until_signal(
    settings: Settings, run: Callable[[Settings, asyncio.Event], Coroutine[Any, Any, None]]
) -> Answer:
    """Run `run` in a new event loop; SIGTERM or SIGINT sets its event."""
    from sublet.service.event_loop import run_event_loop  # noqa: PLC0415 - loaded by a server only
    from sublet.service.logs import configure_logs  # noqa: PLC0415

    configure_logs(settings)
    run_event_loop(until_signal(settings, run))
    return Answer({"stopped": True})


async def until_signal(
    settings: Settings, run: Callable[[Settings, asyncio.Event], Coroutine[Any, Any, None]]
) -> None:
    """Run `run`; SIGTERM or SIGINT sets its event."""
    from sublet.service.systemd import notify  # noqa: PLC0415

    stop = asyncio.Event()

    def end() -> None:
        notify("STOPPING=1")
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end)
    await run(settings, stop)
