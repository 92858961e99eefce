"""The event loop of a process that serves."""

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any

import uvloop


def run_event_loop(serving: Coroutine[Any, Any, None]) -> None:
    """Run what serves, to its end.

    What is loaded by now stays for as long as the process does: the collector is told so, else it looks at all of that again and
    again while nobody is answered (60 ms a time, twice a second where lists are asked for).
    """
    gc.collect()
    gc.freeze()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serving)
