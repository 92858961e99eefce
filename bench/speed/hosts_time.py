"""What the host of a virtual machine gives of its processors: what others had of them meanwhile, and at which pace they compute now."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_STOLEN = 7
"""The place of `steal` in the first line of /proc/stat (proc(5))."""
_COUNTED = 8
"""How many of its figures, from `user` on, are all of the time together: those after `steal` are parts of the first."""


def processor_times() -> list[int]:
    """Return what all processors together did so far, in ticks: in user programs, …, idle, …, stolen."""
    first = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0]
    return [int(each) for each in first.split()[1 : 1 + _COUNTED]]


def stolen_share(before: Sequence[int], after: Sequence[int]) -> float:
    """Return which part of the processors' time the host gave to others between two looks."""
    passed = [later - earlier for earlier, later in zip(before, after, strict=True)]
    return passed[_STOLEN] / sum(passed) if sum(passed) else 0.0


PACE_SECONDS = 0.3
_COUNT = f"""
import time
began, rounds = time.perf_counter(), 0
while time.perf_counter() - began < {PACE_SECONDS}:
    rounds += 1
    sum(each * each % 7 for each in range(1000))
print(rounds / (time.perf_counter() - began))
"""


def pace() -> float:
    """Return how much the processors compute now, all of them at once: rounds a second of a small program on each, together.

    It changes by the half within minutes where processors are shared, and no other figure of the system tells so.
    """
    each_one = range(len(os.sched_getaffinity(0)))
    running = [subprocess.Popen([sys.executable, "-c", _COUNT], stdout=subprocess.PIPE) for _ in each_one]
    return sum(float(each.communicate()[0]) for each in running)
