"""The interface of a database (`read`, `write`, `fetch`, `changed`) and the transaction in which verbs and stores run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

import msgspec
import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from sublet.errors import Unavailable

if TYPE_CHECKING:
    from sublet.db.statements import Query

P = ParamSpec("P")
R = TypeVar("R")
Clock = Callable[[], datetime]
log = structlog.get_logger()


class Problem(msgspec.Struct, frozen=True):
    """Why a database refuses writes until the operator acts, and what to do; the message is for the operator.

    `ends`: a process can't go on with it, because its files were changed.
    """

    message: str
    ends: bool


class Tx(msgspec.Struct, frozen=True):
    """One transaction: its connection, and the one instant that everything in it happens at."""

    connection: Connection
    now: datetime

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Run a part of the transaction; an exception undoes that part alone."""
        with self.connection.begin_nested():
            yield


def is_lost(error: Exception) -> bool:
    """True if the whole transaction can't go on: a lost connection, a deadlock, a full disk."""
    return isinstance(error, OperationalError)


def utc_now() -> datetime:
    """Return the wall clock's instant; the only place that reads the real clock for the registry."""
    return datetime.now(UTC)


class Database(Protocol):
    """What the edges know of a database; `open_database` returns one."""

    async def read(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function in a read-only transaction that sees one state, on a thread, and return its result.

        Raises:
            Refusal: as raised by the function.
            Unavailable: the database can't be read now.
        """

    async def fetch(self, query: "Query[R]", /, **parameters: object) -> R:
        """Return the result of one query, which the event loop sends itself: no thread and no transaction.

        For queries that use an index and return few rows: a slow one delays all others. A statement that changes something may run
        twice, and other processes aren't told of it.

        Raises:
            Unavailable: the database can't be reached now.
        """

    def now(self) -> datetime:
        """Return the present instant, by the clock that transactions take theirs from."""

    async def write(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function in a writing transaction, and return its result once the commit is durable.

        The function may run several times; it keeps nothing outside the transaction.

        Raises:
            Refusal: as raised by the function; everything it did is rolled back.
            Unavailable: the database can't be written now; nothing was changed, as far as can be known.
        """

    async def changed(self, timeout_seconds: float) -> bool:
        """Wait until something was committed, by this process or another; False if the time runs out first."""

    def problem(self) -> Problem | None:
        """Return why writes are refused until the operator acts, or None; always None on PostgreSQL."""

    async def close(self) -> None:
        """Finish the running writes and close the connections."""


def unavailable(error: BaseException, *, is_unknown: bool = False) -> BaseException:
    """Return the refusal that an error of the database becomes, and log the error.

    `is_unknown`: a COMMIT was sent, and its outcome can't be known.
    """
    if isinstance(error, Unavailable):
        return error
    log.error("database_unavailable", error=str(error))
    if is_unknown:
        return Unavailable(
            "The database was lost while it stored this, and it isn't known whether it did. Send the same again: with the same "
            "Idempotency-Key it is done once.",
            retry_after_seconds=1,
        )
    return Unavailable(
        "The registry can't reach or write its database right now; try again shortly.", retry_after_seconds=1
    )
