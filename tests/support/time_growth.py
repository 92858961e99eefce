"""Compares how long something takes for inputs of full and of half length, on a machine that may be busy."""

import time
from collections.abc import Callable
from typing import NamedTuple

FACTOR = 3.0
"""Linear work takes twice the time for twice the input, quadratic work four times."""
TRIES = 6
RUNS = 3
LEAST_SECONDS = 0.002
"""How long one measurement takes at least: short calls are repeated."""
LONG_SECONDS = 0.1
"""A call that takes this long is measured only twice: a quadratic one would take minutes."""


class Growth(NamedTuple):
    """The least times of the compared lengths, in seconds, and how many tries there were."""

    half_seconds: float
    full_seconds: float
    tries: int

    @property
    def factor(self) -> float:
        """Return how many times longer the full length takes."""
        return self.full_seconds / self.half_seconds


def seconds(run: Callable[[], object], number: int = 1) -> float:
    """Return how long a number of calls takes, divided by the number."""
    started = time.thread_time()  # the processor's time: other processes of a busy machine don't count
    for _ in range(number):
        run()
    return (time.thread_time() - started) / number


def growth(half: Callable[[], object], full: Callable[[], object]) -> Growth:
    """Measure both in turn, again while they seem worse than linear, and return the last comparison."""
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
    """Return the seconds that this machine takes now for work that took 50 ms on the machine where the bound was set."""
    return min(seconds(_reference) for _ in range(3))


def _reference() -> int:
    total = 0
    for number in range(1_700_000):
        total += number & 7
    return total
