"""SQLite's writer thread: a group of writes is one commit, each write has a savepoint; a full disk, a lock, a
failed commit.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from sublet.db import SqliteDatabase, Tx, open_database, sqlite
from sublet.db.model import DISK_IS_FULL, IS_READ_ONLY
from sublet.errors import Conflict, Unavailable
from support.databases import driver_of

pytestmark = pytest.mark.sqlite_only

Story = Callable[[SqliteDatabase], Coroutine[Any, Any, None]]


def _create(tx: Tx) -> None:
    tx.connection.execute(text("CREATE TABLE things (name TEXT PRIMARY KEY, filling BLOB)"))


def _create_parts(tx: Tx) -> None:
    tx.connection.execute(text("CREATE TABLE parts (of_thing TEXT REFERENCES things)"))


def _add(tx: Tx, name: str, filling: bytes = b"") -> str:
    tx.connection.execute(
        text("INSERT INTO things VALUES (:name, :filling)"), {"name": name, "filling": filling}
    )
    return name


def _names(tx: Tx) -> set[str]:
    return {row[0] for row in tx.connection.execute(text("SELECT name FROM things"))}


@asynccontextmanager
async def _opened(path: Path) -> AsyncIterator[SqliteDatabase]:
    database = open_database(f"sqlite:///{path}/things.db")
    assert isinstance(database, SqliteDatabase)
    try:
        await database.write(_create)
        yield database
    finally:
        await database.close()


def _tell(path: Path, story: Story) -> None:
    async def run() -> None:
        async with _opened(path) as database:
            await story(database)

    asyncio.run(run())


def _stored(path: Path) -> set[str]:
    """Return the rows that another process sees: the committed ones."""
    connection = sqlite3.connect(path / "things.db")
    try:
        return {row[0] for row in connection.execute("SELECT name FROM things")}
    finally:
        connection.close()


def _refused(tx: Tx, name: str) -> str:
    _add(tx, name)
    raise Conflict("refused after it wrote")


def test_a_group_is_one_commit_and_a_refusal_rolls_back_only_its_own_write(tmp_path: Path) -> None:
    statements: list[str] = []

    async def story(database: SqliteDatabase) -> None:
        await database.write(lambda tx: driver_of(tx).set_trace_callback(statements.append))
        results = await asyncio.gather(
            *(database.write(_refused if number % 3 == 1 else _add, f"n{number}") for number in range(60)),
            database.write(_add, "n0"),  # violates the key
            return_exceptions=True,
        )
        assert isinstance(results.pop(), IntegrityError)
        for number, result in enumerate(results):
            if number % 3 == 1:
                assert isinstance(result, Conflict)
            else:
                assert result == f"n{number}"
        assert _stored(tmp_path) == {f"n{number}" for number in range(60) if number % 3 != 1}

    _tell(tmp_path, story)
    assert 0 < statements.count("COMMIT") < 30, "the writes were not grouped"


def test_no_write_is_answered_before_its_commit(tmp_path: Path) -> None:
    async def story(database: SqliteDatabase) -> None:
        for number in range(50):
            name = await database.write(_add, f"n{number}")
            assert name in _stored(tmp_path)

    _tell(tmp_path, story)


def test_a_failed_commit_stores_nothing_and_fails_every_write_of_its_group(tmp_path: Path) -> None:
    def break_a_promise(tx: Tx) -> None:
        """Add a row that SQLite refuses only at the commit."""
        tx.connection.execute(text("PRAGMA defer_foreign_keys = ON"))
        tx.connection.execute(text("INSERT INTO parts VALUES ('of nothing')"))

    async def story(database: SqliteDatabase) -> None:
        await database.write(_create_parts)
        results = await asyncio.gather(
            *(database.write(_refused if number == 3 else _add, f"n{number}") for number in range(20)),
            database.write(break_a_promise),
            return_exceptions=True,
        )
        assert all(isinstance(result, Unavailable) for result in results), results
        assert _stored(tmp_path) == set()
        assert await database.read(_names) == set()
        assert await database.write(_add, "later") == "later"
        assert _stored(tmp_path) == {"later"}

    _tell(tmp_path, story)


def test_a_full_disk_refuses_writes_answers_reads_and_recovers(tmp_path: Path) -> None:
    def add_much(tx: Tx, name: str, pages_max: int) -> str:
        tx.connection.execute(text(f"PRAGMA max_page_count = {pages_max}"))
        return _add(tx, name, bytes(100_000))

    async def story(database: SqliteDatabase) -> None:
        await database.write(_add, "first")
        results = await asyncio.gather(
            *(database.write(add_much, f"n{number}", 6) for number in range(5)),
            return_exceptions=True,
        )
        assert all(isinstance(result, Unavailable) for result in results), results
        assert database.write_failure() == DISK_IS_FULL
        assert await database.read(_names) == {"first"}
        assert _stored(tmp_path) == {"first"}
        assert await database.write(add_much, "later", 1_000_000) == "later"
        assert database.write_failure() is None
        assert await database.read(_names) == {"first", "later"}

    _tell(tmp_path, story)


def test_a_read_only_database_refuses_writes_answers_reads_and_recovers(tmp_path: Path) -> None:
    def set_read_only(tx: Tx, value: str) -> None:
        tx.connection.execute(text(f"PRAGMA query_only = {value}"))

    async def story(database: SqliteDatabase) -> None:
        await database.write(_add, "first")
        await database.write(set_read_only, "ON")
        with pytest.raises(Unavailable):
            await database.write(_add, "second")
        assert database.write_failure() == IS_READ_ONLY
        assert await database.read(_names) == {"first"}
        await database.write(_add, "later")  # on a new connection, as after every failed commit
        assert database.write_failure() is None

    _tell(tmp_path, story)


@pytest.mark.parametrize("is_released", [True, False])
def test_a_write_waits_for_the_lock_of_another_process_then_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_released: bool
) -> None:
    if not is_released:
        monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_SECONDS", 0.3)

    async def story(database: SqliteDatabase) -> None:
        with closing(sqlite3.connect(tmp_path / "things.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            write = asyncio.create_task(database.write(_add, "waits"))
            if is_released:
                await asyncio.sleep(0.3)
                assert not write.done()
                assert await database.read(_names) == set()  # reads don't wait
                other.execute("ROLLBACK")
                assert await write == "waits"
                return
            with pytest.raises(Unavailable):
                await write
            other.execute("ROLLBACK")
            await database.write(_add, "later")

    _tell(tmp_path, story)
    assert _stored(tmp_path) == {"waits" if is_released else "later"}


def test_closing_finishes_waiting_writes(tmp_path: Path) -> None:
    """Also those whose callers were cancelled."""

    async def run() -> None:
        async with _opened(tmp_path) as database:
            waiting = [asyncio.create_task(database.write(_add, f"n{number}")) for number in range(300)]
            await asyncio.sleep(0)  # the writes are queued
            waiting.pop(0).cancel()
        assert await asyncio.gather(*waiting) == [f"n{number}" for number in range(1, 300)]

    asyncio.run(run())
    assert len(_stored(tmp_path)) == 300


def test_the_settings_keep_acknowledged_writes(tmp_path: Path) -> None:
    def ask(tx: Tx) -> tuple[object, object, object]:
        names = ("journal_mode", "synchronous", "foreign_keys")
        one, two, three = (tx.connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in names)
        return one, two, three

    async def story(database: SqliteDatabase) -> None:
        for run in (database.read, database.write):
            assert await run(ask) == ("wal", 2, 1)

    _tell(tmp_path, story)


def test_a_write_without_changes_wakes_no_waiter(tmp_path: Path) -> None:
    async def story(database: SqliteDatabase) -> None:
        waiting = asyncio.create_task(database.changed(5.0))
        await asyncio.sleep(0)
        await database.write(_names)
        with pytest.raises(Conflict):
            await database.write(_refused, "refused")
        assert not waiting.done()
        await database.write(_add, "one")
        assert await waiting

    _tell(tmp_path, story)
