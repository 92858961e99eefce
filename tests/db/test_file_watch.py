"""The files of an open SQLite database: a change is detected before a write is acknowledged, and damage is
reported.
"""

# ruff: noqa: ASYNC240 - the event loop of these tests has nothing else to do

import asyncio
import os
import shutil
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from sublet.db import SqliteDatabase, Tx, file_watch, open_database
from sublet.db.file_watch import FileWatch
from sublet.errors import Unavailable
from support.waiting import ENOUGH_SECONDS

pytestmark = pytest.mark.sqlite_only

Story = Callable[[SqliteDatabase, Path], Coroutine[Any, Any, None]]


def _create(tx: Tx) -> None:
    tx.connection.execute(
        text("CREATE TABLE audit_events (id INTEGER PRIMARY KEY, at TEXT, filling BLOB, other TEXT)")
    )
    tx.connection.execute(text("CREATE INDEX others ON audit_events (other)"))


def _add(tx: Tx, at: str) -> int | None:
    row = {"at": at, "filling": bytes(2000)}
    return tx.connection.execute(
        text("INSERT INTO audit_events VALUES (NULL, :at, :filling, :at)"), row
    ).lastrowid


def _count(tx: Tx) -> int:
    return int(tx.connection.execute(text("SELECT count(*) FROM audit_events NOT INDEXED")).scalar_one())


@asynccontextmanager
async def _opened(path: Path, *, is_serving: bool = True) -> AsyncIterator[SqliteDatabase]:
    database = open_database(f"sqlite:///{path}", is_serving=is_serving)
    assert isinstance(database, SqliteDatabase)
    try:
        yield database
    finally:
        await database.close()


def _tell(folder: Path, story: Story, *, is_serving: bool = True) -> None:
    path = folder / "registry.db"

    async def run() -> None:
        async with _opened(path, is_serving=is_serving) as database:
            await database.write(_create)
            await database.write(_add, "first")
            await story(database, path)

    asyncio.run(run())


