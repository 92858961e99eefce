"""A commit of one process wakes waiters in others by NOTIFY; old marks are deleted; a killed PostgreSQL loses
no acknowledged write.
"""

import asyncio
import os
import pwd
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from sublet.db import Tx, announcements, open_database, postgresql
from sublet.db.postgresql import PostgresqlDatabase
from sublet.errors import Unavailable
from sublet.migrations import upgrade
from support.postgresql import find_postgresql, fresh_database, run_postgresql
from support.waiting import wait_until

HOUR = 3600.0
THINGS = "CREATE TABLE things (id int GENERATED ALWAYS AS IDENTITY, name text)"


@pytest.fixture
def url(postgresql_server: str) -> Iterator[str]:
    with fresh_database(postgresql_server) as made:
        upgrade(made)
        _ask(made, THINGS)
        yield made


def _ask(url: str, statement: str) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return [] if cursor.description is None else [row[0] for row in cursor]


def _add(tx: Tx, name: str = "") -> None:
    tx.connection.execute(text("INSERT INTO things (name) VALUES (:name)"), {"name": name})


def _backend(tx: Tx) -> int:
    return int(tx.connection.execute(text("SELECT pg_backend_pid()")).scalar_one())


def _open(url: str) -> PostgresqlDatabase:
    database = open_database(url, may_lose_writes=True)
    assert isinstance(database, PostgresqlDatabase)
    return database


async def _listens(database: PostgresqlDatabase) -> None:
    """Wait until a database listens, and until its first wake-up, which covers earlier commits, is over."""
    assert await database.changed(HOUR)
    await asyncio.to_thread(wait_until, lambda: database._announcements.is_listening)


def _listeners(url: str) -> list[int]:
    return _ask(
        url,
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND "
        "(query LIKE '%LISTEN sublet_changes' OR query LIKE '%pg_notify%') AND pid <> pg_backend_pid()",
    )


