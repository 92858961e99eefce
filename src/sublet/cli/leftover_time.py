"""A command that is in no hurry runs on what processor time is left over: in a child with the system's idle priority (SCHED_IDLE).

Where no processor is idle, whoever is woken is put where the service runs; a processor with nothing but such a child counts as idle, but only
while the system looks for one, which it seems not to do where all are in use. So this process has the child rest wherever others want a processor, too.
Who has that priority can't leave it again, and may get nothing for long: where the child starves, this process does the work itself.
"""

import ctypes
import os
import select
import shutil
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from sublet.processors import run_idly

LOOK_SECONDS = 0.1
TURN_SECONDS = 0.005
"""For how long a child runs, and then rests, where others want a processor; to run for 2 ms and rest for 6 was no better."""
WAITED_SHARE = 0.05
"""Others want one where the child had to wait for this part of the time or more."""
STARVED_SECONDS = 3.0
"""For how long a child wanted to run before it is told whether it starves."""
STARVED_SHARE = 0.1
"""Of that time it gets at least this part, or it starves."""
GOOD = (0, 1, 2)
"""The exit codes of a child that came to its end: with any other it is tried again here, where it has more time."""
FORBIDDEN = 4
"""The exit code of a child that may not have the idle priority."""
_PR_SET_PDEATHSIG = 1
"""Of prctl(2): the signal that this process gets when its parent ends."""


def go_on_in_child() -> None:
    """Return in a child, and here again if that one starves or fails; otherwise end this process with what the child gave.

    To be called before there are threads. Where the system has no idle priority, or forbids it, it returns here.
    """
    if not hasattr(os, "pidfd_open") or not hasattr(os, "SCHED_IDLE"):
        return
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            _end_with(parent)
            # Kept until its end: what is done twice is told once.
            os.dup2(output.fileno(), 1)
            os.dup2(errors.fileno(), 2)
            if run_idly():
                return
            os._exit(FORBIDDEN)
        exit_code = _attend(child)
        if exit_code not in GOOD:
            return
        with suppress(BrokenPipeError):
            _pass_on(output, 1)
            _pass_on(errors, 2)
    raise SystemExit(exit_code)


def _end_with(parent: int) -> None:
    """Have this process end when its parent does, by whatever: while it rests nobody else would have it go on."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended meanwhile
        os._exit(FORBIDDEN)


def _attend(child: int) -> int:
    """Return the exit code of a child once it has ended, also by our hand: because it starves, or since this process is to end."""
    before = signal.signal(signal.SIGTERM, _exit)
    ended = os.pidfd_open(child)
    try:
        _wait_while_fed(child, ended)
    finally:
        os.kill(child, signal.SIGKILL)  # whoever has ended takes no harm of it
        _, status = os.waitpid(child, 0)
        os.close(ended)
        signal.signal(signal.SIGTERM, before)
    return os.waitstatus_to_exitcode(status)


def _exit(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _wait_while_fed(child: int, ended: int) -> None:
    """Return when a child has ended, which a file descriptor tells, or starves."""
    wanted = ran_before = waited_before = 0.0
    others_want = False
    while True:
        was_let_run = _let_run(child, ended, in_turns=others_want)
        if was_let_run is None:
            return
        is_running, ran, waited = _look(child)
        others_want = waited - waited_before >= WAITED_SHARE * was_let_run
        waited_before = waited
        wanted += was_let_run if is_running else 0.0
        if wanted >= STARVED_SECONDS:
            if ran - ran_before < STARVED_SHARE * wanted:
                return
            wanted, ran_before = 0.0, ran


def _let_run(child: int, ended: int, *, in_turns: bool) -> float | None:
    """Let a child run until the next look, in turns with as much rest, and return for how many seconds it might; None where it has ended."""
    began, rested = time.monotonic(), 0.0
    while (passed := time.monotonic() - began) < LOOK_SECONDS:
        if select.select([ended], [], [], TURN_SECONDS if in_turns else LOOK_SECONDS - passed)[0]:
            return None
        if in_turns:
            stopped = time.monotonic()
            os.kill(child, signal.SIGSTOP)
            time.sleep(TURN_SECONDS)
            os.kill(child, signal.SIGCONT)
            rested += time.monotonic() - stopped
    return passed - rested


def _look(pid: int) -> tuple[bool, float, float]:
    """Tell whether any thread of a process wants a processor now; how many seconds they have had one, and waited for one, all together."""
    is_running, ran, waited = False, 0, 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it has ended
            is_running |= (thread / "stat").read_text().rpartition(")")[2].split()[0] == "R"
            nanoseconds = (thread / "schedstat").read_text().split()
            ran += int(nanoseconds[0])
            waited += int(nanoseconds[1])
    return is_running, ran / 1e9, waited / 1e9


def _pass_on(source: BinaryIO, target: int) -> None:
    source.seek(0)
    with open(target, "wb", closefd=False) as out:
        shutil.copyfileobj(source, out)
