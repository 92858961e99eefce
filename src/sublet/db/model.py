"""The interface of a database (`read`, `write`, `fetch`, `changed`), the transaction in which verbs and
stores run, and what both databases share.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

import msgspec
import structlog
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from sublet.errors import Unavailable

if TYPE_CHECKING:
    from sublet.db.statements import Query

P = ParamSpec("P")
R = TypeVar("R")
Clock = Callable[[], datetime]
log = structlog.get_logger()

PART_PAUSE_SECONDS = 0.2
"""The pause between parts of a change. A process that waits for SQLite's lock asks for it each 0.1 s."""
INSUFFICIENT_PRIVILEGE = "42501"
"""The SQLSTATE of PostgreSQL if the role may not do something."""
READ_ONLY = "25006"
"""The SQLSTATE of PostgreSQL if the server is a standby, or the database may only be read."""


class Problem(msgspec.Struct, frozen=True):
    """Why a database refuses writes, and what the operator must do.

    `must_stop` is true if the process must stop, because the files of the database were changed.
    """

    message: str
    must_stop: bool


class Tx(msgspec.Struct, frozen=True):
    """A transaction: its connection, and the one instant at which all its changes are made."""

    connection: Connection
    now: datetime

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Run a part of the transaction. An exception rolls back only that part."""
        with self.connection.begin_nested():
            yield


class _Part(Protocol):
    @property
    def more(self) -> bool: ...


PartT = TypeVar("PartT", bound=_Part)


class LockedKind(IntEnum):
    """The kinds of texts, in the order in which a transaction locks them (docs/locks.md)."""

    MAILBOX = 1
    NETWORK = 2


def lock_text(tx: Tx, kind: LockedKind, value: str) -> None:
    """Wait until no other transaction holds this lock, and hold it until the transaction ends.

    Take it before reading what the transaction counts or compares. On SQLite, writing transactions run one at
    a time, so this does nothing. Texts with the same hash share a lock.
    """
    if tx.connection.dialect.name == "postgresql":
        statement = text("SELECT pg_advisory_xact_lock(:kind, hashtext(:value))")
        tx.connection.execute(statement, {"kind": int(kind), "value": value})


class Outdated(Exception):  # noqa: N818 - no fault
    """What a transaction read before it took its locks has changed since.

    The database runs the transaction again.

    On SQLite this can't happen, because writing transactions run one at a time.
    """


def ends_transaction(error: Exception) -> bool:
    """True if an error ends the whole transaction: a lost connection, a deadlock, a full disk."""
    return isinstance(error, OperationalError)


JSON_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "json_deserializer": msgspec.json.decode,
    "json_serializer": lambda value: msgspec.json.encode(value).decode(),
}
"""The options of `create_engine` with which both databases store the same text for a JSON value."""
DISK_IS_FULL = "The disk of the database is full. Free space on it."
IS_READ_ONLY = "The database is read-only. Make it writable, or connect to the server that is."


def utc_now() -> datetime:
    """Return the time of the real clock. The registry reads it only here."""
    return datetime.now(UTC)


class Database(Protocol):
    """A database, as the edges use it. `open_database` returns one."""

    async def read(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function on a thread, in a read-only transaction that sees one state, and return its result.

        Raises:
            Refusal: as raised by the function.
            Unavailable: the database can't be read now.
        """

    async def fetch(self, query: "Query[R]", /, **parameters: object) -> R:
        """Return the result of a query that the event loop sends, without a thread or transaction.

        Use it for queries that use an index and return few rows, because a slow query delays all others. A
        statement that changes data may run twice, and isn't announced to other processes.

        Raises:
            Unavailable: the database can't be reached now.
        """

    async def fetch_remembered(self, query: "Query[R]", /, **parameters: object) -> R:
        """Return what `fetch` returns, or what it returned before if no process has committed since.

        Only SQLite remembers.

        The result must not depend on the clock, and must be immutable.

        Raises:
            Unavailable: the database can't be reached now.
        """

    def now(self) -> datetime:
        """Return the current time, by the clock of the transactions."""

    async def write(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function in a writing transaction, and return its result once the commit is durable.

        The function may run several times, so it must change nothing outside the transaction.

        Raises:
            Refusal: as raised by the function. The transaction is rolled back.
            Unavailable: the database can't be written now. Usually nothing was changed; otherwise the message
                says that the outcome is unknown.
        """

    async def changed(self, timeout_seconds: float) -> bool:
        """Wait for a commit of this process or another one. Return False after the timeout."""

    def problem(self) -> Problem | None:
        """Return why writes are refused until the operator acts, or None. PostgreSQL always returns None."""

    def write_failure(self) -> str | None:
        """Return why the last write failed, and what to do, if the disk is full or fails, or if the database
        is read-only.

        Otherwise None.

        An SQLite file on a disk that is almost full counts as well. Each process of the service writes every
        few seconds.
        """

    async def close(self) -> None:
        """Finish running writes, and close the connections."""


def unavailable_refusal(error: BaseException, *, is_unknown: bool = False) -> BaseException:
    """Log an error of the database, and return the refusal of the request.

    `is_unknown` is True if the outcome of a COMMIT is unknown. A note of the refusal has the cause, which
    only the operator's commands show.
    """
    if isinstance(error, Unavailable):
        return error
    log.error("database_unavailable", error=str(error))
    message = "The registry can't reach or write its database right now. Try again shortly."
    if is_unknown:
        message = (
            "The database connection was lost while this change was stored, so its outcome is unknown. "
            "Check the result before you try again."
        )
    refusal = Unavailable(message, retry_after_seconds=1)
    refusal.add_note(f"The cause: {driver_message(error)}. {advice_about_cause(error)}".rstrip())
    return refusal


def advice_about_cause(error: BaseException) -> str:
    """Return what to do about an error for lack of rights or of space, or of a database that may only be
    read; for another error an empty text.
    """
    cause = getattr(error, "orig", error)
    state = getattr(cause, "sqlstate", None)
    if state == INSUFFICIENT_PRIVILEGE:
        return "Give `database_url` a role that may do this: see docs/operating/privileges.md."
    if state == READ_ONLY:
        return IS_READ_ONLY
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return "Run the command as the user of the service, which owns the file and its folder."
    if code == sqlite3.SQLITE_FULL:
        # SQLite writes the temporary files of large sorts to /var/tmp.
        return "Free space on the disk of the database and in /var/tmp."
    if code == sqlite3.SQLITE_IOERR:  # also if the disk is too full for the files beside the database
        return "Look at the disk of the database: is it full?"
    return ""


def driver_message(error: BaseException) -> str:
    """Return the driver's message in one line, for a part of a sentence. libpq's hints, which are indented
    lines, are left out.
    """
    lines = [line.strip() for line in str(getattr(error, "orig", error)).splitlines() if line[:1] != "\t"]
    return "; ".join(lines).rstrip(".")


async def write_parts(
    database: Database, verb: Callable[Concatenate[Tx, P], PartT], /, *args: P.args, **kwargs: P.kwargs
) -> AsyncIterator[PartT]:
    """Run a verb until its result has no `more`, each time in a transaction of its own, so that other changes
    don't wait for long. Yield each result.

    If it is interrupted, the parts before are done. Repeating it does the others.

    Raises the same errors as `Database.write`.
    """
    while (part := await database.write(verb, *args, **kwargs)).more:
        yield part
        await asyncio.sleep(PART_PAUSE_SECONDS)
    yield part


class CommitWaiters:
    """The coroutines that wait for the next commit."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    async def wait(self, timeout_seconds: float) -> bool:
        """Wait until `wake` is called. Return False after the timeout."""
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

    def wake(self) -> None:
        """Wake all waiting coroutines of the running event loop."""
        for future in tuple(self._waiting):
            if not future.done():
                future.set_result(None)

    def wake_from_thread(self) -> None:
        """Wake all waiting coroutines, from a thread without an event loop."""
        for loop in {future.get_loop() for future in tuple(self._waiting)}:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self.wake)
