"""SQLite, the embedded default: WAL and synchronous=FULL.

Reads run where they are called, on a kept connection. Writes go to one writer thread that commits in groups: what is waiting
gets one BEGIN IMMEDIATE, a savepoint each, one COMMIT (one fsync). Several processes may open the file; SQLite's lock orders them.
"""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DatabaseError, OperationalError
from sqlalchemy.pool import NullPool

from sublet.db.changes import Changes
from sublet.db.model import Clock, Tx, unavailable, utc_now

P = ParamSpec("P")
R = TypeVar("R")

GROUP_MAX = 256
"""Most writes in one commit: bounds how long the first of a group waits for the last."""
BUSY_TIMEOUT_SECONDS = 5


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
        self._changes = Changes()
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

    async def jot(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.write(fn, *args, **kwargs)

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
                        each.error = unavailable(error)
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


def _told(error: Exception) -> BaseException:
    # A statement that SQLite can't make sense of ("no such table") is a fault, and stays one however often it is tried.
    # A broken file, or one that is no database, has no class of its own.
    if type(error) not in (DatabaseError, OperationalError):
        return error
    wrong = getattr(getattr(error, "orig", None), "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR
    return error if wrong else unavailable(error)
