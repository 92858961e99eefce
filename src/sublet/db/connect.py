"""Connect to PostgreSQL: libpq parses the address, all waits have timeouts, and a server that may lose writes
is refused. The event loop sends single queries on a connection of its own.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import psycopg
from msgspec import Struct
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy import Engine, create_engine, event

from sublet.db.error_kinds import ErrorKind, classify_error
from sublet.db.model import JSON_OPTIONS
from sublet.errors import Unavailable

DEFAULTS: dict[str, str | int] = {
    "fallback_application_name": "sublet",
    "connect_timeout": 3,
    # Detect a host that disappears in about 11 s, instead of the kernel's two hours.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""Defaults of libpq's parameters, in seconds (`tcp_user_timeout` in milliseconds). An address may override
them.
"""

LOCK_SECONDS = 5
"""The timeout of a lock."""
IDLE_SECONDS = 15
"""The timeout of an idle transaction, so that a frozen or unreachable process doesn't keep its locks."""

WARNINGS = "sublet_warnings"
"""The key of the list of PostgreSQL's warnings in the `info` of a pooled connection."""

Prepare = Callable[["psycopg.Connection[Any]"], None]
AsyncConnection = psycopg.AsyncConnection[Any]
Connect = Callable[[], Coroutine[Any, Any, AsyncConnection]]


class LosesWrites(Exception):  # noqa: N818 - a warning, because nothing was lost yet
    """PostgreSQL's configuration allows it to lose acknowledged writes."""


def libpq_address(url: str) -> str:
    """Return libpq's parameters for an address `postgresql://…`, which may have several hosts.

    With several hosts the default of `target_session_attrs` is `read-write`, because one of them may be a
    standby. Texts are always sent in UTF-8: with the encoding of an `SQL_ASCII` database, the driver would
    return octets.

    Raises:
        Unavailable: libpq can't parse the address.
    """
    try:
        parameters = conninfo_to_dict(url)
    except psycopg.Error:
        # libpq's message may contain the address with its password.
        raise Unavailable(
            "libpq can't parse database_url. Give postgresql://user@host:port/name, "
            "with characters that have a special meaning in a URI percent-encoded."
        ) from None
    if any("," in str(parameters.get(name, "")) for name in ("host", "hostaddr")):
        parameters.setdefault("target_session_attrs", "read-write")
    return make_conninfo("", **{**DEFAULTS, **parameters, "client_encoding": "UTF8"})


def postgresql_engine(url: str, prepare: Prepare = lambda _: None, **options: Any) -> Engine:
    """Return an engine for an address `postgresql://…` that calls `prepare` with each new connection.

    `options` are for SQLAlchemy's `create_engine`.

    Raises:
        Unavailable: libpq can't parse the address.
    """
    address = libpq_address(url)
    # SQLAlchemy's parser of addresses allows only one host.
    engine = create_engine(
        "postgresql+psycopg://",
        hide_parameters=True,  # keeps users' texts out of the log
        use_native_hstore=False,
        **JSON_OPTIONS,
        **options,
    )

    @event.listens_for(engine, "do_connect")
    def connect(
        _dialect: Any, record: Any, _positional: Any, named: dict[str, Any]
    ) -> "psycopg.Connection[Any]":
        connection: psycopg.Connection[Any] = psycopg.connect(address, **named)
        warnings: list[str] = []
        record.info[WARNINGS] = warnings

        def add_warning(diagnostic: psycopg.errors.Diagnostic) -> None:
            if diagnostic.severity_nonlocalized == "WARNING":
                warnings.append(diagnostic.message_primary or "")

        connection.add_notice_handler(add_warning)
        try:
            prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    return engine


_BEGIN_SESSION = """
SELECT set_config('statement_timeout', %s, false), set_config('lock_timeout', %s, false),
    set_config('idle_in_transaction_session_timeout', %s, false),
    current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit')
"""


