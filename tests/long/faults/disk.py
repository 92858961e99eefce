"""The database's disk is full, or fails: writes are answered 503, reads go on, and all is well again by itself.

Names are registered before, during and after the fault. Whatever was acknowledged is there in the end, and what was refused is not,
but where the refusal said that nobody knows.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import psycopg

from long.faults.failing_disk import failing, full, small_disk
from long.faults.scenario import POSTGRESQL, SQLITE, Asked, Outcome, Scenario
from long.faults.writing import Writing, serving_a_writer
from long.hosts.standby import children_of
from support.crash_checks import zone_is_right
from support.postgresql import fresh_database, hand_over, run_postgresql
from support.serve_process import ServeProcess, wait_until
from support.service_on_primary import ZONE

NAMES_BEFORE = 10
REFUSED_IN_A_ROW = 10
RECOVERED_SECONDS = 60.0
SQLITE_MIB, POSTGRESQL_MIB = 16, 128


def run_full(asked: Asked) -> Outcome:
    """Fill the database's disk so many times, and free it."""
    with ExitStack() as stack:
        folder = asked.folder / "disk"
        folder.mkdir()
        # PostgreSQL runs as another user, who owns the folder that its disk is mounted at.
        _ = hand_over(folder) if asked.database == POSTGRESQL else {}
        stack.enter_context(
            small_disk(folder, mib=SQLITE_MIB if asked.database == SQLITE else POSTGRESQL_MIB)
        )
        url = stack.enter_context(_registry(asked, folder))
        serving, writing = stack.enter_context(serving_a_writer(asked, url))
        return _run(asked, serving, writing, {"the disk is full": lambda: full(folder)})


def run_eio(asked: Asked) -> Outcome:
    """Have writes, then syncs, of the database fail with EIO so many times."""
    with ExitStack() as stack:
        folder = asked.folder / "disk"
        folder.mkdir()
        url = stack.enter_context(_registry(asked, folder))
        serving, writing = stack.enter_context(serving_a_writer(asked, url))

        def of(call: str) -> AbstractContextManager[None]:
            if asked.database == SQLITE:
                assert serving.process is not None
                files = [folder / "registry.db", folder / "registry.db-wal"]
                return failing([serving.process.pid], [call], "EIO", asked.folder, files, threads=True)
            # The processes that there are: those that PostgreSQL starts instead of them find a disk that works.
            server = int((folder / "data" / "postmaster.pid").read_text().split()[0])
            return failing(children_of(server), [call], "EIO", asked.folder, threads=False)

        faults = {"writes fail": lambda: of("pwrite64"), "syncs fail": lambda: of("fdatasync")}
        if asked.database == SQLITE:
            return _run(asked, serving, writing, faults)
        return _run(asked, serving, writing, faults, lambda: (folder / "log").read_text().count("PANIC"))


def _run(
    asked: Asked,
    serving: ServeProcess,
    writing: Writing,
    faults: dict[str, Callable[[], AbstractContextManager[None]]],
    panics: Callable[[], int] | None = None,
) -> Outcome:
    """Make each fault so many times; while one is there reads go on.

    With `panics`, which counts how often PostgreSQL has given itself up, the fault makes it do so, and is over with that.
    """
    reads_go_on = panics is None
    longest = 0.0
    for _ in range(asked.count):
        for fault in faults.values():
            writing.write_until(acknowledged=True, times=NAMES_BEFORE)
            wait_until(lambda: zone_is_right(writing.service), RECOVERED_SECONDS)
            panics_before = panics() if panics else 0
            with fault():
                if panics is None:
                    writing.write_until(acknowledged=False, times=REFUSED_IN_A_ROW)
                    writing.check()
                    assert writing.service.delegation(f"n1.{ZONE}"), "the name server has fallen silent"
                else:
                    wait_until(
                        lambda of=panics, before=panics_before: writing.write() and of() > before,  # type: ignore[misc]
                        RECOVERED_SECONDS,
                    )
            began = time.monotonic()
            wait_until(writing.write, RECOVERED_SECONDS)
            longest = max(longest, time.monotonic() - began)
            writing.write_until(acknowledged=True, times=NAMES_BEFORE)
            writing.check()
    wait_until(lambda: zone_is_right(writing.service), RECOVERED_SECONDS)
    assert writing.service.doctor() == []
    # What was refused must not come back when the log of the database is read anew.
    assert serving.stop(signal.SIGKILL) == -signal.SIGKILL
    serving.start()
    writing.check()
    assert serving.stop() == 0
    refused = len(writing.refused) + len(writing.unknown)
    assert refused or not reads_go_on
    return Outcome(
        f"{asked.count} times each: {', '.join(faults)}; {refused} writes answered 503, {len(writing.acknowledged)} acknowledged and "
        f"0 lost; {'reads went on; ' if reads_go_on else ''}a write was acknowledged again {longest:.1f} s after the fault at most",
        {
            "times": asked.count * len(faults),
            "answered_503": refused,
            "acknowledged": len(writing.acknowledged),
            "acknowledged_lost": 0,
            "recovered_seconds_max": round(longest, 2),
        },
    )


@contextmanager
def _registry(asked: Asked, folder: Path) -> Iterator[str]:
    """Give the address of an empty registry whose files are in a folder."""
    if asked.database == SQLITE:
        yield f"sqlite:///{folder}/registry.db"
        return
    with run_postgresql(folder, durable=True) as server, fresh_database(server) as url:
        with psycopg.connect(server, autocommit=True) as connection:
            # Else the segment of its log may come to its end while the disk is full, and PostgreSQL with it.
            connection.execute("SELECT pg_switch_wal()")
        yield url


DISK_FULL = Scenario(
    "disk-full",
    "the database is on a small disk, which is filled and freed; counted are the times",
    run_full,
    counts={SQLITE: 3, POSTGRESQL: 3},
)
EIO = Scenario(
    "eio",
    "writes, then syncs of the database fail with EIO, which strace injects; on PostgreSQL those of the processes that run then, "
    "which start anew; counted are the times of each",
    run_eio,
    counts={SQLITE: 3, POSTGRESQL: 3},
)
