"""What the edges, verbs and stores know of a database: `read`, `write`, and the one transaction in which each runs."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from sublet.errors import Unavailable

P = ParamSpec("P")
R = TypeVar("R")
Clock = Callable[[], datetime]
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Tx:
    """One transaction: its connection and its one instant, which is the time of everything done in it."""

    connection: Connection
    now: datetime

    @property
    def driver(self) -> Any:
        """The driver's own connection of this transaction; for `prepared` alone."""
        return self.connection.connection.dbapi_connection

    @property
    def driver_error(self) -> type[Exception]:
        """What the driver raises, all of it."""
        return cast("type[Exception]", self.connection.dialect.loaded_dbapi.Error)

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

    async def jot(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function as `write` does, where it does no harm that it is done twice, or forgotten.

        On PostgreSQL it has no mark, and nobody is told of it: what touches unlogged tables alone then waits for no disk and no standby.

        Raises:
            Refusal, Unavailable: as `write`.
        """

    async def changed(self, timeout_seconds: float) -> bool:
        """Wait until something was committed through this object, or for the time given; tell which."""

    async def close(self) -> None:
        """Finish the writes that are under way and close the connections."""


def unavailable(error: BaseException, *, is_unknown: bool = False) -> BaseException:
    """Return the refusal that an error of the database comes to, and log the error.

    `is_unknown` tells that a commit was sent of which nobody knows what became.
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
