"""The database: `read` and `write` run one function in one transaction with one instant.

Raising rolls back, returning commits; nothing is answered before its commit is durable. Verbs and stores are plain
synchronous functions over a `Tx`; only the edges await. Two engines stand behind the same two calls:

- SQLite (the embedded default): WAL and synchronous=FULL. Reads run where they are called, on a kept connection. Writes
  go to one writer thread that commits in groups: what is waiting gets one BEGIN IMMEDIATE, a savepoint each, one COMMIT
  (one fsync). Several processes may open the file; SQLite's lock orders them.
- PostgreSQL: psycopg on worker threads. Verbs take row locks in one order (the user first, then the coupon, then the ledger;
  what the publisher locks: `subdomains/publishing.py`); serialization failures and deadlocks are tried again a bounded number
  of times.
"""

import asyncio
import queue
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

import structlog
from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Index,
    String,
    Table,
    create_engine,
    event,
    text,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DatabaseError, DBAPIError, OperationalError
from sqlalchemy.pool import NullPool

from sublet.errors import Unavailable
from sublet.schema import Instant, metadata

P = ParamSpec("P")
R = TypeVar("R")
Clock = Callable[[], datetime]
log = structlog.get_logger()

GROUP_MAX = 256
"""Most writes in one commit: bounds how long the first of a group waits for the last."""
BUSY_TIMEOUT_SECONDS = 5
RETRIES_MAX = 8
_RETRYABLE = ("40001", "40P01")  # serialization_failure, deadlock_detected

commit_marks = Table(
    "commit_marks",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("made_at", Instant, nullable=False),
    Index("ix_commit_marks_made_at", "made_at"),
)
"""One row for each transaction whose commit might be answered by nobody: its being there tells that it was done."""


@dataclass(frozen=True, slots=True)
class Tx:
    """One transaction: its connection and its one instant, which is the time of everything done in it."""

    connection: Connection
    now: datetime

    def savepoint(self) -> AbstractContextManager[object]:
        """Return a part of the transaction: what is raised inside it undoes that part alone."""
        return self.connection.begin_nested()


def is_lost(error: Exception) -> bool:
    """Tell whether an error says that the transaction as a whole can't go on: a lost connection, a deadlock, a full disk."""
    return isinstance(error, OperationalError)


def utc_now() -> datetime:
    """Return the wall clock's instant; the one place where the real clock is read for the registry."""
    return datetime.now(UTC)


