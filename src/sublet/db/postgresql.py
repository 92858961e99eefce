"""PostgreSQL: transactions on worker threads, single queries on the event loop.

Transactions take locks in one order (docs/locks.md). A transaction is retried after a conflict, a unique
constraint's refusal or a lost connection, a limited number of times or seconds. The mark of a write
(`marks.py`) ensures that the write takes effect once.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError, DisconnectionError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from sublet.db.announcements import Announcements
from sublet.db.commit_watch import CommitWatch, driver_connection
from sublet.db.connect import (
    WARNINGS,
    ConnectionSettings,
    LosesWrites,
    NotBegunError,
    QueryConnections,
    libpq_address,
    postgresql_engine,
)
from sublet.db.error_kinds import (
    DISK_FULL,
    UNIQUE_VIOLATION,
    ErrorKind,
    classify_error,
    sqlstate,
)
from sublet.db.marks import CommittedBefore, ConnectionLost, Mark
from sublet.db.model import (
    DISK_IS_FULL,
    IS_READ_ONLY,
    READ_ONLY,
    Clock,
    CommitWaiters,
    Problem,
    Tx,
    driver_message,
    unavailable_refusal,
    utc_now,
)
from sublet.db.statements import Query, for_driver
from sublet.errors import Unavailable

P = ParamSpec("P")
R = TypeVar("R")

WRITERS, READERS = 8, 4
"""The maximum number of concurrent transactions. Readers have their own threads, because all writers may wait
for a standby that is down.
"""
QUERIES = 8
"""The maximum number of concurrent queries of the event loop."""
CONTENTIONS_MAX = 8
"""The maximum number of runs of a transaction that conflicts with other transactions."""
LOST_SECONDS = 3.0
"""How long a transaction is retried after its first lost connection."""
PAUSE_MAX_SECONDS = 0.5
BEGIN_SECONDS = 10.0
"""The maximum wait for a free thread. All threads may wait for locks, or for a standby that is down."""
UNANNOUNCED_POLL_SECONDS = 0.1
"""The maximum wait of `changed` while no notifications arrive."""


_WRITE_FAILURES = {DISK_FULL: DISK_IS_FULL, READ_ONLY: IS_READ_ONLY}
"""Why no write succeeds now, by PostgreSQL's code of the error."""


class _StandbyTimeoutError(ConnectionLost):
    """The COMMIT stopped waiting for the synchronous standby."""


