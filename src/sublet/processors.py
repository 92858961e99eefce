"""On which of the host's processors a process runs, whom it lets go first, and whom it doesn't interrupt.

Of Python's threads one runs at a time. Where another processor is idle, each statement of the thread that writes hands the interpreter to
the event loop's and back, from processor to processor: half of a registration's time (docs/performance.md).
"""

import os
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

GIVE_WAY_BY = 10
"""How much nicer than the service a check is: with all processors wanted it gets a tenth of what they get."""
FEW = 5
"""After how many items of a long list whoever waits goes first: some 100 to 200 µs."""
_yield: Callable[[], None] = getattr(os, "sched_yield", lambda: None)
"""sched_yield(2), while which Python gives the interpreter away; another system may have none of it."""
_is_own = False
_before: AbstractSet[int] = frozenset()
_PROCESSOR = 36
"""The place of `processor` behind the program's name in /proc/PID/stat (proc(5))."""


def stay_on_one_processor() -> None:
    """Keep this process, and all threads that it starts from now on, on the processor that it runs on now.

    Where that can't be, and in a process that has something else to do, nothing changes.
    """
    global _before  # noqa: PLW0603 - it is the process's own
    if not _is_own:
        return
    # Another system than Linux has none of it; a container may forbid it.
    with suppress(OSError, AttributeError, ValueError, IndexError):
        allowed = os.sched_getaffinity(0)
        told = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace")
        now_on = int(told.rpartition(")")[2].split()[_PROCESSOR])
        os.sched_setaffinity(0, {now_on})
        _before = allowed


def keep_on_one_processor(pid: int, place: int) -> None:
    """Keep a child process that was just started on one of the processors that this one may use: on others than its neighbours in number, as far as there are some."""
    with suppress(OSError, AttributeError):  # it has ended; another system; a container may forbid it
        allowed = sorted(os.sched_getaffinity(0))
        # Of several parents on a host not all begin with the same one.
        os.sched_setaffinity(pid, {allowed[(os.getpid() + place) % len(allowed)]})


def let_run_anywhere(pid: int) -> None:
    """Let a child process run wherever this one might before it stayed on one processor."""
    if _before:
        with suppress(OSError):  # it has ended
            os.sched_setaffinity(pid, _before)


def interrupt_nobody() -> None:
    """Have this thread, and all that it starts from now on, wait until who runs on its processor pauses or has had its share (SCHED_BATCH, sched(7)).

    What has slept otherwise takes the processor at once when something comes for it: a thread that writes from the event loop,
    at each answer of PostgreSQL, only to wait for the interpreter then. Its share of a processor stays what it was. Where it can't
    be had, nothing changes.
    """
    # A container, or a unit's filter, may forbid it; another system than Linux has none of it.
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def let_others_go_first(items: Iterable[T]) -> Iterator[T]:
    """Return items, and after each few let go first who waits for the interpreter, or for the processor; nothing happens where nobody does.

    A thread that makes hundreds of rows into answers else keeps the interpreter for 5 ms, and then the processor until the system's
    next tick, while the event loop has to come in twice for a read.
    """
    for number, item in enumerate(items, 1):
        yield item
        if number % FEW == 0:
            _yield()


def own_process() -> None:
    """Say that this process runs one program of ours, and nothing beside it."""
    global _is_own  # noqa: PLW0603 - it is the process's own
    _is_own = True


def give_way() -> bool:
    """Let the service on this host go first from now on, where this process has nothing else to do; tell whether that is so."""
    if _is_own:
        have_give_way(os.getpid())
    return _is_own


def have_give_way(pid: int) -> None:
    """Have a process let the service on this host go first from now on.

    Not wholly, as `run_idly`: where all processors are wanted for long, a check would never come to its end, and a server closes the
    connection on who takes a zone that slowly. A tenth of a processor is enough for Knot, which is the strictest.
    """
    # It has ended; a container, or a unit's filter, may forbid it.
    with suppress(ProcessLookupError, PermissionError):
        os.setpriority(os.PRIO_PROCESS, pid, os.nice(0) + GIVE_WAY_BY)


def run_idly() -> bool:
    """Run only where nobody else wants the processor from now on, which can't be undone; tell whether that can be had."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except OSError:  # a container, or a unit's filter, may forbid it
        return False
    return True
