"""What the edges, verbs and stores know of a database: `read`, `write`, and the one transaction in which each runs."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Concatenate, NoReturn, ParamSpec, Protocol, TypeVar, cast

import msgspec
import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, OperationalError

from sublet.errors import Unavailable

P = ParamSpec("P")
R = TypeVar("R")
K = TypeVar("K", bound=Hashable)
Clock = Callable[[], datetime]
log = structlog.get_logger()


class Tx(msgspec.Struct, frozen=True):
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

    def command(self, sql: str) -> None:
        """Have the driver do what has neither parameters nor rows: a transaction's beginnings and ends, for `db` alone."""
        try:
            self.driver.execute(sql)
        except self.driver_error as error:
            self.raise_told(error, sql)

    def data_version(self) -> int:
        """Return SQLite's number of the file's state: another one after each commit of any other connection."""
        sql = "PRAGMA data_version"
        try:
            return int(self.driver.execute(sql).fetchone()[0])
        except self.driver_error as error:
            self.raise_told(error, sql)

    def raise_told(self, error: Exception, sql: str) -> NoReturn:
        """Raise what SQLAlchemy would for an error of the driver's: callers know its classes, and it sees to connections that are lost."""
        # Without the parameters: what users wrote stays out of the log.
        self.connection._handle_dbapi_exception(error, sql, None, None, None)  # noqa: SLF001 - its only way

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Make a part of the transaction: what is raised inside it undoes that part alone."""
        self.command("SAVEPOINT part")
        try:
            yield
        except BaseException:
            with suppress(DBAPIError):  # the whole transaction is lost: what was raised says so
                self.command("ROLLBACK TO SAVEPOINT part")
                self.command("RELEASE SAVEPOINT part")
            raise
        self.command("RELEASE SAVEPOINT part")


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

    async def read_apart(
        self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Run a function as `read` does, where it may take long (a list, a search): requests beside it don't wait for it."""

    async def ask(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function that asks one question, by one `Prepared` statement, and return its result.

        As `read`, but for the transaction, which one statement doesn't need and a connection to PostgreSQL takes two more messages
        for. Of several statements each might see another state. On PostgreSQL the function may be run once more from its beginning,
        to take the rows that it has asked for before (`pipeline.py`).
        """

    async def recall(self, fn: Callable[[Tx, K], R], key: K, /) -> R:
        """Run a function as `ask` does, or return what it returned for this key before, where nothing was committed since.

        Whether anything was is asked for all requests at once that the event loop runs in one go: by then all of them had come.
        What it returns depends on the key and on what is stored, and on nothing else: not on `tx.now`. Nobody changes it.
        """

    def now(self) -> datetime:
        """Return the present instant, by the clock that transactions have theirs from."""

    async def write(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function in a writing transaction, and return its result once the commit is durable.

        Raises:
            Refusal: as raised by the function; everything it did is rolled back.
            Unavailable: the database can't be written now; nothing was changed, as far as can be known.
        """

    async def jot(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function that changes something by one statement, where it does no harm that it is done twice, or forgotten.

        As `write`; but on PostgreSQL there is neither a transaction around it nor a mark, and nobody is told of it: what touches
        unlogged tables alone then waits for no disk and no standby.

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