class PostgresqlDatabase:
    """PostgreSQL: transactions on worker threads with pooled connections, single queries on connections of
    the event loop.
    """

    def __init__(
        self, url: str, clock: Clock = utc_now, *, may_lose_writes: bool = False, statement_seconds: int = 0
    ) -> None:
        self._clock = clock
        connection_settings = ConnectionSettings(
            statement_seconds=statement_seconds, may_lose_writes=may_lose_writes
        )
        # No ping before each use: a lost connection fails at the first statement, and the transaction is
        # retried.
        self._engine = postgresql_engine(
            url, connection_settings.begin, pool_size=WRITERS + READERS, max_overflow=0
        )
        self._reading = self._engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self._epoch = 0
        self._write_failure: str | None = None
        event.listen(self._engine, "connect", self._record_epoch)
        event.listen(self._engine, "checkout", self._check_out)
        self._writers = ThreadPoolExecutor(WRITERS, "sublet-writer")
        self._readers = ThreadPoolExecutor(READERS, "sublet-reader")
        address = libpq_address(url)
        self._queries = QueryConnections(lambda: connection_settings.connect(address), QUERIES)
        self._commit_watch = CommitWatch()
        self._commit_waiters = CommitWaiters()
        self._announcements = Announcements(address, self._commit_waiters.wake_from_thread)
        self._is_closing = False

    def check(self) -> None:
        """Open a connection, to check that PostgreSQL can be used.

        Raises:
            Unavailable: PostgreSQL can't be reached, or may lose writes (`ConnectionSettings`).
        """
        try:
            self._engine.connect().close()
        except OperationalError as error:
            raise Unavailable(
                f"PostgreSQL can't be reached: {driver_message(error)}. Check that it runs, and "
                "`database_url`."
            ) from error
        except LosesWrites as error:
            raise Unavailable(str(error)) from error

    async def read(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        def once() -> R:
            with self._reading.connect() as connection:
                return _run(connection, lambda: fn(Tx(connection, self._clock()), *args, **kwargs))

        return await self._repeat(
            lambda begin_by: self._run_in_thread(self._readers, once, begin_by), only_reads=True
        )

    async def fetch(self, query: Query[R], /, **parameters: object) -> R:
        statement = for_driver(query.statement, self._engine.dialect)

        async def once(begin_by: float) -> R:
            rows = await self._queries.rows(*statement.call(parameters), begin_by)
            return query.read(statement.rows(rows))

        return await self._repeat(once)

    async def fetch_remembered(self, query: Query[R], /, **parameters: object) -> R:
        return await self.fetch(query, **parameters)

    def now(self) -> datetime:
        return self._clock()

    async def write(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        mark = Mark()

        def once() -> R:
            try:
                with self._engine.connect() as connection, connection.begin():
                    mark.add(connection)
                    result = _run(connection, lambda: fn(Tx(connection, self._clock()), *args, **kwargs))
                    _refuse_failed(connection)
                    mark.is_unknown, mark.result = True, result
                    try:
                        self._commit(connection)
                    except DBAPIError as error:
                        # Any other error means that PostgreSQL didn't commit. No earlier attempt committed,
                        # either.
                        mark.is_unknown = classify_error(error) is ErrorKind.LOST
                        raise
            except CommittedBefore:
                return cast("R", self._confirm(mark))
            return result

        try:
            result = await self._repeat(
                lambda begin_by: self._run_in_thread(self._writers, once, begin_by), mark
            )
        except Unavailable as refusal:
            if isinstance(refusal.__cause__, Exception):
                self._write_failure = _WRITE_FAILURES.get(sqlstate(refusal.__cause__) or "")
            raise
        self._write_failure = None
        self._commit_waiters.wake()
        self._announcements.announce_soon()
        return result

    def _confirm(self, mark: Mark) -> Any:
        """Return the result of an earlier attempt that committed, once its commit is as durable as an
        acknowledged one.
        """
        with self._engine.connect() as connection, connection.begin():
            if not mark.touch(connection):
                raise ConnectionLost("the mark was there a moment ago: this is another server")
            self._commit(connection)
        return mark.result

    async def _repeat(
        self, once: Callable[[float], Awaitable[R]], mark: Mark | None = None, *, only_reads: bool = False
    ) -> R:
        """Run `once` until it succeeds, within the limits of this module.

        `once` gets the time by which it must begin.

        `mark` is the mark of a write, which shows if the outcome of a COMMIT is unknown.

        Raises:
            Unavailable: the database can't be reached, the connection was lost for too long, or there were
                too many conflicts.
        """
        contentions = losses = 0
        begin_by, lost_by = time.monotonic() + BEGIN_SECONDS, 0.0
        while True:
            try:
                result = await once(max(begin_by, lost_by))
            except Exception as error:
                kind = (
                    ErrorKind.AWAY
                    if isinstance(error, LosesWrites | NotBegunError)
                    else classify_error(error)
                )
                is_unknown = mark is not None and mark.is_unknown
                if kind is ErrorKind.BUG and not is_unknown:
                    raise
                if only_reads and sqlstate(error) == READ_ONLY:
                    raise  # a reading function that writes is a bug
                contentions += kind is ErrorKind.CONTENTION
                losses += kind is ErrorKind.LOST
                if kind is ErrorKind.LOST:
                    self._outdate_connections()
                if losses and not lost_by:
                    # After a COMMIT that waited for the standby, the next COMMIT would wait as long.
                    lost_by = (
                        begin_by
                        if isinstance(error, _StandbyTimeoutError)
                        else time.monotonic() + LOST_SECONDS
                    )
                pause = random.uniform(0, min(PAUSE_MAX_SECONDS, 0.01 * 2 ** (contentions + losses)))  # noqa: S311 - jitter
                in_time = contentions < CONTENTIONS_MAX and time.monotonic() + pause < (lost_by or begin_by)
                if not in_time and sqlstate(error) == UNIQUE_VIOLATION:
                    raise  # a verb that never sees the stored value is a bug
                if kind in (ErrorKind.AWAY, ErrorKind.BUG) or not in_time:
                    raise unavailable_refusal(error, is_unknown=is_unknown) from error
            else:
                return result
            await asyncio.sleep(pause)

    async def _run_in_thread(self, threads: ThreadPoolExecutor, once: Callable[[], R], begin_by: float) -> R:
        """Run a transaction on the next free thread.

        Raises:
            NotBegunError: the database is being closed, or no thread was free at `begin_by` (seconds of
                `time.monotonic`).
        """
        if self._is_closing:
            raise NotBegunError("the database is being closed")
        running = threads.submit(once)
        answer = asyncio.wrap_future(running)
        try:
            await asyncio.wait((answer,), timeout=begin_by - time.monotonic())
            if not answer.done() and running.cancel():
                raise NotBegunError("all connections are in use")
            return await answer
        finally:
            # If the caller is cancelled, this removes a transaction that is still queued. A running one
            # continues.
            answer.cancel()

    def _commit(self, connection: Connection) -> None:
        """Commit, and wait for the synchronous standby.

        Raises:
            _StandbyTimeoutError: PostgreSQL committed, but stopped waiting for the synchronous standby. The
                change is lost if the standby takes over.
        """
        warnings = connection.info[WARNINGS]
        warnings.clear()
        with self._commit_watch.bounded(connection):
            connection.commit()
        if warnings:
            raise _StandbyTimeoutError("; ".join(warnings))

    def _outdate_connections(self) -> None:
        """Replace each connection before its next use, because it may lead to the lost server."""
        self._epoch += 1
        self._queries.outdate()

    def _record_epoch(self, _connection: Any, record: ConnectionPoolEntry) -> None:
        record.info["epoch"] = self._epoch

    def _check_out(self, connection: Any, record: ConnectionPoolEntry, _proxy: Any) -> None:
        if record.info["epoch"] != self._epoch:
            raise DisconnectionError  # SQLAlchemy then opens a new connection
        # After a reading transaction SQLAlchemy sets False, and BEGIN READ WRITE would override
        # `default_transaction_read_only`.
        connection.read_only = None

    async def changed(self, timeout_seconds: float) -> bool:
        self._announcements.listen()
        if not self._announcements.is_listening:
            timeout_seconds = min(timeout_seconds, UNANNOUNCED_POLL_SECONDS)
        return await self._commit_waiters.wait(timeout_seconds)

    def problem(self) -> Problem | None:
        return None

    def write_failure(self) -> str | None:
        return self._write_failure

    async def close(self) -> None:
        self._is_closing = True  # no transaction begins any more; the threads finish the running ones
        self._queries.close()
        await asyncio.to_thread(self.discard)

    def discard(self) -> None:
        """Close the connections without waiting for the event loop."""
        self._is_closing = True
        for threads in (self._writers, self._readers):
            threads.shutdown(wait=True)
        self._commit_watch.close()
        self._announcements.close()
        self._engine.dispose()


def _run(connection: Connection, fn: Callable[[], R]) -> R:
    try:
        return fn()
    except Exception as error:
        # Even if the function raised another error.
        if connection.invalidated or driver_connection(connection).closed:
            # Otherwise SQLAlchemy, which doesn't see the errors of `statements.py`, logs a failed rollback.
            connection.invalidate()
            raise ConnectionLost(str(error)) from error
        raise


def _refuse_failed(connection: Connection) -> None:
    if driver_connection(connection).info.transaction_status is TransactionStatus.INERROR:
        # PostgreSQL would answer the COMMIT with a ROLLBACK, which psycopg counts as success.
        raise RuntimeError("a statement of the transaction failed, and its error was caught")


def open_postgresql(
    url: str, clock: Clock, *, may_lose_writes: bool, statement_seconds: int
) -> PostgresqlDatabase:
    """Open the database of an address, with the parameters of `open_database`.

    Raises:
        Unavailable: the database can't be opened, or may lose acknowledged writes.
    """
    database = PostgresqlDatabase(
        url, clock, may_lose_writes=may_lose_writes, statement_seconds=statement_seconds
    )
    try:
        database.check()
    except Unavailable:
        database.discard()
        raise
    return database
