"""Connections to PostgreSQL: made by libpq from the address as it stands, bounded in time, refused where they may lose writes."""

from collections.abc import Callable
from typing import Any

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy import Engine, create_engine, event

from sublet.errors import Unavailable

DEFAULTS: dict[str, str | int] = {
    "fallback_application_name": "sublet",
    "connect_timeout": 3,
    # A host that is gone without a word is noticed in about 11 s, not in the kernel's two hours.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""What an address gets that doesn't say it itself: libpq's parameters, in seconds, the last one in milliseconds."""

LOCK_SECONDS = 5
"""How long a statement waits for a lock."""
IDLE_SECONDS = 15
"""How long a transaction may do nothing: one whose process is frozen or cut off must not keep its locks for long."""

WARNINGS = "sublet_warnings"
"""Where a pooled connection's `info` has the warnings that PostgreSQL gave since they were cleared."""

Prepare = Callable[["psycopg.Connection[Any]"], None]


class LosesWrites(Exception):  # noqa: N818 - nothing is lost yet
    """PostgreSQL is set up so that it may lose what it has acknowledged."""


def libpq_address(url: str) -> str:
    """Return the parameters for libpq of an address `postgresql://…`, which may name several hosts.

    An address with several hosts leads to the one that can be written, unless it says something else
    (`target_session_attrs`): else one might land on a standby.

    Raises:
        Unavailable: libpq can't read it.
    """
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:
        # libpq's own sentence may quote the address, with the password in it.
        raise Unavailable(
            "database_url is no address that libpq can read. Give postgresql://user@host:port/name, "
            "with characters that have a special meaning in a URI percent-encoded."
        ) from None
    if any("," in str(given.get(name, "")) for name in ("host", "hostaddr")):
        given.setdefault("target_session_attrs", "read-write")
    return make_conninfo("", **{**DEFAULTS, **given})


def postgresql_engine(url: str, prepare: Prepare = lambda _: None, **options: Any) -> Engine:
    """Return an engine for an address `postgresql://…`; `prepare` is called with each new connection before anything else.

    `options` are those of SQLAlchemy's `create_engine`.

    Raises:
        Unavailable: libpq can't read the address.
    """
    address = libpq_address(url)
    # SQLAlchemy would take the address apart by rules of its own, which know no second host.
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


def begin_session(
    connection: "psycopg.Connection[Any]", *, statement_seconds: int, may_lose_writes: bool
) -> None:
    """Bound what a new connection waits for, and refuse one that may lose acknowledged writes; in one round trip.

    `statement_seconds` bounds each statement; 0: neither statements nor idle transactions are bounded, only waits for locks.

    Raises:
        LosesWrites: `fsync`, `full_page_writes` or `synchronous_commit` is off, and `may_lose_writes` doesn't allow it.
    """
    bounds = (statement_seconds, LOCK_SECONDS, IDLE_SECONDS if statement_seconds else 0)
    connection.autocommit = True  # else it would be three round trips
    row = connection.execute(_BEGIN_SESSION, [f"{seconds}s" for seconds in bounds]).fetchone()
    connection.autocommit = False
    assert row is not None  # noqa: S101 - a SELECT without FROM
    if may_lose_writes:
        return
    off = [name for name, value in zip(_LOSSES, row[3:], strict=True) if value == "off"]
    if off:
        raise LosesWrites(
            f"PostgreSQL has {' and '.join(f'{name} = off' for name in off)}: {'; '.join(_LOSSES[name] for name in off)}. "
            "Set it to on where it was turned off (postgresql.conf, ALTER SYSTEM, ALTER DATABASE or ALTER ROLE), and reload. Where "
            'it doesn\'t matter, as in a test, database_may_lose_writes = "yes" allows it.'
        )


_LOSSES = {
    "fsync": "when its host crashes, the whole database may be broken",
    "full_page_writes": "when its host crashes, pages that were half written stay broken",
    "synchronous_commit": "what it acknowledged a moment before it crashes is lost",
}
