"""The database's disk is full, or fails: writes are answered 503, reads go on, and the service recovers when
the fault is over.

Names are registered before, during and after the fault. Acknowledged names are stored, and refused names are
not, unless the refusal said that its outcome is unknown.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import psycopg

from long.faults.failing_disk import failing, full, small_disk
from long.faults.writing import Writing, serving_a_writer
from long.scenario import FAULTS, POSTGRESQL, SQLITE, Outcome, Scenario, Trial
from support.crash_checks import zone_is_right
from support.postgresql import fresh_database, hand_over, run_postgresql
from support.processes import children_of
from support.serve_process import ServeProcess
from support.service_on_primary import ZONE
from support.waiting import wait_until

NAMES_BEFORE = 10
REFUSED_IN_A_ROW = 10
RECOVERED_SECONDS = 60.0
SQLITE_MIB, POSTGRESQL_MIB = 16, 128


def run_full(trial: Trial) -> Outcome:
    """Fill the database's disk and free it."""
    with ExitStack() as stack:
        folder = trial.folder / "disk"
        folder.mkdir()
        # PostgreSQL runs as another user, which must own the mount point.
        _ = hand_over(folder) if trial.database == POSTGRESQL else {}
        stack.enter_context(
            small_disk(folder, mib=SQLITE_MIB if trial.database == SQLITE else POSTGRESQL_MIB)
        )
        url = stack.enter_context(_registry(trial, folder))
        serving, writing = stack.enter_context(serving_a_writer(trial, url))
        return _run(trial, serving, writing, {"the disk is full": lambda: full(folder)})


def run_eio(trial: Trial) -> Outcome:
    """Let the database's writes, then its syncs, fail with EIO."""
    with ExitStack() as stack:
        folder = trial.folder / "disk"
        folder.mkdir()
        url = stack.enter_context(_registry(trial, folder))
        serving, writing = stack.enter_context(serving_a_writer(trial, url))

        def of(call: str) -> AbstractContextManager[None]:
            if trial.database == SQLITE:
                assert serving.process is not None
                files = [folder / "registry.db", folder / "registry.db-wal"]
                return failing([serving.process.pid], [call], "EIO", trial.folder, files, threads=True)
            # Only the processes that run now; those that PostgreSQL starts after them have a disk that works.
            server = int((folder / "data" / "postmaster.pid").read_text().split()[0])
            return failing(children_of(server), [call], "EIO", trial.folder, threads=False)

        faults = {"writes fail": lambda: of("pwrite64"), "syncs fail": lambda: of("fdatasync")}
        if trial.database == SQLITE:
            return _run(trial, serving, writing, faults)
        return _run(trial, serving, writing, faults, lambda: (folder / "log").read_text().count("PANIC"))


def _run(
    trial: Trial,
    serving: ServeProcess,
    writing: Writing,
    faults: dict[str, Callable[[], AbstractContextManager[None]]],
    panics: Callable[[], int] | None = None,
) -> Outcome:
    """Make each fault `count` times, and check that reads go on meanwhile.

    `panics` returns how often PostgreSQL has logged PANIC. If it is given, each fault lasts until the next
    PANIC.
    """
    reads_go_on = panics is None
    longest = 0.0
    for _ in range(trial.count):
        for fault in faults.values():
            writing.write_until(acknowledged=True, times=NAMES_BEFORE)
            wait_until(lambda: zone_is_right(writing.service), RECOVERED_SECONDS)
            panics_before = panics() if panics else 0
            with fault():
                if panics is None:
                    writing.write_until(acknowledged=False, times=REFUSED_IN_A_ROW)
                    writing.check()
                    assert writing.service.delegation(f"n1.{ZONE}"), "the name server does not answer"
                    # The requests above have read since the last refused write.
                    assert "disk of the database" in _unready(writing), "/readyz names no cause"
                else:
                    wait_until(
                        lambda of=panics, before=panics_before: writing.write() and of() > before,  # type: ignore[misc]
                        RECOVERED_SECONDS,
                    )
            began = time.monotonic()
            wait_until(writing.write, RECOVERED_SECONDS)
            longest = max(longest, time.monotonic() - began)
            wait_until(lambda: _unready(writing) == "", RECOVERED_SECONDS)
            writing.write_until(acknowledged=True, times=NAMES_BEFORE)
            writing.check()
    wait_until(lambda: zone_is_right(writing.service), RECOVERED_SECONDS)
    assert writing.service.doctor() == []
    # A refused name must not appear when the database recovers from its log.
    assert serving.stop(signal.SIGKILL) == -signal.SIGKILL
    serving.start()
    writing.check()
    assert serving.stop() == 0
    refused = len(writing.refused) + len(writing.unknown)
    assert refused or not reads_go_on
    return Outcome(
        f"{trial.count} times each: {', '.join(faults)}; {refused} writes answered 503, "
        f"{len(writing.acknowledged)} acknowledged and 0 lost; {'reads went on; ' if reads_go_on else ''}a "
        f"write was acknowledged again {longest:.1f} s after the fault at most",
    )


def _unready(writing: Writing) -> str:
    """Return the reason in `/readyz`; "" if the service is ready."""
    answer = writing.service.client.get(writing.service.origin + "/readyz")
    assert answer.status_code in (200, 503)
    return "" if answer.status_code == 200 else str(answer.json().get("reason"))


@contextmanager
def _registry(trial: Trial, folder: Path) -> Iterator[str]:
    """Yield the address of an empty registry whose files are in a folder."""
    if trial.database == SQLITE:
        yield f"sqlite:///{folder}/registry.db"
        return
    with run_postgresql(folder, durable=True) as server, fresh_database(server) as url:
        with psycopg.connect(server, autocommit=True) as connection:
            # A segment of the log that ends while the disk is full would stop PostgreSQL.
            connection.execute("SELECT pg_switch_wal()")
        yield url


TIMES = {FAULTS: {SQLITE: 3, POSTGRESQL: 3}}
DISK_FULL = Scenario(
    "disk-full",
    "The database's small disk is filled and freed. No acknowledged write is lost. Counted are the times.",
    run_full,
    TIMES,
)
EIO = Scenario(
    "eio",
    "Writes, then syncs of the database fail with EIO, by strace. On PostgreSQL the processes that run "
    "then fail, and it restarts. "
    "No acknowledged write is lost. Counted are the times of each.",
    run_eio,
    TIMES,
)
