"""A command that is in no hurry runs on what processor time is left over: in a child with the system's idle priority (SCHED_IDLE).

Where no processor is idle, whoever is woken is put where the service runs; a processor with nothing but such a child counts as idle. Who has that
priority can't leave it again, and may get nothing for long: so this process looks on, and does the work itself where the child starves.
"""

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
STARVED_SECONDS = 3.0
"""For how long a child wanted to run before it is told whether it starves."""
STARVED_SHARE = 0.1
"""Of that time it gets at least this part, or it starves."""
GOOD = (0, 1, 2)
"""The exit codes of a child that came to its end: with any other it is tried again here, where it has more time."""
FORBIDDEN = 4
"""The exit code of a child that may not have the idle priority."""


def go_on_in_child() -> None:
    """Return in a child, and here again if that one starves or fails; otherwise end this process with what the child gave.

    To be called before there are threads. Where the system has no idle priority, or forbids it, it returns here.
    """
    if not hasattr(os, "pidfd_open") or not hasattr(os, "SCHED_IDLE"):
        return
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
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
    wanted = ran_before = 0.0
    last = time.monotonic()
    while not select.select([ended], [], [], LOOK_SECONDS)[0]:
        now = time.monotonic()
        is_running, ran = _look(child)
        wanted += now - last if is_running else 0.0
        last = now
        if wanted >= STARVED_SECONDS:
            if ran - ran_before < STARVED_SHARE * wanted:
                return
            wanted, ran_before = 0.0, ran


def _look(pid: int) -> tuple[bool, float]:
    """Tell whether any thread of a process wants a processor now, and how many seconds they have had one, all together."""
    is_running, nanoseconds = False, 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it has ended
            is_running |= (thread / "stat").read_text().rpartition(")")[2].split()[0] == "R"
            nanoseconds += int((thread / "schedstat").read_text().split()[0])
    return is_running, nanoseconds / 1e9


def _pass_on(source: BinaryIO, target: int) -> None:
    source.seek(0)
    with open(target, "wb", closefd=False) as out:
        shutil.copyfileobj(source, out)
