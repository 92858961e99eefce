"""Connections to PostgreSQL: libpq reads the address, waits are bounded, and a server that may lose writes is refused."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy import Engine, create_engine, event

from sublet.errors import Unavailable

DEFAULTS: dict[str, str | int] = {
    "fallback_application_name": "sublet",
    "connect_timeout": 3,
    # A host that disappears is noticed in about 11 s, instead of the kernel's two hours.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""Defaults of libpq's parameters that an address may override, in seconds; the last one in milliseconds."""

LOCK_SECONDS = 5
"""How long a statement waits for a lock."""
IDLE_SECONDS = 15
"""How long a transaction may be idle: a process that is frozen or unreachable must not keep its locks for long."""

WARNINGS = "sublet_warnings"
"""The key of a pooled connection's `info` with PostgreSQL's warnings since they were last cleared."""

Prepare = Callable[["psycopg.Connection[Any]"], None]


class LosesWrites(Exception):  # noqa: N818 - nothing was lost yet
    """PostgreSQL's configuration allows it to lose acknowledged writes."""


def libpq_address(url: str) -> str:
    """Return libpq's parameters of an address `postgresql://…`, which may name several hosts.

    With several hosts the default of `target_session_attrs` is `read-write`, because one of them may be a standby.

    Raises:
        Unavailable: libpq can't read the address.
    """
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:
        # libpq's message may contain the address with its password.
        raise Unavailable(
            "database_url is no address that libpq can read. Give postgresql://user@host:port/name, "
            "with characters that have a special meaning in a URI percent-encoded."
        ) from None
    if any("," in str(given.get(name, "")) for name in ("host", "hostaddr")):
        given.setdefault("target_session_attrs", "read-write")
    return make_conninfo("", **{**DEFAULTS, **given})


def postgresql_engine(url: str, prepare: Prepare = lambda _: None, **options: Any) -> Engine:
    """Return an engine for an address `postgresql://…`; `prepare` is called with each new connection first.

    `options` are those of SQLAlchemy's `create_engine`.

    Raises:
        Unavailable: libpq can't read the address.
    """
    address = libpq_address(url)
    # SQLAlchemy's own parser of addresses allows only one host.
    engine = create_engine(
        "postgresql+psycopg://",
        hide_parameters=True,  # what users wrote stays out of the log
        use_native_hstore=False,
        json_deserializer=msgspec.json.decode,
        **options,
    )

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, record: Any, _words: Any, named: dict[str, Any]) -> "psycopg.Connection[Any]":
        connection: psycopg.Connection[Any] = psycopg.connect(address, **named)
        warnings: list[str] = []
        record.info[WARNINGS] = warnings

        def note(diagnostic: psycopg.errors.Diagnostic) -> None:
            if diagnostic.severity_nonlocalized == "WARNING":
                warnings.append(diagnostic.message_primary or "")

        connection.add_notice_handler(note)
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


@dataclass(frozen=True, slots=True)
class Session:
    """The settings of a new connection, sent and checked in one round trip.

    `statement_seconds` bounds each statement, and transactions that do nothing; 0: only waits for locks are bounded.
    `may_lose_writes` allows a server that may lose acknowledged writes.
    """

    statement_seconds: int
    may_lose_writes: bool

    def begin(self, connection: "psycopg.Connection[Any]") -> None:
        """Set the bounds of a connection.

        Raises:
            LosesWrites: `fsync`, `full_page_writes` or `synchronous_commit` is off, and `may_lose_writes` doesn't allow it.
        """
        connection.autocommit = True  # else it would be three round trips
        row = connection.execute(_BEGIN_SESSION, self._bounds()).fetchone()
        connection.autocommit = False
        self._check(row)

    async def connect(self, address: str) -> "psycopg.AsyncConnection[Any]":
        """Return a connection for the event loop, without transactions; it prepares each statement at its first use.

        Raises:
            LosesWrites: as `begin`.
            psycopg.Error: the server can't be reached.
        """
        connection: psycopg.AsyncConnection[Any] = await psycopg.AsyncConnection.connect(
            address, autocommit=True, prepare_threshold=0
        )
        try:
            self._check(await (await connection.execute(_BEGIN_SESSION, self._bounds())).fetchone())
        except BaseException:
            await connection.close()
            raise
        return connection

    def _bounds(self) -> list[str]:
        idle_seconds = IDLE_SECONDS if self.statement_seconds else 0
        return [f"{seconds}s" for seconds in (self.statement_seconds, LOCK_SECONDS, idle_seconds)]

    def _check(self, row: Any) -> None:
        off = [name for name, value in zip(_LOSSES, row[3:], strict=True) if value == "off"]
        if off and not self.may_lose_writes:
            raise LosesWrites(
                f"PostgreSQL has {' and '.join(f'{name} = off' for name in off)}: {'; '.join(_LOSSES[name] for name in off)}. "
                "Set it to on where it was turned off (postgresql.conf, ALTER SYSTEM, ALTER DATABASE or ALTER ROLE), and reload. "
                'Where it doesn\'t matter, as in a test, database_may_lose_writes = "yes" allows it.'
            )


_LOSSES = {
    "fsync": "when its host crashes, the whole database may be broken",
    "full_page_writes": "when its host crashes, pages that were half written stay broken",
    "synchronous_commit": "what it acknowledged a moment before it crashes is lost",
}
