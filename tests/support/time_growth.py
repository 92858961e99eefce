"""Compare the time of a function for an input of full and of half length, on a machine that may be busy."""

import time
from collections.abc import Callable
from typing import NamedTuple

FACTOR = 3.0
"""The maximum growth. For twice the input, linear work takes twice the time, and
quadratic work four times.
"""
TRIES = 6
RUNS = 2
LEAST_SECONDS = 0.002
"""The minimum time of a measurement, for which short calls are repeated."""
LONG_SECONDS = 0.1
"""A call that takes longer is measured only twice, because quadratic work would take minutes."""


class Growth(NamedTuple):
    """The minimum times of both lengths, in seconds, and the number of tries."""

    half_seconds: float
    full_seconds: float
    tries: int

    @property
    def factor(self) -> float:
        """Return the time of the full length as a multiple of the time of the half length."""
        return self.full_seconds / self.half_seconds


def seconds(run: Callable[[], object], number: int = 1) -> float:
    """Return the average time of a number of calls, in seconds."""
    started = time.thread_time()  # processor time, which excludes other processes of a busy machine
    for _ in range(number):
        run()
    return (time.thread_time() - started) / number


def growth(half: Callable[[], object], full: Callable[[], object]) -> Growth:
    """Measure both lengths in turn, again while the growth exceeds `FACTOR`, and return the last result."""
    once = seconds(full)
    number = max(1, int(LEAST_SECONDS / max(once, 1e-9)))
    runs, tries_max = (1, 2) if once > LONG_SECONDS else (RUNS, TRIES)
    for tries in range(1, tries_max + 1):
        pairs = [(seconds(half, number), seconds(full, number)) for _ in range(runs)]
        found = Growth(min(pair[0] for pair in pairs), min(pair[1] for pair in pairs), tries)
        if found.factor < FACTOR:
            break
    return found


def reference_seconds() -> float:
    """Return the current time, in seconds, of work that took 50 ms on the machine
    where the limits were set.
    """
    return min(seconds(_reference) for _ in range(3))


def _reference() -> int:
    total = 0
    for number in range(1_700_000):
        total += number & 7
    return total
