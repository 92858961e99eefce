"""Wait for an event."""

import time
from collections.abc import Callable

ENOUGH_SECONDS = 180.0
"""Enough for what a test waits for, also on a busy machine."""


def wait_until(condition: Callable[[], bool], seconds: float = ENOUGH_SECONDS) -> None:
    """Wait until a condition is true. Fail after `seconds`.

    A pause takes twice as long as the question before it, up to a second, because many questions slow down
    what they ask about.
    """
    ends = time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        if condition():
            return
        now = time.monotonic()
        assert now < ends, f"{_named(condition)}: not so within {seconds:g} s"
        time.sleep(min(max(0.05, 2 * (now - asked)), 1.0))


def _named(condition: Callable[[], bool]) -> str:
    """Return the file and line of a condition, for the message of a failure."""
    code = getattr(getattr(condition, "__func__", condition), "__code__", None)
    return (
        f"{condition}" if code is None else f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
    )
