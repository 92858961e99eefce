"""Answers that come too late, whatever else the machine does: each is asked for again
before it is a finding.
"""

import time
from collections.abc import Callable

SLOW_SECONDS = 0.5
"""No answer may take longer."""
CONFIRMATIONS = 3
"""How often a slow answer is asked for again. A busy machine delays one answer; what blocks the service is
slow each time.
"""


def is_slow(seconds: float, ask_again: Callable[[], object]) -> bool:
    """Return True if an answer is as slow each time that the request is repeated."""
    return seconds > SLOW_SECONDS and all(_seconds(ask_again) > SLOW_SECONDS for _ in range(CONFIRMATIONS))


def _seconds(ask: Callable[[], object]) -> float:
    started = time.monotonic()
    ask()
    return time.monotonic() - started
