"""The SQLite file of a registry: the lock of its serving process, and checked copies that are made while
others write.

A copy is a single file, without a `-wal` file. Until it is complete, checked and on the disk, its name is
`.NAME.….part`, so a killed process leaves the old file unchanged.
"""

import fcntl
import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from sqlalchemy import create_engine
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import NullPool

from sublet.db import BUSY_TIMEOUT_SECONDS, Tx, advice_about_cause, driver_message, is_damage
from sublet.errors import Conflict, NotFound, Unavailable

SIDE_SUFFIXES = ("-wal", "-journal", "-shm")
"""The suffixes of the files that SQLite keeps beside a database in use, and that a killed process leaves.
`-shm` has no data.
"""
FAULTS_MAX = 3
"""The maximum number of a broken file's faults in a refusal."""


@contextmanager
def serve_lock(database: Path | None) -> Iterator[None]:
    """Hold the lock of the single serving process of an SQLite file (None: do nothing).

    The kernel releases it when the process ends.

    The lock prevents a second worker, and any worker while the file is replaced. The lock's file is beside
    the target of a symbolic link, so that all paths of a database share a lock. The file itself is locked
    too, because hard links have other paths. SQLite uses another kind of lock (`fcntl`), which this one
    doesn't touch.

    Raises:
        Unavailable: another process holds the lock, or the lock's file can't be written.
    """
    if database is None:
        yield
        return
    target = database.resolve()
    path = _beside(target, ".serve-lock")
    try:
        file = path.open("w")
    except OSError as error:
        raise Unavailable(
            f"The file {path} can't be written: {error.strerror}. Check the permissions of its folder."
        ) from error
    with ExitStack() as open_files:
        locked: list[IO[Any]] = [open_files.enter_context(file)]
        # Closing a file ends all of the process's `fcntl` locks on it, so this one is closed after the
        # database.
        with suppress(FileNotFoundError):
            locked.append(open_files.enter_context(_open_database(target)))
        for each in locked:
            try:
                fcntl.flock(each, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise Unavailable(
                    f"Another `sublet serve` uses the database {database}. Stop that process first."
                ) from error
        yield


def _open_database(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except PermissionError as error:
        raise Unavailable(
            f"The file {path} can't be read: {error.strerror}. Check its permissions."
        ) from error


def create_private(path: Path) -> None:
    """Create an empty file that only its owner may read, unless it exists. A symbolic link is followed.

    SQLite gives its other files the same mode.

    Raises:
        Unavailable: the file can't be created.
    """
    try:
        with suppress(FileExistsError):
            os.close(os.open(path.resolve(), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise Unavailable(
            f"The file {path} can't be created: {error.strerror}. Check the permissions of its folder."
        ) from error


def refuse_unfinished(path: Path) -> None:
    """Raise `Conflict` if a `-wal` or `-journal` file with data is beside a file.

    Then the file alone isn't the whole database.
    """
    for side in (_beside(path, suffix) for suffix in SIDE_SUFFIXES[:2]):
        if side.exists() and side.stat().st_size:
            raise Conflict(
                f"There is a file {side.name} beside {path}, so the database is in use or incomplete. If "
                "no process uses the database, "
                f'run `sqlite3 {path} "PRAGMA journal_mode=DELETE"` to merge the files.'
            )


@contextmanager
def temporary_file(target: Path) -> Iterator[Path]:
    """Yield a new empty file beside `target` with mode 0600, and remove it at the end if it still exists.

    Raises:
        Unavailable: the folder is missing or can't be written, or the disk is full. This covers writes inside
            the block.
    """
    advice = "Check the path and its permissions."
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
        os.close(handle)
    except OSError as error:
        raise Unavailable(f"{target} can't be written: {error.strerror}. {advice}") from error
    path = Path(name)
    try:
        yield path
    except OSError as error:
        raise Unavailable(f"{error.filename or target}: {error.strerror}. {advice}") from error
    finally:
        for each in (path, *(_beside(path, suffix) for suffix in SIDE_SUFFIXES)):
            with suppress(FileNotFoundError):
                each.unlink()


def copy_online(source: Path, target: Path) -> None:
    """Copy a single state of a database into an empty file, while other processes read and write the
    database.

    All pages are copied in one step, inside one reading transaction; in WAL mode no writer waits for this. A
    copy in several steps would restart at each commit of another process, and never end under constant
    writes. `VACUUM INTO` also copies a single state, but rebuilds every table and index, which takes far
    longer.

    Raises:
        Conflict: the source is broken.
        Unavailable: the source can't be read, or the target can't be written.
    """
    try:
        with closing(_connect(source, "rw")) as reading, closing(_connect(target, "rw")) as writing:
            # An incomplete target after a crash is harmless, because the caller renames the target only when
            # it is on the disk.
            writing.execute("PRAGMA journal_mode=OFF")
            writing.execute("PRAGMA synchronous=OFF")
            reading.backup(writing, pages=-1)
        with closing(_connect(target, "rw")) as copied:
            copied.execute("PRAGMA synchronous=OFF")
            copied.execute("PRAGMA journal_mode=DELETE")  # The copied header has the source's mode, WAL.
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            raise Conflict(f"{source} is broken: {error}; no copy was made. Restore a backup.") from error
        raise Unavailable(
            f"{source} can't be copied to {target.parent}: {error}. Check the permissions and the free "
            "space in both folders."
        ) from error
    sync(target)


def copy_file(source: Path, target: Path) -> None:
    """Copy a backup, which no process writes, and wait until the copy is on the disk.

    Raises:
        NotFound: the source does not exist.
    """
    try:
        with source.open("rb") as reading, target.open("wb") as writing:
            shutil.copyfileobj(reading, writing, 1 << 20)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise NotFound(f"There is no file `{source}`. Check the path.") from error
    sync(target)


@contextmanager
def open_read_only(path: Path, now: datetime) -> Iterator[Tx]:
    """Open a complete SQLite file for reading, without a lock, and without changing it or creating files
    beside it.

    Raises:
        Unavailable: a disk is full or fails, or a file can't be opened. Queries may need temporary files.
    """
    with _open(path, "ro", now, immutable=1) as tx:
        yield tx


@contextmanager
def open_unused(path: Path, now: datetime) -> Iterator[Tx]:
    """Open a transaction that writes a complete SQLite file, which no other process uses.

    It commits at the end.

    Raises:
        Unavailable: the disk is full or fails, or the file can't be opened.
    """
    with _open(path, "rw", now) as tx, tx.connection.begin():
        tx.connection.exec_driver_sql("BEGIN IMMEDIATE")
        yield tx


@contextmanager
def _open(path: Path, mode: str, now: datetime, *, immutable: int = 0) -> Iterator[Tx]:
    engine = create_engine(
        "sqlite://",
        creator=lambda: _connect(path, mode, immutable=immutable),
        poolclass=NullPool,
        paramstyle="named",  # `db.Prepared` sends parameters by name.
    )
    try:
        with engine.connect() as connection:
            yield Tx(connection, now)
    except DatabaseError as error:
        advice = advice_about_cause(error)
        if not advice:
            raise
        raise Unavailable(
            f"The copy in {path.parent} can't be checked: {driver_message(error)}. {advice}"
        ) from error
    finally:
        engine.dispose()


def refuse_broken(path: Path, name: Path) -> None:
    """Raise `Conflict` if SQLite's integrity check of a file fails. The message calls the file `name`.

    Raises:
        Conflict: the file is not an SQLite database, or is broken.
    """
    faults: list[str] = []
    try:
        with closing(_connect(path, "ro", immutable=1)) as connection:
            found = connection.execute(f"PRAGMA integrity_check({FAULTS_MAX})").fetchall()
            faults += [row[0] for row in found if row[0] != "ok"]
            orphans = connection.execute("PRAGMA foreign_key_check").fetchmany(FAULTS_MAX)
            faults += [f"row {row[1]} of {row[0]} refers to a missing row of {row[2]}" for row in orphans]
    except sqlite3.DatabaseError as error:
        faults.append(str(error))
    if faults:
        raise Conflict(f"{name} is broken: {'; '.join(faults)}. Restore a backup that isn't broken.")


def sync(path: Path) -> None:
    """Wait until a file, or the names of a folder's files, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def rename_durably(path: Path, target: Path) -> None:
    """Rename a file atomically, replace an existing target, and wait until the new name is on the disk."""
    os.replace(path, target)  # noqa: PTH105 - the tests interrupt each call of `os`
    sync(target.parent)


def replace_database(new: Path, database: Path, kept: Path) -> None:
    """Replace a database with a checked file, and keep the old database as `kept`.

    The old database is locked first, which fails while another process has it open, and merges its `-wal`
    file. SQLite would apply a remaining `-wal` file to the new database. A broken database can't be locked,
    so its `-wal` file is kept too.

    Raises:
        Unavailable: another process has the database open.
        OSError: linking or renaming failed.
    """
    with _locked(database):
        if database.exists():
            _take_owner(new, database)
            os.link(database, kept)
        for suffix in SIDE_SUFFIXES:
            side = _beside(database, suffix)
            if side.exists():
                if side.stat().st_size and suffix != "-shm":
                    os.replace(side, _beside(kept, suffix))  # noqa: PTH105 - the tests interrupt each call of `os`
                else:
                    side.unlink()
        sync(database.parent)
        rename_durably(new, database)


@contextmanager
def _locked(database: Path) -> Iterator[None]:
    # In WAL mode every process that has the file open holds a shared lock, so the change of the journal mode
    # fails.
    if not database.exists():
        yield
        return
    with closing(_connect(database, "rw")) as connection:
        try:
            mode = connection.execute("PRAGMA journal_mode=DELETE").fetchone()[0]
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as error:
            mode = "delete" if is_damage(error) else str(error)
        if mode != "delete":
            raise Unavailable(
                f"The database {database} is open in another process ({mode}). Stop that process first."
            )
        yield


def _take_owner(new: Path, old: Path) -> None:
    """Give a file the owner and mode of the file that it replaces, so that the service can use it."""
    wanted, present = old.stat(), new.stat()
    if (wanted.st_uid, wanted.st_gid) != (present.st_uid, present.st_gid):
        os.chown(new, wanted.st_uid, wanted.st_gid)
    new.chmod(stat.S_IMODE(wanted.st_mode))


def _beside(path: Path, suffix: str) -> Path:
    return Path(f"{path}{suffix}")


def _connect(path: Path, mode: str, *, immutable: int = 0) -> sqlite3.Connection:
    address = f"file:{quote(str(path.absolute()))}?mode={mode}&immutable={immutable}"
    try:
        return sqlite3.connect(
            address, uri=True, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
        )
    except sqlite3.OperationalError as error:
        raise Unavailable(f"{path} can't be opened: {error}. Check the path and its permissions.") from error
