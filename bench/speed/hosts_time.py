"""Whether the host of a virtual machine gave its processors to others meanwhile: then nothing here runs, and no program is to blame."""

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
