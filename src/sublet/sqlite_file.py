"""The SQLite file of a registry: the lock of its serving process, and checked copies that are made while others write.

A copy is one file, without a `-wal` beside it. Until it is complete, checked and on the disk its name is `.NAME.….part`, so
a process that is killed leaves the old file as it was.
"""

import fcntl
import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from sublet.db import BUSY_TIMEOUT_SECONDS, Tx, is_damage
from sublet.errors import Conflict, NotFound, Unavailable

BESIDE = ("-wal", "-journal", "-shm")
"""The suffixes of SQLite's files beside a database in use, or left by a killed process. The last has no data."""
FAULTS_MAX = 3
"""Most faults of a broken file that a refusal names."""


def sqlite_path(url: str) -> Path | None:
    """Return the path in an SQLite address; None for another database."""
    return Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:///") else None


@contextmanager
def serve_lock(database: Path | None) -> Iterator[None]:
    """Hold the lock of the one serving process of an SQLite file (None: do nothing). The kernel releases it when the process ends.

    It keeps a second worker away from the zones, and any worker while the file is replaced. All paths of one file have one lock: it is
    beside the target of a symbolic link.

    Raises:
        Unavailable: another process holds the lock, or the lock's file can't be written.
    """
    if database is None:
        yield
        return
    target = database.resolve()
    path = target.with_name(target.name + ".serve-lock")
    try:
        file = path.open("w")
    except OSError as error:
        raise Unavailable(
            f"The file {path} can't be written: {error.strerror}. Check the rights of its folder."
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Unavailable(
                f"Another `sublet serve` has the database {database}; stop that one first."
            ) from error
        yield


def create_private(path: Path) -> None:
    """Create an empty file that only its owner may read, unless it exists. SQLite gives its other files the same mode.

    Raises:
        Unavailable: it can't be created.
    """
    try:
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise Unavailable(
            f"The file {path} can't be created: {error.strerror}. Check the rights of its folder."
        ) from error


def refuse_unfinished(path: Path) -> None:
    """Raise `Conflict` if a `-wal` or `-journal` with data lies beside a file: then the file is not the whole database."""
    for side in (_beside(path, suffix) for suffix in BESIDE[:2]):
        if side.exists() and side.stat().st_size:
            raise Conflict(
                f"There is a file {side.name} beside {path}, which is in use or incomplete without it. If no process uses it, "
                f'run `sqlite3 {path} "PRAGMA journal_mode=DELETE"`, which merges them.'
            )


@contextmanager
def unfinished(target: Path) -> Iterator[Path]:
    """Yield a new empty file beside `target` with mode 0600, and remove it at the end if it still exists.

    Raises:
        Unavailable: the folder is missing or can't be written, or the disk is full, also for writes inside.
    """
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
        os.close(handle)
        path = Path(name)
        try:
            yield path
        finally:
            for each in (path, *(_beside(path, suffix) for suffix in BESIDE)):
                with suppress(FileNotFoundError):
                    each.unlink()
    except OSError as error:
        raise Unavailable(
            f"{error.filename or target}: {error.strerror}. Check the path and its rights."
        ) from error


def copy_online(source: Path, target: Path) -> None:
    """Copy one state of a database into an empty file, while others read and write it.

    One step inside one reading transaction copies all pages; in WAL mode no writer waits for it. In several steps, each
    commit of another process would restart it, and under constant writes it would never end. `VACUUM INTO` also reads one
    state, but it rebuilds every table and index, which takes far longer.

    Raises:
        Conflict: the source is broken.
        Unavailable: the source can't be read, or the target can't be written.
    """
    try:
        with closing(_connect(source, "rw")) as reading, closing(_connect(target, "rw")) as writing:
            # A crash may tear the target: it gets its name only when it is on the disk.
            writing.execute("PRAGMA journal_mode=OFF")
            writing.execute("PRAGMA synchronous=OFF")
            reading.backup(writing, pages=-1)
        with closing(_connect(target, "rw")) as copied:
            copied.execute("PRAGMA synchronous=OFF")
            copied.execute("PRAGMA journal_mode=DELETE")  # the pages say WAL, as the source's do
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            raise Conflict(f"{source} is broken: {error}; no copy was made. Restore a backup.") from error
        raise Unavailable(
            f"{source} can't be copied to {target.parent}: {error}. Check the rights and the free space there."
        ) from error
    sync(target)


def copy_file(source: Path, target: Path) -> None:
    """Copy a backup, which no process writes, onto the disk.

    Raises:
        NotFound: there is no such file.
    """
    try:
        with source.open("rb") as reading, target.open("wb") as writing:
            shutil.copyfileobj(reading, writing, 1 << 20)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise NotFound(f"There is no file {source}. Check the path.") from error
    sync(target)


@contextmanager
def opened(path: Path, now: datetime) -> Iterator[Tx]:
    """Open a complete SQLite file for reading, without a lock and without changes to it or beside it."""
    engine = create_engine(
        "sqlite://",
        creator=lambda: _connect(path, "ro", immutable=1),
        poolclass=NullPool,
        paramstyle="named",  # as `db.Prepared` sends parameters
    )
    try:
        with engine.connect() as connection:
            yield Tx(connection, now)
    finally:
        engine.dispose()


def refuse_broken(path: Path, name: Path) -> None:
    """Read a whole file with SQLite's integrity check; refusals call it `name`.

    Raises:
        Conflict: it is not an SQLite database, or a broken one.
    """
    faults: list[str] = []
    try:
        with closing(_connect(path, "ro", immutable=1)) as connection:
            found = connection.execute(f"PRAGMA integrity_check({FAULTS_MAX})").fetchall()
            faults += [row[0] for row in found if row[0] != "ok"]
            orphans = connection.execute("PRAGMA foreign_key_check").fetchmany(FAULTS_MAX)
            faults += [f"row {row[1]} of {row[0]} refers to none of {row[2]}" for row in orphans]
    except sqlite3.DatabaseError as error:
        faults.append(str(error))
    if faults:
        raise Conflict(f"{name} is broken: {'; '.join(faults)}. Use another backup.")


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def give_name(path: Path, target: Path) -> None:
    """Rename a file that is on the disk, atomically, replacing a file of that name."""
    os.replace(path, target)  # noqa: PTH105 - as the other steps here, which the tests interrupt one by one
    sync(target.parent)


def replace_database(new: Path, database: Path, kept: Path) -> None:
    """Replace a database by a checked file. The old database is kept as `kept`.

    First an exclusive lock, which fails while another process has the old database open, merges its `-wal`: SQLite would
    apply a remaining `-wal` to the new file. A broken database can't be locked; its `-wal` moves with it.

    Raises:
        Unavailable: another process has the database open.
        OSError: linking or renaming failed.
    """
    with _locked(database):
        if database.exists():
            _take_owner(new, database)
            os.link(database, kept)
        for suffix in BESIDE:
            side = _beside(database, suffix)
            if side.exists():
                if side.stat().st_size and suffix != "-shm":
                    os.replace(side, _beside(kept, suffix))  # noqa: PTH105 - as above
                else:
                    side.unlink()
        sync(database.parent)
        give_name(new, database)


@contextmanager
def _locked(database: Path) -> Iterator[None]:
    # In WAL mode each process that uses the file holds a shared lock on it, which prevents this change of mode.
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
    """Give a file the owner and mode of the one that it replaces, so that the service can use it."""
    was, now = old.stat(), new.stat()
    if (was.st_uid, was.st_gid) != (now.st_uid, now.st_gid):
        os.chown(new, was.st_uid, was.st_gid)
    new.chmod(stat.S_IMODE(was.st_mode))


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _connect(path: Path, mode: str, *, immutable: int = 0) -> sqlite3.Connection:
    address = f"file:{quote(str(path.absolute()))}?mode={mode}&immutable={immutable}"
    try:
        return sqlite3.connect(
            address, uri=True, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
        )
    except sqlite3.OperationalError as error:
        raise Unavailable(f"{path} can't be opened: {error}. Check the path and its rights.") from error
