"""PostgreSQL: psycopg on worker threads; single questions by the event loop itself (`pipeline.py`).

Verbs take row locks in one order (the user first, then the coupon, then the ledger; what the publisher locks:
`subdomains/publishing.py`). What others were in the way of is run again, and so is what lost its connection: reads as they are,
writes behind their mark (`marks.py`), so that nothing is ever done twice. Both end after a bounded number of times or seconds.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError, OperationalError

from sublet.db.announcements import Announcements
from sublet.db.changes import Changes
from sublet.db.commit_watch import CommitWatch
from sublet.db.connect import WARNINGS, LosesWrites, Session, libpq_address, postgresql_engine
from sublet.db.faults import LOST_STATES, READ_ONLY, Fault, fault_of, sqlstate
from sublet.db.fetching import Fetching
from sublet.db.marks import CommittedBefore, Lost, Mark
from sublet.db.model import Clock, Tx, unavailable, utc_now
from sublet.db.query import Query, for_driver
from sublet.errors import Unavailable

P = ParamSpec("P")
R = TypeVar("R")

WRITERS, READERS = 8, 4
"""How many transactions run at once. Readers have threads of their own: writers may all wait for a standby that is away."""
CONTENTIONS_MAX = 8
"""How often a transaction is run at most that others are in the way of."""
LOST_SECONDS = 3.0
"""After the first loss of its connection, how long a transaction is begun again."""
PAUSE_MAX_SECONDS = 0.5
BEGIN_SECONDS = 10.0
"""How long after a call it is begun at last: all threads may wait for a standby that is away, or for locks."""
UNHEARD_SECONDS = 0.1
"""How long one waits for a change at most while notifications don't come in."""


class _NotBegunError(Exception):
    """It was not run, nor will be."""


class _GivenUp(Lost):
    """A COMMIT's wait for the standby was given up."""