def _stored(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return int(connection.execute("SELECT count(*) FROM audit_events").fetchone()[0])


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(ENOUGH_SECONDS):
        while not condition():  # noqa: ASYNC110 - the database announces no problem
            await asyncio.sleep(0.02)


async def _refused(database: SqliteDatabase) -> str:
    with pytest.raises(Unavailable) as refusal:
        await database.write(_add, "refused")
    problem = database.problem()
    assert problem is not None
    assert "shortly" not in refusal.value.message
    return problem.message


async def _refused_in_the_end(database: SqliteDatabase) -> str:
    await _until(lambda: database.problem() is not None)
    return await _refused(database)


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_no_write_is_acknowledged_after_a_file_was_deleted(suffix: str, tmp_path: Path) -> None:
    """No acknowledged write is lost, unless the file itself was deleted."""

    async def story(database: SqliteDatabase, path: Path) -> None:
        for number in range(20):
            await database.write(_add, f"{number}")
        _beside(path, suffix).rename(tmp_path / "moved.db")
        assert "was deleted or moved" in await _refused(database)

    _tell(tmp_path, story)
    assert _stored(tmp_path / ("registry.db" if suffix else "moved.db")) == 21


def test_no_write_is_acknowledged_after_the_file_was_replaced(tmp_path: Path) -> None:
    other = tmp_path / "other.db"

    async def story(database: SqliteDatabase, path: Path) -> None:
        async with _opened(other) as replacing:
            await replacing.write(_create)
            await replacing.write(_add, "of the other")
        other.rename(path)
        assert "was replaced" in await _refused(database)

    _tell(tmp_path, story)
    # The WAL of the replaced file isn't applied to the new one.
    assert _stored(tmp_path / "registry.db") == 1


def test_writes_resume_once_a_moved_file_is_restored(tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.mkdir()

    async def story(database: SqliteDatabase, path: Path) -> None:
        for files in (("",), ("-wal",), ("", "-wal", "-shm")):
            for suffix in files:
                _beside(path, suffix).rename(_beside(away / path.name, suffix))
            await _refused(database)
            for suffix in files:
                _beside(away / path.name, suffix).rename(_beside(path, suffix))
            await database.write(_add, "again")
            assert database.problem() is None
        assert await database.read(_count) == 4

    _tell(tmp_path, story)
    assert _stored(tmp_path / "registry.db") == 4


def _garbage(path: Path, _old: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def _nothing(path: Path, _old: Path) -> None:
    path.write_bytes(b"")


def _older(path: Path, old: Path) -> None:
    shutil.copyfile(old, path)


@pytest.mark.parametrize("overwrite", [_garbage, _nothing, _older])
def test_an_overwritten_file_is_detected(overwrite: Callable[[Path, Path], None], tmp_path: Path) -> None:
    async def story(database: SqliteDatabase, path: Path) -> None:
        old = tmp_path / "old.db"
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(old)) as target:
            source.backup(target)
        for number in range(20):
            await database.write(_add, f"{number}")
        overwrite(path, old)
        assert "was overwritten" in await _refused(database)

    _tell(tmp_path, story)


def test_a_deleted_file_is_detected_without_a_write(tmp_path: Path) -> None:
    async def story(database: SqliteDatabase, path: Path) -> None:
        assert database.problem() is None
        path.unlink()
        assert "was deleted" in await _refused_in_the_end(database)

    _tell(tmp_path, story)


def test_commits_of_other_processes_are_allowed(tmp_path: Path) -> None:
    async def story(database: SqliteDatabase, path: Path) -> None:
        for number in range(30):
            await database.write(_add, f"{number}")
            with closing(sqlite3.connect(path)) as another:
                another.execute("INSERT INTO audit_events VALUES (NULL, 'of another', NULL, NULL)")
                another.commit()
        await _until(lambda: _in_file(path) == 61)
        await database.write(_add, "after the log was written back")
        assert database.problem() is None
        assert await database.read(_count) == 62

    _tell(tmp_path, story)


def _in_file(path: Path) -> int:
    """Return the number of events in the file without its WAL."""
    with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM audit_events NOT INDEXED").fetchone()[0])
        except sqlite3.DatabaseError:
            return 0  # it is being written


def test_a_checkpoint_by_another_program_counts_as_an_overwritten_file(tmp_path: Path) -> None:
    async def story(database: SqliteDatabase, path: Path) -> None:
        with closing(sqlite3.connect(path)) as another:
            another.execute("PRAGMA wal_checkpoint(PASSIVE)")
        assert "another program wrote into it" in await _refused(database)

    _tell(tmp_path, story)
    assert _stored(tmp_path / "registry.db") == 1


def test_a_file_overwritten_during_a_checkpoint_is_detected(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The time of modification can't show this change, but the number of events can."""
    old = tmp_path / "old.db"

    async def story(database: SqliteDatabase, path: Path) -> None:
        await _until(lambda: _in_file(path) == 1)
        shutil.copyfile(path, old)
        for number in range(20):
            await database.write(_add, f"{number}")
        await _until(lambda: _in_file(path) == 21)
        checkpoint = FileWatch._checkpoint

        def overwritten(watch: FileWatch, mode: str) -> bool:
            found = checkpoint(watch, mode)
            shutil.copyfile(old, path)
            watch._modified = file_watch._modified(path)
            return found

        monkeypatch.setattr(FileWatch, "_checkpoint", overwritten)
        assert "older state" in await _refused_in_the_end(database)

    _tell(tmp_path, story)


def test_writes_are_refused_once_quick_check_finds_damage(tmp_path: Path) -> None:
    def ask(tx: Tx) -> object:
        query = "SELECT other FROM audit_events INDEXED BY others ORDER BY other"
        return tx.connection.execute(text(query)).all()

    async def story(database: SqliteDatabase, path: Path) -> None:
        for number in range(200):
            await database.write(_add, f"{number}")
        await database.quick_check()
        assert database.problem() is None
        _spoil_index(path)
        for call in (database.read(ask), database.write(_add, "refused")):
            with pytest.raises(Unavailable, match="restore a backup") as refused:
                await call
            assert "`sublet restore`" in "".join(refused.value.__notes__), "the operator's commands show it"
        await database.quick_check()
        assert "is damaged" in await _refused(database)
        assert database.problem().must_stop is False  # type: ignore[union-attr]
        assert await database.read(_count) == 201

    _tell(tmp_path, story, is_serving=False)  # another program writes into the file


def _spoil_index(path: Path) -> None:
    """Write zeros over the root page of an index."""
    with closing(sqlite3.connect(path)) as connection:
        page, size = connection.execute(
            "SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_master WHERE name = "
            "'others'"
        ).fetchone()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    # In another process: closing the file here would end the locks that SQLite has on it.
    words = f"if=/dev/zero of={path} bs={size} seek={page - 1} count=1 conv=notrunc status=none"
    subprocess.run(["dd", *words.split()], check=True)
