"""SQLite, the embedded default: WAL and synchronous=FULL.

Reads run on threads. Writes go to one writer thread that commits in groups: one BEGIN IMMEDIATE, a savepoint
for each waiting write, one COMMIT (one fsync). Several processes may open the file; SQLite's lock orders
them.
"""

import asyncio
import queue
import shutil
import sqlite3
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast
from urllib.parse import quote

import msgspec
from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import NullPool, QueuePool

from sublet.db.file_watch import CHECK_SECONDS, FileWatch, is_damage
from sublet.db.model import (
    DISK_IS_FULL,
    IS_READ_ONLY,
    JSON_OPTIONS,
    Clock,
    CommitWaiters,
    Problem,
    Tx,
    unavailable_refusal,
    utc_now,
)
from sublet.db.statements import Query, for_driver
from sublet.errors import Unavailable

P = ParamSpec("P")
R = TypeVar("R")

GROUP_MAX = 256
"""The maximum number of writes in a commit, so that the first write of a group doesn't wait too long for the
last.
"""
READERS = 2
"""The maximum number of concurrent reading transactions, so that a slow one doesn't delay the next. More
threads would wait for the interpreter's lock.
"""
BUSY_TIMEOUT_SECONDS = 5
REMEMBERED_MAX = 1000
"""The maximum number of results that `fetch_remembered` keeps."""
FREE_BYTES_MIN = 2**20
"""The minimum of free bytes on the disk of the file. Small writes still succeed on a full disk while the WAL
has room.
"""
FAULTS_MAX = 3
"""The maximum number of faults of a damaged file that the log names."""
BEGIN_WRITE = "BEGIN IMMEDIATE"
"""Takes the write lock at once. A transaction that reads first fails if another process has written
meanwhile.
"""


class _Job(msgspec.Struct):
    run: Callable[[Tx], Any]
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None
    has_changed: bool = False


def sqlite_path(url: str) -> Path | None:
    """Return the path in an SQLite address, or None if the address is of PostgreSQL.

    It is the rest of the address as it is: characters such as `%` and `?` belong to the name of the file.
    """
    return Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:///") else None


