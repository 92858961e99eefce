"""A command that is in no hurry runs on what is left of the processors, and here where that is nothing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from serving import wait_until

COMMAND = """
import os, sys
from sublet.cli.leftover_time import go_on_in_child
go_on_in_child()
print(os.getpid(), os.sched_getscheduler(0) == os.SCHED_IDLE)
print("told", file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""
HOG = "import os; os.sched_setaffinity(0, {%d}); print(flush=True)\nwhile True: pass"
WANTING = """
import os, time
os.sched_setaffinity(0, {%d})
print(flush=True)
while True:
    until = time.monotonic() + 0.01
    while time.monotonic() < until: pass
    time.sleep(0.01)
"""
BUSY = """
import os, sys, time
from sublet.cli.leftover_time import go_on_in_child
os.sched_setaffinity(0, {int(sys.argv[1])})
go_on_in_child()
while time.process_time() < float(sys.argv[2]): pass
print(os.sched_getscheduler(0) == os.SCHED_IDLE)
"""
SLEEPING = """
import os, sys, time
from pathlib import Path
from sublet.cli.leftover_time import go_on_in_child
go_on_in_child()
Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(60)
"""


def _run(program: str, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@contextmanager
def _beside(program: str) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as hog:
        assert hog.stdout is not None
        hog.stdout.readline()
        try:
            yield
        finally:
            hog.kill()


@pytest.mark.parametrize("exit_code", [0, 1, 2])
def test_what_a_child_gave_is_what_the_command_gives(exit_code: int) -> None:
    process = _run(COMMAND, str(exit_code))
    output, errors = process.communicate(timeout=60)
    pid, is_idle = output.split()
    assert (is_idle, errors, process.returncode) == ("True", "told\n", exit_code)
    assert int(pid) != process.pid


def test_what_failed_there_is_tried_here_and_told_once() -> None:
    process = _run(COMMAND, "3")
    output, errors = process.communicate(timeout=60)
    assert output.split() == [str(process.pid), "False"]
    assert (errors, process.returncode) == ("told\n", 3)


def test_who_starves_there_gets_it_done_here() -> None:
    processor = min(os.sched_getaffinity(0))
    with _beside(HOG % processor):
        output, errors = _run(BUSY, str(processor), "0.6").communicate(timeout=120)
    assert (output, errors) == ("False\n", "")


def _is_resting(parent: int) -> bool:
    with suppress(OSError):  # one of them has ended
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        stats = [Path(f"/proc/{child}/stat").read_text() for child in children]
        return any(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)
    return False


def _was_seen_resting(processor: int) -> bool:
    process = _run(BUSY, str(processor), "2")
    try:
        while process.poll() is None:
            if _is_resting(process.pid):
                return True
            time.sleep(0.001)
        return False
    finally:
        process.kill()
        process.communicate(timeout=60)


def test_it_rests_where_others_want_the_processor_too() -> None:
    processor = min(os.sched_getaffinity(0))
    with _beside(WANTING % processor):
        # Again and again: where other tests want it, too, the child starves before it is seen.
        wait_until(lambda: _was_seen_resting(processor))


def _end_by(number: int, told: Path) -> "tuple[subprocess.Popen[str], Path]":
    """End a command by a signal once its child runs; return it and where the system tells of the child."""
    process = _run(SLEEPING, str(told))
    wait_until(lambda: told.exists() and bool(told.read_text()))
    process.send_signal(number)
    process.communicate(timeout=60)
    return process, Path(f"/proc/{told.read_text()}")


def test_a_command_that_is_ended_leaves_no_child(tmp_path: Path) -> None:
    process, child = _end_by(signal.SIGTERM, tmp_path / "child")
    assert process.returncode == 128 + signal.SIGTERM
    assert not child.exists()


def test_nor_does_one_that_is_killed(tmp_path: Path) -> None:
    process, child = _end_by(signal.SIGKILL, tmp_path / "child")
    assert process.returncode == -signal.SIGKILL
    wait_until(lambda: not child.exists())  # nobody is left to wait for it


@pytest.mark.parametrize(
    "change", ["del os.SCHED_IDLE", "def forbid(*_): raise PermissionError\nos.sched_setscheduler = forbid"]
)
def test_without_that_priority_it_is_done_here(change: str) -> None:
    program = f"import os\nidle = os.SCHED_IDLE\n{change}\n{COMMAND.replace('os.SCHED_IDLE', 'idle')}"
    process = _run(program, "0")
    output, errors = process.communicate(timeout=60)
    assert output.split() == [str(process.pid), "False"]
    assert (errors, process.returncode) == ("told\n", 0)
