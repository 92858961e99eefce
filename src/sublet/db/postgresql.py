"""PostgreSQL: psycopg on worker threads; single questions by the event loop itself (`pipeline.py`).

Verbs take row locks in one order (the user first, then the coupon, then the ledger; what the publisher locks:
`subdomains/publishing.py`). What others were in the way of is run again, and so is what lost its connection: reads as they are,
writes behind their mark (`marks.py`), so that nothing is ever done twice. Both end after a bounded number of times or seconds.
"""

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
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
from sublet.db.connect import WARNINGS, LosesWrites, begin_session, libpq_address, postgresql_engine
from sublet.db.faults import LOST_STATES, READ_ONLY, Fault, fault_of, sqlstate
from sublet.db.marks import CommittedBefore, Lost, Mark
from sublet.db.model import Clock, K, Tx, unavailable, utc_now
from sublet.db.pipeline import Asker, NotAnswered
from sublet.errors import Unavailable
from sublet.processors import interrupt_nobody

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


READS = "sublet_reads"
"""The option of a connection that is only read on."""


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

        def prepare(connection: "psycopg.Connection[Any]") -> None:
            begin_session(connection, statement_seconds=statement_seconds, may_lose_writes=may_lose_writes)

        # No ping before each use: a connection that was lost meanwhile is found by the first statement, and that is run again.
        # A reader's thread may jot something down while the connection that it reads on is kept. The last one that was used is used next:
        # PostgreSQL's process behind it still has at hand what it needs.
        self._engine = postgresql_engine(
            url, prepare, pool_size=WRITERS + 2 * READERS, max_overflow=0, pool_use_lifo=True
        )
        event.listen(self._engine, "handle_error", self._give_up_connections)
        self._idle_readers: list[Connection] = []
        self._losses = 0
        self._writers = ThreadPoolExecutor(WRITERS, "sublet-writer", interrupt_nobody)
        self._readers = ThreadPoolExecutor(READERS, "sublet-reader", interrupt_nobody)
        self._changes = Changes()
        self._announcements = Announcements(libpq_address(url), self._changes.tell_from_thread)
        self._asker = Asker(
            self._connect_apart,
            lambda connect: asyncio.wrap_future(self._readers.submit(connect)),
            self._engine.dialect,
        )
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
            raise Unavailable(
                f"PostgreSQL can't be reached: {error.orig}. Check that it runs, and `database_url`."
            ) from error
        except LosesWrites as error:
            raise Unavailable(str(error)) from error

    async def read(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        def once() -> R:
            with self._reader() as connection:
                tx = Tx(connection, self._clock())
                tx.command("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                try:
                    return _run(connection, lambda: fn(tx, *args, **kwargs))
                finally:
                    if not connection.invalidated:
                        tx.command("ROLLBACK")

        return await self._repeat(once)

    async def read_apart(
        self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        return await self.read(fn, *args, **kwargs)

    async def ask(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        now = self._clock()
        with suppress(NotAnswered):
            return await self._asker.ask(
                lambda connection: fn(Tx(connection, now), *args, **kwargs), self._losses
            )

        def once() -> R:
            with self._reader() as connection:
                return _run(connection, lambda: fn(Tx(connection, self._clock()), *args, **kwargs))

        return await self._repeat(once)

    async def recall(self, fn: Callable[[Tx, K], R], key: K, /) -> R:
        return await self.ask(fn, key)  # what other hosts commit is told here by nobody in time

    def now(self) -> datetime:
        return self._clock()

    def _connect_apart(self) -> "psycopg.Connection[Any]":
        """Return a connection that is no longer the pool's, made as all others are."""
        connection = self._engine.connect()
        connection.detach()
        raw = cast("psycopg.Connection[Any]", connection.connection.dbapi_connection)
        raw.autocommit = True
        return raw

    @contextmanager
    def _reader(self) -> Iterator[Connection]:
        """Lend a connection on which transactions are begun and ended through the driver; it is kept for the next.

        To SQLAlchemy it is in one transaction for as long as it lasts, of which PostgreSQL hears nothing. As the other connections, it
        is given up when any one is lost.
        """
        losses = self._losses
        try:
            connection = self._idle_readers.pop()
        except IndexError:
            options: dict[str, Any] = {"isolation_level": "AUTOCOMMIT", READS: True}
            connection = self._engine.connect().execution_options(**options)
            connection.begin()
        try:
            yield connection
        finally:
            # What is still in a transaction would show the next one what was true in this one.
            if connection.invalidated or losses != self._losses or not _is_idle(connection):
                connection.close()
            else:
                self._idle_readers.append(connection)

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

        result = await self._repeat(once, mark)
        self._changes.tell()
        self._announcements.tell()
        return result

    async def jot(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        def once() -> R:
            # One statement is a transaction: BEGIN and COMMIT would be two more messages.
            with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                return _run(connection, lambda: fn(Tx(connection, self._clock()), *args, **kwargs))

        return await self._repeat(once, reads=False)

    def _confirm(self, mark: Mark) -> Any:
        """Return the result of an attempt whose commit is there, once it is as safe as one that is answered."""
        with self._engine.connect() as connection, connection.begin():
            if not mark.touch(connection):
                raise Lost("the mark was there a moment ago: this is another server")
            self._commit(connection)  # whatever becomes of it, the attempt that it confirms was sent
        return mark.result

    async def _repeat(self, once: Callable[[], R], mark: Mark | None = None, *, reads: bool = True) -> R:
        contentions = losses = 0
        begun_by, lost_by = time.monotonic() + BEGIN_SECONDS, 0.0
        while True:
            try:
                return await self._run_in_thread(once, mark, max(begun_by, lost_by))
            except Exception as error:
                fault = Fault.AWAY if isinstance(error, LosesWrites | _NotBegunError) else fault_of(error)
                is_unknown = mark is not None and mark.is_sent
                if fault is Fault.OURS and not is_unknown:
                    raise
                if mark is None and reads and sqlstate(error) == READ_ONLY:
                    raise  # a reading function that writes is a fault of ours
                contentions += fault is Fault.CONTENTION
                losses += fault is Fault.LOST
                if losses and not lost_by:
                    # The next COMMIT would wait for the standby as long again.
                    lost_by = begun_by if isinstance(error, _GivenUp) else time.monotonic() + LOST_SECONDS
                pause = random.uniform(0, min(PAUSE_MAX_SECONDS, 0.01 * 2 ** (contentions + losses)))  # noqa: S311 - jitter
                in_time = contentions < CONTENTIONS_MAX and time.monotonic() + pause < (lost_by or begun_by)
                if fault in (Fault.AWAY, Fault.OURS) or not in_time:
                    raise unavailable(error, is_unknown=is_unknown) from error
            await asyncio.sleep(pause)

    async def _run_in_thread(self, once: Callable[[], R], mark: Mark | None, begun_by: float) -> R:
        """Run it on the next thread that is free.

        Raises:
            _NotBegunError: the database is being closed; none was free until then (seconds of `time.monotonic`).
        """
        if self._is_closing:
            raise _NotBegunError("the database is being closed")
        running = (self._readers if mark is None else self._writers).submit(once)
        answer = asyncio.wrap_future(running)
        try:
            await asyncio.wait((answer,), timeout=begun_by - time.monotonic())
            if not answer.done() and running.cancel():
                raise _NotBegunError("all connections are in use")
            return await answer
        finally:
            answer.cancel()  # where who asked is cancelled: it isn't begun, or nobody hears its answer
            # A refusal's traceback has this frame in it, and these have the refusal: else each would be for Python's collector.
            del answer, running

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
        """Have all connections made anew where the server that they lead to can't be used any more."""
        state = getattr(context.original_exception, "sqlstate", None)
        options = {} if context.connection is None else context.connection.get_execution_options()
        if state in LOST_STATES and not (state == READ_ONLY and options.get(READS)):
            context.is_disconnect = True
        if context.is_disconnect:
            self._losses += 1
            self._close_idle_readers()

    def _close_idle_readers(self) -> None:
        readers, self._idle_readers = self._idle_readers, []
        for each in readers:
            each.close()

    async def changed(self, timeout_seconds: float) -> bool:
        self._announcements.listen()
        if not self._announcements.is_listening:
            timeout_seconds = min(timeout_seconds, UNHEARD_SECONDS)
        return await self._changes.wait(timeout_seconds)

    async def close(self) -> None:
        self._is_closing = True  # nothing is begun from here on; threads finish what they have
        self._asker.close()
        await asyncio.to_thread(self.discard)

    def discard(self) -> None:
        """Do what `close` does, in place."""
        self._is_closing = True
        for threads in (self._writers, self._readers):
            threads.shutdown(wait=True)
        self._announcements.close()
        self._close_idle_readers()
        self._engine.dispose()


def _run(connection: Connection, fn: Callable[[], R]) -> R:
    try:
        return fn()
    except Exception as error:
        if connection.invalidated:  # whatever the function made of it
            raise Lost(str(error)) from error
        raise


def _is_idle(connection: Connection) -> bool:
    raw = cast("psycopg.Connection[Any]", connection.connection.dbapi_connection)
    return raw.info.transaction_status is TransactionStatus.IDLE


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
