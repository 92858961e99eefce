"""`sublet serve` on SQLite keeps to one processor, with all of its threads, and what it starts doesn't have to; who gives way, and who interrupts nobody."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from serving import serve_process
from sublet import processors
from sublet.db import Tx, open_database
from sublet.migrations import upgrade

ALLOWED = os.sched_getaffinity(0)
PARENT = """
import os, subprocess, sys
from sublet.processors import let_run_anywhere, own_process, stay_on_one_processor
stay_on_one_processor()
print(len(os.sched_getaffinity(0)))
own_process()
stay_on_one_processor()
child = subprocess.Popen([sys.executable, "-c", "import os; input(); print(len(os.sched_getaffinity(0)))"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
let_run_anywhere(child.pid)
print(len(os.sched_getaffinity(0)), child.communicate("\\n")[0])
"""


@pytest.mark.parametrize(("one_processor", "processors"), [("yes", 1), ("no", len(ALLOWED))])
def test_all_threads_of_serve_keep_to_the_processors_they_may(
    tmp_path: Path, one_processor: str, processors: int
) -> None:
    with serve_process(f"sqlite:///{tmp_path / 'registry.db'}", tmp_path) as serving:
        serving.environment["SUBLET_ONE_PROCESSOR"] = one_processor
        serving.start()
        assert serving.process is not None
        threads = [int(each.name) for each in Path(f"/proc/{serving.process.pid}/task").iterdir()]
        found = {frozenset(os.sched_getaffinity(each)) for each in threads}
    assert len(threads) > 1
    assert [len(each) for each in found] == [processors]
    assert all(each <= ALLOWED for each in found)


def test_only_a_process_of_its_own_stays_and_its_child_may_run_wherever_it_might() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PARENT], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == [str(len(ALLOWED)), "1", str(len(ALLOWED))]


def test_where_it_is_forbidden_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", forbid)
    monkeypatch.setattr(processors, "_is_own", True)
    processors.stay_on_one_processor()
    processors.let_run_anywhere(os.getpid())
    assert os.sched_getaffinity(0) == ALLOWED


GIVING_WAY = """
import os
from sublet.processors import give_way, own_process
give_way(); print(os.nice(0)); own_process(); give_way(); print(os.nice(0))
"""


def test_only_a_process_of_its_own_gives_way() -> None:
    done = subprocess.run(
        [sys.executable, "-c", GIVING_WAY], capture_output=True, text=True, timeout=60, check=True
    )
    before, after = (int(each) for each in done.stdout.split())
    assert after == min(before + processors.GIVE_WAY_BY, 19)


COMMAND = """
import os, sys
from sublet.cli import main
before = os.nice(0)
try:
    main.main()
except SystemExit:
    print(os.nice(0) - before, os.sched_getscheduler(0) == os.SCHED_IDLE)
"""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        # First its child tells, then the command itself.
        ("zone check", [f"{processors.GIVE_WAY_BY} True", f"{processors.GIVE_WAY_BY} False"]),
        (
            "--config none.toml zone check",
            [f"{processors.GIVE_WAY_BY} True", f"{processors.GIVE_WAY_BY} False"],
        ),
        ("zone status", ["0 False"]),
    ],
)
def test_a_check_gives_way_before_it_loads(words: str, told: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *words.split(), "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert [line for line in done.stdout.splitlines() if line.endswith(("True", "False"))] == told


def test_a_child_gives_way() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        processors.have_give_way(child.pid)
        found = os.getpriority(os.PRIO_PROCESS, child.pid)
    finally:
        child.communicate(b"\n")
    assert found == min(os.nice(0) + processors.GIVE_WAY_BY, 19)
    processors.have_give_way(child.pid)  # it has ended: nothing happens


def test_neighbours_are_kept_on_different_processors() -> None:
    found = []
    for place in range(len(ALLOWED) + 1):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        try:
            processors.keep_on_one_processor(child.pid, place)
            found.append(os.sched_getaffinity(child.pid))
        finally:
            child.communicate(b"\n")
    assert [len(each) for each in found] == [1] * len(found)
    assert set().union(*found[:-1]) == ALLOWED
    assert found[-1] == found[0]


def policy(_: Tx) -> int:
    """Tell by what rule the system runs the thread that asks the database."""
    return os.sched_getscheduler(0)


async def policies(url: str) -> list[int]:
    """Return it for what writes, for what reads lists, and for the event loop."""
    upgrade(url)
    database = open_database(url, may_lose_writes=True)
    try:
        return [await database.write(policy), await database.read_apart(policy), os.sched_getscheduler(0)]
    finally:
        await database.close()


def test_threads_that_ask_the_database_interrupt_nobody(database_url: str) -> None:
    assert asyncio.run(policies(database_url)) == [os.SCHED_BATCH, os.SCHED_BATCH, os.SCHED_OTHER]


def test_where_that_is_forbidden_they_ask_all_the_same(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbid(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", forbid)
    assert asyncio.run(policies(database_url)) == [os.SCHED_OTHER] * 3


def test_who_works_through_a_long_list_lets_others_in_between() -> None:
    """Python would let them in after a quarter of an hour: only what gives way lets this end."""
    done = subprocess.run(
        [sys.executable, "-c", WORKING], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["[0,", "1,", "2]", "got", "through"]


WORKING = """
import itertools, sys, threading, time
from sublet.processors import let_others_go_first
print(list(let_others_go_first(range(3))))
sys.setswitchinterval(1000)
is_over = False
def work():
    for _ in let_others_go_first(itertools.count()):
        if is_over:
            return
threading.Thread(target=work).start()
for _ in range(5):
    time.sleep(0.001)
is_over = True
print("got through")
"""
