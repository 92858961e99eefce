"""Connect to PostgreSQL: libpq parses the address, all waits have timeouts, and a server that may lose writes
is refused. The event loop sends single queries on connections of its own.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import psycopg
from msgspec import Struct
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.types.json import set_json_loads
from sqlalchemy import Engine, create_engine, event

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


class NotBegunError(Exception):
    """The transaction or query did not begin, and won't."""


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
            "libpq can't parse the database's address. Give postgresql://user@host:port/name, "
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
    set_config('idle_in_transaction_session_timeout', %s, false), set_config('TimeZone', 'UTC', false),
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
        set_json_loads(JSON_OPTIONS["json_deserializer"], connection)
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
        off = [name for name, value in zip(_LOSSES, row[-len(_LOSSES) :], strict=True) if value == "off"]
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


class QueryConnections:
    """Connections for single queries. Each opens when it is needed, and runs one query at a time.

    Args:
        most: the maximum number of connections.
    """

    def __init__(self, connect: Connect, most: int) -> None:
        self._connect = connect
        self._free = asyncio.Semaphore(most)
        self._idle: list[tuple[AsyncConnection, int]] = []
        self._epoch = 0

    async def rows(self, text: str, parameters: Mapping[str, Any], begin_by: float) -> list[tuple[Any, ...]]:
        """Return the rows of a query.

        Raises:
            NotBegunError: no connection was free at `begin_by` (seconds of `time.monotonic`).
            psycopg.Error: a connection can't be opened or is lost, or PostgreSQL refuses the query.
        """
        try:
            async with asyncio.timeout(begin_by - time.monotonic()):
                await self._free.acquire()
        except TimeoutError:
            raise NotBegunError("all connections are in use") from None
        try:
            connection, epoch = self._take_idle() or await self._open()
            try:
                return await (await connection.execute(text, parameters)).fetchall()
            finally:
                self._keep(connection, epoch)
        finally:
            self._free.release()

    def outdate(self) -> None:
        """Make the next queries open new connections, because the server may be a standby now.

        Any thread may call this.
        """
        self._epoch += 1

    def close(self) -> None:
        """Close each connection now, or after its query."""
        self.outdate()
        self._take_idle()

    async def _open(self) -> tuple[AsyncConnection, int]:
        epoch = self._epoch
        return await self._connect(), epoch

    def _take_idle(self) -> tuple[AsyncConnection, int] | None:
        """Return the connection that was used last. Close those that are outdated or lost."""
        while self._idle:
            connection, epoch = self._idle.pop()
            if epoch == self._epoch and not connection.closed:
                return connection, epoch
            connection.pgconn.finish()
        return None

    def _keep(self, connection: AsyncConnection, epoch: int) -> None:
        """Keep a connection for the next query, unless it is outdated, lost, or its query was cancelled."""
        if epoch == self._epoch and connection.info.transaction_status is TransactionStatus.IDLE:
            self._idle.append((connection, epoch))
        else:
            connection.pgconn.finish()