def sqlite_engine(path: Path, **options: Any) -> Engine:
    """Return an engine that sends BEGIN when SQLAlchemy begins a transaction.

    `options` are for `create_engine`.

    The driver itself would send BEGIN only before the first write. A connection with the execution option
    `begin_immediate` takes the write lock at once.

    Raises:
        Unavailable: the folder of the file does not exist.
    """
    folder = path.parent
    if not folder.is_dir():
        raise Unavailable(
            f"The folder {folder} of the database does not exist. Run `mkdir -p {folder}` first."
        )
    engine = create_engine(
        # An absolute path, because SQLite gives some relative paths another meaning, such as `:memory:`.
        URL.create("sqlite", database=str(path.absolute())),
        paramstyle="named",
        hide_parameters=True,  # keeps users' texts out of the log
        connect_args={"timeout": BUSY_TIMEOUT_SECONDS, "check_same_thread": False, "isolation_level": None},
        **{**JSON_OPTIONS, "poolclass": NullPool, **options},
    )

    @event.listens_for(engine, "connect")
    def on_connect(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        # A backup copies whole pages, so an erased text must not stay in their free space.
        connection.execute("PRAGMA secure_delete=ON")
        # SQLite's own function leaves letters that aren't ASCII as they are.
        connection.create_function("lower", 1, _lower, deterministic=True)

    @event.listens_for(engine, "begin")
    def on_begin(connection: Connection) -> None:
        immediate = connection.get_execution_options().get("begin_immediate", False)
        connection.exec_driver_sql(BEGIN_WRITE if immediate else "BEGIN")

    return engine


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _disable_autocheckpoint(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA wal_autocheckpoint=0")  # `FileWatch` checkpoints the WAL


class SqliteDatabase:
    """The embedded default: reads on threads, writes in groups on one thread, single queries on the event
    loop.
    """

    def __init__(self, path: Path, clock: Clock = utc_now, *, is_serving: bool = False) -> None:
        self._clock = clock
        self._engine = sqlite_engine(path, poolclass=QueuePool, pool_size=READERS + 1, max_overflow=0)
        self._path = path.absolute()
        self._files = FileWatch(self._path, is_serving=is_serving)
        self._connecting = lambda *_: self._files.open()
        for event_name in ("do_connect", "connect"):
            event.listen(self._engine, event_name, self._connecting)
        event.listen(self._engine, "connect", _disable_autocheckpoint)
        self._fetching: sqlite3.Connection | None = None
        self._remembered: dict[tuple[object, ...], Any] = {}
        self._remembered_version: object = None
        self._writing: Connection | None = None
        self._checking: sqlite3.Connection | None = None
        self._readers = ThreadPoolExecutor(READERS, "sublet-reader")
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._commit_waiters = CommitWaiters()
        self._write_failure: str | None = None
        self._thread = threading.Thread(target=self._write_loop, name="sublet-writer", daemon=True)
        self._thread.start()

    async def read(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        def once() -> R:
            try:
                with self._engine.connect() as connection, connection.begin() as transaction:
                    result = fn(Tx(connection, self._clock()), *args, **kwargs)
                    transaction.rollback()
                    return result
            except DatabaseError as error:
                raise self._refusal_or_error(error) from error.orig

        return await asyncio.get_running_loop().run_in_executor(self._readers, once)

    async def fetch(self, query: Query[R], /, **parameters: object) -> R:
        statement = for_driver(query.statement, self._engine.dialect)
        return query.read(statement.rows(self._fetch(*statement.call(parameters))))

    async def fetch_remembered(self, query: Query[R], /, **parameters: object) -> R:
        # The connection of `_fetch` never commits, so each commit of this process or another changes its
        # version.
        (version,) = self._fetch("PRAGMA data_version", {})
        if version != self._remembered_version or len(self._remembered) >= REMEMBERED_MAX:
            self._remembered.clear()
            self._remembered_version = version
        key = (query, *parameters.values())
        if key not in self._remembered:
            self._remembered[key] = await self.fetch(query, **parameters)
        return self._remembered[key]  # type: ignore[no-any-return] # the key has the query

    def _fetch(self, text: str, values: Mapping[str, object]) -> list[Any]:
        try:
            if self._fetching is None:
                self._files.open()
                self._fetching = sqlite3.connect(
                    self._path, timeout=BUSY_TIMEOUT_SECONDS, check_same_thread=False, isolation_level=None
                )
            return self._fetching.execute(text, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._refusal_or_error(error) from error

    def now(self) -> datetime:
        return self._clock()

    async def write(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        future = asyncio.get_running_loop().create_future()
        self._jobs.put(_Job(lambda tx: fn(tx, *args, **kwargs), future))
        return cast("R", await future)

    async def changed(self, timeout_seconds: float) -> bool:
        return await self._commit_waiters.wait(timeout_seconds)

    def problem(self) -> Problem | None:
        return self._files.problem

    def write_failure(self) -> str | None:
        try:
            free = shutil.disk_usage(self._path.resolve().parent).free
        except OSError:  # the folder is missing, which is a problem of the files
            return self._write_failure
        return DISK_IS_FULL if free < FREE_BYTES_MIN else self._write_failure

    async def quick_check(self) -> None:
        """Run SQLite's `PRAGMA quick_check` on a separate thread and connection.

        If it finds damage, refuse writes from then on.
        """
        try:
            await asyncio.to_thread(self._run_quick_check)
        except asyncio.CancelledError:
            if self._checking is not None:
                with suppress(sqlite3.ProgrammingError):  # the check has just ended
                    self._checking.interrupt()
            raise

    async def close(self) -> None:
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)
        await asyncio.to_thread(self._readers.shutdown)
        if self._fetching is not None:
            self._fetching.close()
        self._engine.dispose()
        for event_name in ("do_connect", "connect"):
            event.remove(self._engine, event_name, self._connecting)
        event.remove(self._engine, "connect", _disable_autocheckpoint)
        self._files.close()

    def _run_quick_check(self) -> None:
        address = f"file:{quote(str(self._path))}?mode=ro"
        try:
            with closing(sqlite3.connect(address, uri=True, check_same_thread=False)) as self._checking:
                faults = [row[0] for row in self._checking.execute(f"PRAGMA quick_check({FAULTS_MAX})")]
        except sqlite3.DatabaseError as error:
            faults = [str(error)] if is_damage(error) else ["ok"]  # interrupted, or not readable now
        finally:
            self._checking = None
        if faults != ["ok"]:
            self._files.record_damage("; ".join(faults))

    def _write_loop(self) -> None:
        is_open = True
        while is_open:
            group: list[_Job] = []
            job = self._first_job()
            while job is not None:
                group.append(job)
                if len(group) == GROUP_MAX or self._jobs.empty():
                    break
                job = self._jobs.get()
            is_open = job is not None
            if group:
                try:
                    self._commit_group(group)
                    self._write_failure = None
                except Exception as error:  # noqa: BLE001 - all waiting callers must get the error
                    self._write_failure = _write_failure(error)
                    refusal = (
                        self._files.damage_refusal()
                        if self._record_if_damage(error)
                        else unavailable_refusal(error)
                    )
                    for each in group:
                        each.error = refusal
                self._answer(group)
        if self._writing is not None:
            self._writing.close()

    def _first_job(self) -> _Job | None:
        """Wait for a job, and check the files meanwhile. Return None if the database is closed."""
        while True:
            try:
                return self._jobs.get(timeout=CHECK_SECONDS)
            except queue.Empty:
                self._files.check()

    def _commit_group(self, group: list[_Job]) -> None:
        """Run a group's jobs, each in a savepoint, and commit them.

        The files are compared after the commit. If they are replaced later, the replaced files have these
        writes.
        """
        if self._writing is None:
            self._writing = self._engine.connect().execution_options(begin_immediate=True)
        connection = self._writing
        self._files.refuse_write()
        try:
            with connection.begin():
                driver = cast("sqlite3.Connection", connection.connection.dbapi_connection)
                for job in group:
                    changes_before = driver.total_changes
                    driver.execute("SAVEPOINT job")
                    try:
                        job.result = job.run(Tx(connection, self._clock()))
                        job.has_changed = driver.total_changes != changes_before
                    except Exception as error:
                        # After some errors, such as a full disk, SQLite has rolled back the whole
                        # transaction.
                        if not driver.in_transaction or _write_failure(error) is not None:
                            raise
                        job.error = self._refusal_or_error(error)
                        driver.execute("ROLLBACK TO job")
                    driver.execute("RELEASE job")
        except BaseException:
            # A failed COMMIT may leave the transaction open, so a new connection is needed.
            self._writing = None
            connection.invalidate()
            connection.close()
            raise
        self._files.refuse_acknowledgement()

    def _answer(self, group: list[_Job]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
        for job in group:
            by_loop.setdefault(job.future.get_loop(), []).append(job)
        for loop, jobs in by_loop.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._resolve, jobs)

    def _resolve(self, jobs: list[_Job]) -> None:
        for job in jobs:
            if job.future.done():  # the caller was cancelled, but the write took effect
                continue
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)
        if any(job.has_changed and job.error is None for job in jobs):
            self._commit_waiters.wake()

    def _refusal_or_error(self, error: Exception) -> BaseException:
        """Return `Unavailable` for an error of the database file, and all other errors unchanged."""
        if self._record_if_damage(error):
            return self._files.damage_refusal()
        cause = getattr(error, "orig", error)
        # These two classes mean that the file can't be read or written. But SQLITE_ERROR, such as "no such
        # table", is a bug of ours.
        is_about_file = type(cause) in (sqlite3.DatabaseError, sqlite3.OperationalError)
        is_bug = getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR
        return unavailable_refusal(error) if is_about_file and not is_bug else error

    def _record_if_damage(self, error: Exception) -> bool:
        """If SQLite found the database malformed, refuse all writes from now on and return True."""
        cause = getattr(error, "orig", error)
        if not is_damage(cause):
            return False
        self._files.record_damage(str(cause))
        return True


_WRITE_FAILURES = {
    sqlite3.SQLITE_FULL: DISK_IS_FULL,
    sqlite3.SQLITE_READONLY: IS_READ_ONLY,
    sqlite3.SQLITE_IOERR: "The disk of the database fails, or is read-only. The system's log has the cause.",
}
"""Why no write succeeds now, by the error of SQLite."""


def _write_failure(error: Exception) -> str | None:
    code = getattr(getattr(error, "orig", error), "sqlite_errorcode", None)
    # The lowest eight bits of an extended code are the error's own.
    return None if code is None else _WRITE_FAILURES.get(code & 0xFF)