class PostgresqlDatabase:
    """PostgreSQL: each call on a worker thread with a pooled connection."""

    def __init__(
        self, url: str, clock: Clock = utc_now, *, may_lose_writes: bool = False, statement_seconds: int = 0
    ) -> None:
        self._clock = clock
        session = Session(statement_seconds=statement_seconds, may_lose_writes=may_lose_writes)
        # No ping before each use: the first statement finds a lost connection, and the transaction is run again.
        self._engine = postgresql_engine(url, session.begin, pool_size=WRITERS + READERS, max_overflow=0)
        self._reading = self._engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        event.listen(self._engine, "handle_error", self._give_up_connections)
        self._writers = ThreadPoolExecutor(WRITERS, "sublet-writer")
        self._readers = ThreadPoolExecutor(READERS, "sublet-reader")
        address = libpq_address(url)
        self._fetching = Fetching(lambda: session.connect(address))
        self._changes = Changes()
        self._announcements = Announcements(address, self._changes.tell_from_thread)
        self._commits = CommitWatch()
        self._is_closing = False

    def check(self) -> None:
        """Make a connection.

        Raises:
            Unavailable: it can't be made, or is refused (`begin_session`).
        """
        try:
            self._engine.connect().close()
        except OperationalError as error:
            raise Unavailable(f"PostgreSQL can't be reached: {error.orig}") from error
        except LosesWrites as error:
            raise Unavailable(str(error)) from error

    async def read(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        def once() -> R:
            with self._reading.connect() as connection:
                return _run(connection, lambda: fn(Tx(connection, self._clock()), *args, **kwargs))

        return await self._repeat(lambda begin_by: self._run_in_thread(self._readers, once, begin_by))

    async def fetch(self, query: Query[R], /, **parameters: object) -> R:
        asked = for_driver(query, self._engine.dialect)

        async def once(_begin_by: float) -> R:
            rows = await self._fetching.rows(asked.text, asked.values(parameters))
            return query.read(asked.rows(rows))

        return await self._repeat(once)

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
                    mark.is_sent, mark.result = True, result
                    try:
                        self._commit(connection)
                    except DBAPIError as error:
                        # Else PostgreSQL itself said that it didn't commit, and no attempt before this one had.
                        mark.is_sent = fault_of(error) is Fault.LOST
                        raise
            except CommittedBefore:
                return cast("R", self._confirm(mark))
            return result

        result = await self._repeat(lambda begin_by: self._run_in_thread(self._writers, once, begin_by), mark)
        self._changes.tell()
        self._announcements.tell()
        return result

    def _confirm(self, mark: Mark) -> Any:
        """Return the result of an attempt whose commit is there, once it is as safe as one that is answered."""
        with self._engine.connect() as connection, connection.begin():
            if not mark.touch(connection):
                raise Lost("the mark was there a moment ago: this is another server")
            self._commit(connection)  # whatever becomes of it, the attempt that it confirms was sent
        return mark.result

    async def _repeat(self, once: Callable[[float], Awaitable[R]], mark: Mark | None = None) -> R:
        """Run `once` until it succeeds, within the bounds above; it gets the instant by which it must begin.

        `mark` is that of a write, and tells whether a commit was sent whose outcome isn't known.

        Raises:
            Unavailable: the database is away, the connection was lost for too long, or others were in the way too often.
        """
        contentions = losses = 0
        begin_by, lost_by = time.monotonic() + BEGIN_SECONDS, 0.0
        while True:
            try:
                return await once(max(begin_by, lost_by))
            except Exception as error:
                fault = Fault.AWAY if isinstance(error, LosesWrites | _NotBegunError) else fault_of(error)
                is_unknown = mark is not None and mark.is_sent
                if fault is Fault.OURS and not is_unknown:
                    raise
                if mark is None and sqlstate(error) == READ_ONLY:
                    raise  # a reading function that writes is a fault of ours
                contentions += fault is Fault.CONTENTION
                losses += fault is Fault.LOST
                if losses and not lost_by:
                    # The next COMMIT would wait for the standby as long again.
                    lost_by = begin_by if isinstance(error, _GivenUp) else time.monotonic() + LOST_SECONDS
                pause = random.uniform(0, min(PAUSE_MAX_SECONDS, 0.01 * 2 ** (contentions + losses)))  # noqa: S311 - jitter
                in_time = contentions < CONTENTIONS_MAX and time.monotonic() + pause < (lost_by or begin_by)
                if fault in (Fault.AWAY, Fault.OURS) or not in_time:
                    raise unavailable(error, is_unknown=is_unknown) from error
            await asyncio.sleep(pause)

    async def _run_in_thread(self, threads: ThreadPoolExecutor, once: Callable[[], R], begin_by: float) -> R:
        """Run a transaction on the next free thread.

        Raises:
            _NotBegunError: the database is being closed, or no thread was free by then (seconds of `time.monotonic`).
        """
        if self._is_closing:
            raise _NotBegunError("the database is being closed")
        running = threads.submit(once)
        answer = asyncio.wrap_future(running)
        try:
            await asyncio.wait((answer,), timeout=begin_by - time.monotonic())
            if not answer.done() and running.cancel():
                raise _NotBegunError("all connections are in use")
            return await answer
        finally:
            answer.cancel()  # if the caller was cancelled, it isn't begun

    def _commit(self, connection: Connection) -> None:
        """Commit, and believe only what is answered without a doubt.

        Raises:
            _GivenUp: it came with a warning: the wait for the synchronous standby was given up. This server has committed, and the
                change would be gone if the standby took over.
        """
        raw = cast("psycopg.Connection[Any]", connection.connection.dbapi_connection)
        warnings = connection.info[WARNINGS]
        warnings.clear()
        with self._commits.over(raw) as wait:
            try:
                connection.commit()
            finally:
                wait.end()
                if wait.is_given_up:
                    connection.invalidate()
        if warnings:
            raise _GivenUp("; ".join(warnings))

    def _give_up_connections(self, context: ExceptionContext) -> None:
        """Have SQLAlchemy replace all connections when their server can't be used any more, and replace the event loop's too."""
        state = getattr(context.original_exception, "sqlstate", None)
        options = {} if context.connection is None else context.connection.get_execution_options()
        is_our_read = state == READ_ONLY and options.get("postgresql_readonly", False)
        if state in LOST_STATES and not is_our_read:
            context.is_disconnect = True
        if context.is_disconnect:
            self._fetching.is_outdated = True

    async def changed(self, timeout_seconds: float) -> bool:
        self._announcements.listen()
        if not self._announcements.is_listening:
            timeout_seconds = min(timeout_seconds, UNHEARD_SECONDS)
        return await self._changes.wait(timeout_seconds)

    async def close(self) -> None:
        self._is_closing = True  # nothing is begun from here on; threads finish what they have
        self._fetching.close()
        await asyncio.to_thread(self.discard)

    def discard(self) -> None:
        """Do what `close` does, in place."""
        self._is_closing = True
        for threads in (self._writers, self._readers):
            threads.shutdown(wait=True)
        self._announcements.close()
        self._engine.dispose()


def _run(connection: Connection, fn: Callable[[], R]) -> R:
    try:
        return fn()
    except Exception as error:
        if connection.invalidated:  # whatever the function made of it
            raise Lost(str(error)) from error
        raise


def _refuse_failed(connection: Connection) -> None:
    raw = cast("psycopg.Connection[Any]", connection.connection.dbapi_connection)
    if raw.info.transaction_status is TransactionStatus.INERROR:
        # PostgreSQL would answer the COMMIT with a ROLLBACK, and psycopg would take that for a success.
        raise RuntimeError("a statement of the transaction failed, and nobody was told")


def open_postgresql(
    url: str, clock: Clock, *, may_lose_writes: bool, statement_seconds: int
) -> PostgresqlDatabase:
    """Open the database of an address; see `open_database`.

    Raises:
        Unavailable: as `open_database`.
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
