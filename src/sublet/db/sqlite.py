"""SQLite, the embedded default: WAL and synchronous=FULL.

Reads run where they are called, on a kept connection, but for long ones, which have a thread of their own. Writes go to one writer
thread that commits in groups: what is waiting gets one BEGIN IMMEDIATE, a savepoint each, one COMMIT (one fsync). Several processes
may open the file; SQLite's lock orders them.
"""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import msgspec
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DatabaseError, OperationalError
from sqlalchemy.pool import NullPool

from sublet.db.changes import Changes
from sublet.db.model import Clock, K, Tx, unavailable, utc_now

P = ParamSpec("P")
R = TypeVar("R")

GROUP_MAX = 256
"""Most writes in one commit: bounds how long the first of a group waits for the last."""
BUSY_TIMEOUT_SECONDS = 5
RECALLED_MAX = 4096
"""Most answers that are remembered until the next commit."""
READING_CACHE_KIB = 32 * 1024
"""How much of the file the connection of short reads keeps in memory at most; SQLite by itself has each keep 2 MiB."""


@dataclass(slots=True)
class _Job:
    run: Callable[[Tx], Any]
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None
    has_changed: bool = False


def sqlite_engine(url: str) -> Engine:
    """Return an engine whose transactions begin when SQLAlchemy says so (the driver's own begin is deferred and late)."""
    engine = create_engine(
        url,
        poolclass=NullPool,
        json_deserializer=msgspec.json.decode,
        json_serializer=lambda value: msgspec.json.encode(value).decode(),
        hide_parameters=True,  # what users wrote stays out of the log
        connect_args={"timeout": BUSY_TIMEOUT_SECONDS, "check_same_thread": False, "isolation_level": None},
    )

    @event.listens_for(engine, "connect")
    def on_connect(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def on_begin(connection: Connection) -> None:
        begin = connection.get_execution_options().get("sublet_begin", "BEGIN")
        if begin is not None:
            connection.exec_driver_sql(begin)

    return engine


class SqliteDatabase:
    """The embedded default: reads in place, writes in groups on one thread."""

    def __init__(self, url: str, clock: Clock = utc_now) -> None:
        self._clock = clock
        self._engine = sqlite_engine(url)
        self._reader: Connection | None = None
        self._reader_apart: Connection | None = None
        self._apart = ThreadPoolExecutor(1, "sublet-reader")
        self._recalled: dict[tuple[object, Hashable], Any] = {}
        self._recalled_at: int | None = None
        self._is_recall_fresh = False
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._changes = Changes()
        self._thread = threading.Thread(target=self._write_loop, name="sublet-writer", daemon=True)
        self._thread.start()

    async def read(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return _read(self._reading, lambda tx: fn(tx, *args, **kwargs))

    async def read_apart(
        self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        # One at a time. Between two rows the driver lets the other threads have the interpreter.
        return await asyncio.get_running_loop().run_in_executor(
            self._apart, lambda: _read(self._reading_apart, lambda tx: fn(tx, *args, **kwargs))
        )

    async def ask(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return fn(self._reading(), *args, **kwargs)
        except DatabaseError as error:
            raise _told(error) from error.orig

    async def recall(self, fn: Callable[[Tx, K], R], key: K, /) -> R:
        try:
            if not self._is_recall_fresh:
                self._refresh_recall(self._reading())
            try:
                return cast("R", self._recalled[fn, key])
            except KeyError:
                if len(self._recalled) >= RECALLED_MAX:
                    self._recalled.clear()
                found = self._recalled[fn, key] = fn(self._reading(), key)
                return found
        except DatabaseError as error:
            raise _told(error) from error.orig

    def _refresh_recall(self, tx: Tx) -> None:
        """Forget what was found before the last commit of anybody; once for all requests that the loop runs in one go, which had come by now."""
        # Another number for each commit of anybody else, and to this connection everybody is, since it writes nothing. It is asked
        # for first: what is found after that may be newer than the number says, never older.
        version = tx.data_version()
        if version != self._recalled_at:
            self._recalled.clear()
            self._recalled_at = version
        self._is_recall_fresh = True
        asyncio.get_running_loop().call_soon(self._outdate_recall)

    def _outdate_recall(self) -> None:
        self._is_recall_fresh = False

    def now(self) -> datetime:
        return self._clock()

    def _reading(self) -> Tx:
        if self._reader is None:
            self._reader = self._connect()
            Tx(self._reader, self._clock()).command(f"PRAGMA cache_size=-{READING_CACHE_KIB}")
        return Tx(self._reader, self._clock())

    def _reading_apart(self) -> Tx:
        if self._reader_apart is None:
            self._reader_apart = self._connect()
        return Tx(self._reader_apart, self._clock())

    async def write(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        future = asyncio.get_running_loop().create_future()
        self._jobs.put(_Job(lambda tx: fn(tx, *args, **kwargs), future))
        return cast("R", await future)

    async def jot(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.write(fn, *args, **kwargs)

    async def changed(self, timeout_seconds: float) -> bool:
        return await self._changes.wait(timeout_seconds)

    async def close(self) -> None:
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)
        await asyncio.to_thread(self._apart.shutdown)
        for reader in (self._reader, self._reader_apart):
            if reader is not None:
                reader.close()
        self._engine.dispose()

    def _connect(self) -> Connection:
        """Return a connection on which transactions are begun and ended through the driver, at a tenth of SQLAlchemy's price.

        To SQLAlchemy it is in one transaction for as long as it lasts, of which SQLite hears nothing.
        """
        connection = self._engine.connect().execution_options(sublet_begin=None)
        connection.begin()
        return connection

    def _write_loop(self) -> None:
        connection: Connection | None = None
        open_for_more = True
        while open_for_more:
            group: list[_Job] = []
            job = self._jobs.get()
            while job is not None:
                group.append(job)
                if len(group) == GROUP_MAX or self._jobs.empty():
                    break
                job = self._jobs.get()
            open_for_more = job is not None
            if group:
                try:
                    connection = connection or self._connect()
                    self._commit_group(connection, group)
                except Exception as error:  # noqa: BLE001 - whatever it is, every waiting caller must hear of it
                    if connection is not None:
                        # A commit that failed may have left the transaction open: only a new connection is surely clean.
                        connection.invalidate()
                        connection.close()
                        connection = None
                    for each in group:
                        each.error = unavailable(error)
                self._answer(group)
        if connection is not None:
            connection.close()

    def _commit_group(self, connection: Connection, group: list[_Job]) -> None:
        """Run a group's jobs, each in a savepoint, and commit what they did."""
        of_all = Tx(connection, self._clock())
        driver = of_all.driver
        of_all.command("BEGIN IMMEDIATE")
        for job in group:
            changes_before = driver.total_changes
            of_all.command("SAVEPOINT job")
            try:
                job.result = job.run(Tx(connection, self._clock()))
                job.has_changed = driver.total_changes != changes_before
            except Exception as error:  # noqa: BLE001 - handed to the caller of `write`
                job.error = _told(error)
                # It fails when SQLite has given the whole transaction up (a full disk).
                of_all.command("ROLLBACK TO job")
            of_all.command("RELEASE job")
        of_all.command("COMMIT")

    def _answer(self, group: list[_Job]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
        for job in group:
            by_loop.setdefault(job.future.get_loop(), []).append(job)
        for loop, jobs in by_loop.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._resolve, jobs)

    def _resolve(self, jobs: list[_Job]) -> None:
        for job in jobs:
            if job.future.done():  # the caller was cancelled; the effect stands all the same
                continue
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)
        if any(job.has_changed and job.error is None for job in jobs):
            self._changes.tell()


def _read(reading: Callable[[], Tx], fn: Callable[[Tx], R]) -> R:
    """Run a function in a transaction that only reads; to connect may be what fails."""
    try:
        tx = reading()
        tx.command("BEGIN")
        try:
            return fn(tx)
        finally:
            if tx.driver.in_transaction:  # else SQLite has given it up
                tx.command("ROLLBACK")
    except DatabaseError as error:
        raise _told(error) from error.orig


def _told(error: Exception) -> BaseException:
    # A statement that SQLite can't make sense of ("no such table") is a fault, and stays one however often it is tried.
    # A broken file, or one that is no database, has no class of its own.
    if type(error) not in (DatabaseError, OperationalError):
        return error
    wrong = getattr(getattr(error, "orig", None), "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR
    return error if wrong else unavailable(error)
