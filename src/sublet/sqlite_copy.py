"""Copies of a registry in an SQLite file: made while others write, checked, and put where the registry was.

A copy is one file: it has no `-wal` beside it. It gets its name only once it is whole, checked and on the disk; until then it
is `.NAME.….part` beside that name. So whoever is killed on the way leaves what was there before as it was.
"""

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

from sublet.db import BUSY_TIMEOUT_SECONDS, Tx
from sublet.errors import Conflict, NotFound, Unavailable

BESIDE = ("-wal", "-journal", "-shm")
"""What SQLite keeps beside a file that is in use, or whose user was killed; the last one has nothing that counts."""
BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
FAULTS_MAX = 3
"""How many of a broken file's faults are told."""


def sqlite_path(url: str) -> Path | None:
    """Return the file of an SQLite address; None for another database."""
    return Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:///") else None


def refuse_unfinished(path: Path) -> None:
    """Refuse a file that isn't the whole of its database.

    Raises:
        Conflict: SQLite's `-wal` or `-journal` lies beside it, with something in it.
    """
    for side in (_beside(path, suffix) for suffix in BESIDE[:2]):
        if side.exists() and side.stat().st_size:
            raise Conflict(
                f"Beside {path} lies {side.name}: the file is in use, or isn't whole without that. If no process uses it, "
                f'run `sqlite3 {path} "PRAGMA journal_mode=DELETE"`, which makes one file of both.'
            )


@contextmanager
def unfinished(target: Path) -> Iterator[Path]:
    """Give an empty file beside `target` that nobody else can read (0600); what is left of it in the end is removed.

    Raises:
        Unavailable: the folder isn't there or can't be written, or the disk is full, also later inside.
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

    The pages are copied in one go, inside one reading transaction: in WAL mode that keeps no writer waiting. In steps, each
    commit of another process would have it begin anew, and under constant writes it would never end. `VACUUM INTO` would also
    see one state, but it builds every table and index anew, which takes far longer, and it copies no page as it is.

    Raises:
        Conflict: the source is broken.
        Unavailable: it can't be read, or the target not be written.
    """
    try:
        with closing(_connect(source, "rw")) as reading, closing(_connect(target, "rw")) as writing:
            # Until it has its name the target may be torn; it is on the disk before it gets that.
            writing.execute("PRAGMA journal_mode=OFF")
            writing.execute("PRAGMA synchronous=OFF")
            reading.backup(writing, pages=-1)
        with closing(_connect(target, "rw")) as copied:
            copied.execute("PRAGMA synchronous=OFF")
            copied.execute("PRAGMA journal_mode=DELETE")  # the pages say WAL, as the source's do
    except sqlite3.DatabaseError as error:
        if _code(error) in BROKEN:
            raise Conflict(f"{source} is broken: {error}; no copy was made. Restore a backup.") from error
        raise Unavailable(
            f"{source} can't be copied to {target.parent}: {error}. Check the rights and the free space there."
        ) from error
    sync(target)


def copy_file(source: Path, target: Path) -> None:
    """Copy a file that nobody writes, a backup, onto the disk.

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
    """Read a whole file of an SQLite database without a lock and without changing anything at it or beside it."""
    engine = create_engine("sqlite://", creator=lambda: _connect(path, "ro", immutable=1), poolclass=NullPool)
    try:
        with engine.connect() as connection:
            yield Tx(connection, now)
    finally:
        engine.dispose()


def refuse_broken(path: Path, name: Path) -> None:
    """Read a file whole, as SQLite checks it; `name` is what it is called in the refusal.

    Raises:
        Conflict: it is no SQLite database, or a broken one.
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
    """Wait until a file, or a folder's names, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def give_name(path: Path, target: Path) -> None:
    """Give a file that is on the disk its name, in one step, in place of what has it."""
    os.replace(path, target)  # noqa: PTH105 - as the other steps here, which the tests interrupt one by one
    sync(target.parent)


def replace_database(new: Path, database: Path, kept: Path) -> None:
    """Put a checked file in the place of a database; what was there is kept whole under the name `kept`.

    The old one is made one file first, by an exclusive lock, which nobody gets while another process has it open: a `-wal`
    that lay beside the new one would be written into it. A broken one can't be locked; its `-wal` goes with it.

    Raises:
        Unavailable: another process has the database open.
        OSError: it can't be linked or renamed.
    """
    with _alone(database):
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
def _alone(database: Path) -> Iterator[None]:
    # In WAL mode each process that uses the file holds a shared lock on it, so this change of mode shows that there is none.
    if not database.exists():
        yield
        return
    with closing(_connect(database, "rw")) as connection:
        try:
            mode = connection.execute("PRAGMA journal_mode=DELETE").fetchone()[0]
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as error:
            if _code(error) not in BROKEN:
                raise Unavailable(
                    f"The database {database} is open in another process ({error}); end that first."
                ) from error
        else:
            if mode != "delete":
                raise Unavailable(f"The database {database} is open in another process; end that first.")
        yield


def _take_owner(new: Path, old: Path) -> None:
    """Give a file the owner and mode of the one whose place it takes: the service is to read and write it."""
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


def _code(error: sqlite3.DatabaseError) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