class ConnectionSettings(Struct, frozen=True):
    """The settings of a new connection, sent and checked in one round trip.

    `statement_seconds` is the timeout of statements, and turns on the timeout of idle transactions; with 0
    only locks have a timeout. `may_lose_writes` allows a server that may lose acknowledged writes.
    """

    statement_seconds: int
    may_lose_writes: bool

    def begin(self, connection: "psycopg.Connection[Any]") -> None:
        """Set the timeouts of a connection, and check the server.

        Raises:
            LosesWrites: `fsync`, `full_page_writes` or `synchronous_commit` is off, and `may_lose_writes`
                doesn't allow it.
        """
        connection.autocommit = True  # BEGIN and COMMIT would be two more round trips
        row = connection.execute(_BEGIN_SESSION, self._timeouts()).fetchone()
        connection.autocommit = False
        self._check(row)

    async def connect(self, address: str) -> AsyncConnection:
        """Return a connection for the event loop, without transactions, which prepares each statement at its
        first use.

        Raises:
            LosesWrites: the server may lose acknowledged writes, and `may_lose_writes` doesn't allow it.
            psycopg.Error: the server can't be reached.
        """
        connection: AsyncConnection = await psycopg.AsyncConnection.connect(
            address, autocommit=True, prepare_threshold=0
        )
        try:
            self._check(await (await connection.execute(_BEGIN_SESSION, self._timeouts())).fetchone())
        except BaseException:
            await connection.close()
            raise
        return connection

    def _timeouts(self) -> list[str]:
        idle_seconds = IDLE_SECONDS if self.statement_seconds else 0
        return [f"{seconds}s" for seconds in (self.statement_seconds, LOCK_SECONDS, idle_seconds)]

    def _check(self, row: Any) -> None:
        off = [name for name, value in zip(_LOSSES, row[3:], strict=True) if value == "off"]
        if off and not self.may_lose_writes:
            raise LosesWrites(
                f"PostgreSQL has {' and '.join(f'{name} = off' for name in off)}: "
                f"{'; '.join(_LOSSES[name] for name in off)}. "
                "Set it to on where it was turned off (postgresql.conf, ALTER SYSTEM, ALTER DATABASE or "
                "ALTER ROLE), and reload. "
                'For a test, database_may_lose_writes = "yes" allows it.'
            )


_LOSSES = {
    "fsync": "a crash of the host may break the whole database",
    "full_page_writes": "a crash of the host may leave half-written pages",
    "synchronous_commit": "a crash may lose the last acknowledged commits",
}


class _CountedConnection(Struct, eq=False):
    """A connection, open or opening, and the number of queries that use it.

    If `is_dropped`, the last query closes it.
    """

    opening: "asyncio.Task[AsyncConnection]"
    queries: int = 0
    is_dropped: bool = False

    def is_usable(self) -> bool:
        if self.opening.get_loop() is not asyncio.get_running_loop():
            return False
        return not self.opening.done() or self._connection() is not None

    def drop(self) -> None:
        self.is_dropped = True
        if not self.queries:
            self.close()

    def close(self) -> None:
        self.opening.cancel()  # no effect on an open connection
        connection = self._connection() if self.opening.done() else None
        if connection is not None:
            connection.pgconn.finish()

    def _connection(self) -> AsyncConnection | None:
        if self.opening.cancelled() or self.opening.exception() is not None:
            return None
        connection = self.opening.result()
        return None if connection.closed else connection


class QueryConnection:
    """A connection that opens at the first query, and again after a loss, and runs one query at a time."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._current: _CountedConnection | None = None
        self._is_outdated = False

    async def rows(self, text: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a query.

        Raises:
            psycopg.Error: the connection can't be opened or is lost, or PostgreSQL refuses the query.
        """
        counted = self._usable_connection()
        counted.queries += 1
        try:
            connection = await asyncio.shield(counted.opening)
            return await (await connection.execute(text, parameters)).fetchall()
        except psycopg.Error as error:
            if classify_error(error) is ErrorKind.LOST and counted is self._current:
                self._drop()
            raise
        finally:
            counted.queries -= 1
            if counted.is_dropped and not counted.queries:
                counted.close()

    def outdate(self) -> None:
        """Make the next query open a new connection, because the server may be a standby now.

        Any thread may call this.
        """
        self._is_outdated = True

    def close(self) -> None:
        """Close the connection now, or after its last query if queries use it."""
        self._drop()

    def _usable_connection(self) -> _CountedConnection:
        if self._current is not None and (self._is_outdated or not self._current.is_usable()):
            self._drop()
        if self._current is None:
            self._is_outdated = False
            self._current = _CountedConnection(asyncio.get_running_loop().create_task(self._connect()))
        return self._current

    def _drop(self) -> None:
        counted, self._current = self._current, None
        if counted is not None:
            counted.drop()