@pytest.fixture(autouse=True)
def _no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make polling so rare that only a notification wakes a waiter."""
    monkeypatch.setattr(postgresql, "UNANNOUNCED_POLL_SECONDS", HOUR)


def test_a_commit_of_another_process_wakes_a_waiter(url: str) -> None:
    """A command announces its commit before it ends. No commit wakes its own process."""

    async def story() -> None:
        one, two, command = _open(url), _open(url), _open(url)
        try:
            await _listens(two)
            for _ in range(3):
                waiting = asyncio.create_task(two.changed(HOUR))
                await asyncio.sleep(0)
                await one.write(_add)
                assert await waiting
            waiting = asyncio.create_task(two.changed(HOUR))
            await asyncio.sleep(0)
            await command.write(_add)
            await command.close()
            assert await waiting
        finally:
            await one.close()
            await two.close()

    asyncio.run(story())


def test_a_listener_reconnects_after_its_connection_is_terminated(url: str) -> None:
    async def story() -> None:
        one, two = _open(url), _open(url)
        try:
            await _listens(two)
            first = _listeners(url)
            assert len(first) == 1
            waiting = asyncio.create_task(two.changed(HOUR))
            await asyncio.sleep(0)
            _ask(url, f"SELECT pg_terminate_backend({first[0]})")
            assert await waiting  # it may have missed a notification
            await asyncio.to_thread(wait_until, lambda: two._announcements.is_listening)
            assert _listeners(url) != first
            waiting = asyncio.create_task(two.changed(HOUR))
            await asyncio.sleep(0)
            await one.write(_add)
            assert await waiting
        finally:
            await one.close()
            await two.close()

    asyncio.run(story())


def test_without_notifications_a_waiter_polls(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "UNANNOUNCED_POLL_SECONDS", 0.01)

    async def story() -> None:
        one = _open(url)
        one._announcements.close()  # it neither receives nor sends notifications
        try:
            assert not await one.changed(HOUR)
            waiting = asyncio.create_task(one.changed(HOUR))
            await one.write(_add)
            await waiting
        finally:
            await one.close()

    asyncio.run(story())


def test_only_old_marks_are_deleted(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "DELETE_MARKS_SECONDS", 0.1)
    for name, minutes, count in (("old", 11, 2500), ("young", 9, 10)):
        made_at = f"now() - interval '{minutes} minutes'"
        _ask(
            url,
            f"INSERT INTO commit_marks SELECT '{name}' || i, {made_at} FROM generate_series(1, {count}) i",  # noqa: S608
        )

    async def story() -> None:
        database = _open(url)
        try:
            await database.write(_add)
            counted = "SELECT count(*) FROM commit_marks"
            await asyncio.to_thread(wait_until, lambda: _ask(url, counted) == [11])
        finally:
            await database.close()

    asyncio.run(story())
    assert _ask(url, "SELECT id FROM commit_marks WHERE id LIKE 'old%'") == []


def test_a_server_that_may_lose_writes_is_refused_unless_it_is_allowed(
    url: str, postgresql_server: str
) -> None:
    with pytest.raises(Unavailable, match="fsync = off and full_page_writes = off: a crash of the host"):
        open_database(url)
    _ask(postgresql_server, f"ALTER DATABASE {url.rpartition('/')[2]} SET synchronous_commit = off")
    with pytest.raises(Unavailable, match=r"synchronous_commit = off: .*database_may_lose_writes"):
        open_database(url)
    asyncio.run(open_database(url, may_lose_writes=True).close())


@contextmanager
def _started(folder: Path, url: str) -> Iterator[int]:
    """Restart a durable server with its remaining files, and return its process id."""
    user: dict[str, Any] = {}
    if os.getuid() == 0:
        nobody = pwd.getpwnam("postgres")
        user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    port = url.rpartition("/")[0].rpartition(":")[2]
    program, data = find_postgresql("postgres"), folder / "data"
    words = [program, *f"-D {data} -p {port} -h 127.0.0.1 -k {folder}".split()]
    started: list[subprocess.Popen[bytes]] = []

    def is_up() -> bool:
        # Processes of the killed server may still run, and then the new one exits.
        if not started or started[-1].poll() is not None:
            with (folder / "log").open("ab") as log:
                started.append(subprocess.Popen(words, stdout=log, stderr=log, cwd=folder, **user))
        with suppress(psycopg.OperationalError):
            psycopg.connect(url, connect_timeout=2).close()
            return True
        return False

    try:
        wait_until(is_up)
        yield started[-1].pid
    finally:
        if started[-1].poll() is None:
            started[-1].send_signal(signal.SIGINT)
        started[-1].wait(60)


def test_a_killed_server_loses_no_acknowledged_write_and_repeats_none() -> None:
    # Not in pytest's own folder, which every run of pytest closes to other users, and PostgreSQL runs as
    # another user.
    with tempfile.TemporaryDirectory(prefix="sublet-killed-") as name, run_postgresql(Path(name)) as url:
        folder = Path(name)
        upgrade(url)
        _ask(url, THINGS)
        acknowledged, unknown = asyncio.run(_kill_under_load(folder, url))
    assert len(acknowledged) > 100
    assert len(unknown) < len(acknowledged)


async def _kill_under_load(folder: Path, url: str) -> tuple[set[str], set[str]]:
    database = _open(url)
    acknowledged: set[str] = set()
    unknown: set[str] = set()
    stopping = asyncio.Event()

    async def load(worker: int) -> None:
        number = 0
        while not stopping.is_set():
            number += 1
            name = f"{worker}-{number}"
            try:
                await database.write(_add, name)
            except Unavailable:
                unknown.add(name)
            else:
                acknowledged.add(name)

    async def goes_on() -> None:
        before = len(acknowledged)
        await asyncio.to_thread(wait_until, lambda: len(acknowledged) >= before + 100)

    loads = [asyncio.create_task(load(worker)) for worker in range(6)]
    try:
        for _ in range(2):
            await goes_on()
            # After a killed backend, PostgreSQL ends all connections and recovers.
            found = await database.read(_backend)
            os.kill(int(found), signal.SIGKILL)
        await goes_on()
        server = int((folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(server, signal.SIGKILL)
        await asyncio.to_thread(os.waitpid, server, 0)  # otherwise it counts as running
        started = _started(folder, url)
        await asyncio.to_thread(started.__enter__)
        try:
            await goes_on()
            stopping.set()
            await asyncio.gather(*loads)
            names = await asyncio.to_thread(_ask, url, "SELECT name FROM things")
        finally:
            await asyncio.to_thread(started.__exit__, None, None, None)
    finally:
        stopping.set()
        await asyncio.gather(*loads)
        await database.close()
    assert len(names) == len(set(names)), "done twice"
    assert acknowledged <= set(names) <= acknowledged | unknown
    return acknowledged, unknown