class Database(Protocol):
    """What the edges know of a database; `open_database` gives one."""

    async def read(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function in a read-only transaction that sees one state, and return its result."""

    async def write(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function in a writing transaction, and return its result once the commit is durable.

        Raises:
            Refusal: as raised by the function; everything it did is rolled back.
            Unavailable: the database can't be written now; nothing was changed, as far as can be known.
        """

    async def changed(self, timeout_seconds: float) -> bool:
        """Wait until something was committed through this object, or for the time given; tell which."""

    async def close(self) -> None:
        """Finish the writes that are under way and close the connections."""


class _Changes:
    """Tells waiting coroutines that something was committed."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    async def wait(self, timeout_seconds: float) -> bool:
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            # Not wait_for: before Python 3.12 it loses a cancellation that comes together with the result.
            async with asyncio.timeout(timeout_seconds):
                await future
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(future)
        return True

    def tell(self) -> None:
        for future in tuple(self._waiting):
            if not future.done():
                future.set_result(None)


@dataclass(slots=True)
class _Job:
    run: Callable[[Tx], Any]
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None


def sqlite_engine(url: str) -> Engine:
    """Return an engine whose transactions begin when SQLAlchemy says so (the driver's own begin is deferred and late)."""
    engine = create_engine(
        url,
        poolclass=NullPool,
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
        connection.exec_driver_sql(connection.get_execution_options().get("sublet_begin", "BEGIN"))

    return engine


class SqliteDatabase:
    """The embedded default: reads in place, writes in groups on one thread."""

    def __init__(self, url: str, clock: Clock = utc_now) -> None:
        self._clock = clock
        self._engine = sqlite_engine(url)
        self._reader: Connection | None = None
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._changes = _Changes()
        self._thread = threading.Thread(target=self._write_loop, name="sublet-writer", daemon=True)
        self._thread.start()

    async def read(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if self._reader is None:
                self._reader = self._engine.connect()
            with self._reader.begin() as transaction:
                try:
                    return fn(Tx(self._reader, self._clock()), *args, **kwargs)
                finally:
                    transaction.rollback()
        except DatabaseError as error:
            raise _told(error) from error.orig

    async def write(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        future = asyncio.get_running_loop().create_future()
        self._jobs.put(_Job(lambda tx: fn(tx, *args, **kwargs), future))
        return cast("R", await future)

    async def changed(self, timeout_seconds: float) -> bool:
        return await self._changes.wait(timeout_seconds)

    async def close(self) -> None:
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)
        if self._reader is not None:
            self._reader.close()
        self._engine.dispose()

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
                    connection = connection or self._engine.connect().execution_options(
                        sublet_begin="BEGIN IMMEDIATE"
                    )
                    self._commit_group(connection, group)
                except Exception as error:  # noqa: BLE001 - whatever it is, every waiting caller must hear of it
                    if connection is not None:
                        # A commit that failed may have left the transaction open: only a new connection is surely clean.
                        connection.invalidate()
                        connection.close()
                        connection = None
                    for each in group:
                        each.error = _unavailable(error)
                self._answer(group)
        if connection is not None:
            connection.close()

    def _commit_group(self, connection: Connection, group: list[_Job]) -> None:
        with connection.begin():
            for job in group:
                savepoint = connection.begin_nested()
                try:
                    job.result = job.run(Tx(connection, self._clock()))
                    savepoint.commit()
                except Exception as error:  # noqa: BLE001 - handed to the caller of `write`
                    job.error = _told(error)
                    savepoint.rollback()  # fails when SQLite has given the whole transaction up (a full disk)

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
        if any(job.error is None for job in jobs):
            self._changes.tell()


class PostgresqlDatabase:
    """PostgreSQL: each call on a worker thread with a pooled connection."""

    def __init__(self, url: str, clock: Clock = utc_now, *, threads: int = 8) -> None:
        self._clock = clock
        self._engine = create_engine(
            make_url(url).set(drivername="postgresql+psycopg"),
            pool_size=threads,
            max_overflow=0,
            pool_pre_ping=True,
            hide_parameters=True,
            connect_args={"connect_timeout": 5},
        )
        self._reading = self._engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="sublet-db")
        self._changes = _Changes()

    async def read(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        def run() -> R:
            with self._reading.connect() as connection, connection.begin() as transaction:
                try:
                    return fn(Tx(connection, self._clock()), *args, **kwargs)
                finally:
                    transaction.rollback()

        return await self._run(run)

    async def write(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        def run() -> R:
            with self._engine.begin() as connection:
                return fn(Tx(connection, self._clock()), *args, **kwargs)

        result = await self._run(lambda: _with_retries(run))
        self._changes.tell()
        return result

    async def _run(self, run: Callable[[], R]) -> R:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, run)
        except OperationalError as error:
            raise _unavailable(error) from error

    async def changed(self, timeout_seconds: float) -> bool:
        # Commits of other processes are not announced here; a bounded wait lets callers look again.
        return await self._changes.wait(min(timeout_seconds, 0.1))

    async def close(self) -> None:
        self._threads.shutdown(wait=True)
        self._engine.dispose()


def _with_retries(run: Callable[[], R]) -> R:
    for attempt in range(RETRIES_MAX):
        try:
            return run()
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) not in _RETRYABLE or attempt == RETRIES_MAX - 1:
                raise
            time.sleep(random.uniform(0, 0.01 * 2**attempt))  # noqa: S311 - jitter, no secret
    raise AssertionError("unreachable")


def _told(error: Exception) -> BaseException:
    # A statement that SQLite can't make sense of ("no such table") is a fault, and stays one however often it is tried.
    # A broken file, or one that is no database, has no class of its own.
    if type(error) not in (DatabaseError, OperationalError):
        return error
    wrong = getattr(getattr(error, "orig", None), "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR
    return error if wrong else _unavailable(error)


def _unavailable(error: BaseException) -> BaseException:
    if isinstance(error, Unavailable):
        return error
    log.error("database_unavailable", error=str(error))
    return Unavailable(
        "The registry can't reach or write its database right now; try again shortly.", retry_after_seconds=1
    )


def open_database(url: str, clock: Clock = utc_now) -> Database:
    """Open the database of an address (`sqlite:///…` or `postgresql://…`).

    Raises:
        Unavailable: it can't be opened, or its PostgreSQL may lose acknowledged writes (`synchronous_commit` off).
    """
    if url.startswith("sqlite:///"):
        folder = Path(url.removeprefix("sqlite:///")).parent
        if not folder.is_dir():
            raise Unavailable(
                f"The folder {folder} of the database does not exist; create it, then run `sublet init`."
            )
        return SqliteDatabase(url, clock)
    database = PostgresqlDatabase(url, clock)
    try:
        _refuse_lossy(database)
    except Unavailable:
        database._engine.dispose()  # noqa: SLF001 - its own module
        raise
    return database


def _refuse_lossy(database: PostgresqlDatabase) -> None:
    try:
        with database._engine.connect() as connection:  # noqa: SLF001 - its own module
            setting = connection.execute(text("SHOW synchronous_commit")).scalar_one()
    except OperationalError as error:
        raise Unavailable(f"PostgreSQL can't be reached: {error.orig}") from error
    if setting == "off":
        raise Unavailable("PostgreSQL has synchronous_commit = off, which loses writes; set it to on.")
