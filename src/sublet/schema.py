"""The parts that all tables share: the metadata with the naming convention of constraints, the types of ids
and instants.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Dialect,
    Index,
    Integer,
    MetaData,
    Select,
    String,
    Table,
    UniqueConstraint,
    bindparam,
    func,
    select,
    text,
    tuple_,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.types import DateTime, TypeDecorator, TypeEngine

from sublet.dates import CLOCKS_APART
from sublet.ids import Position

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

BIG_ID = BigInteger().with_variant(Integer(), "sqlite")
"""The type of every id: SQLite generates values only for an INTEGER primary key."""

OWNER_KEY = String().with_variant(String(collation="C"), "postgresql")
"""The type of `dns.names.owner_key`. It sorts in byte order, so that the names below a name are a single
range.
"""


def key_range(key: str) -> dict[str, str]:
    """Return the parameters of `at_or_below` and `select_adjacent_keys` for the name with this `owner_key`.

    All keys of names below it are between `below` and `end`.
    """
    return {"at": key, "below": f"{key}.", "end": f"{key}/"}


def at_or_below(key: Column[str]) -> ColumnElement[bool]:
    """Return the condition that a name is at or below the name of a `key_range`.

    An index on the owner key serves it as one range.

    `-` sorts before `.`, so the range has siblings such as `name-2` too. The last line excludes them.
    """
    return (
        (key >= bindparam("at"))
        & (key < bindparam("end"))
        & ((key == bindparam("at")) | (key > bindparam("below")))
    )


def select_adjacent_keys(key: Column[str], of: ColumnElement[bool]) -> Select[Any]:
    """Return a query of one row: among the rows with the condition `of`, the owner keys directly before and
    after `below`, or NULL.
    """
    return select(
        select(func.max(key)).where(of & (key < bindparam("below"))).scalar_subquery(),
        select(func.min(key)).where(of & (key >= bindparam("below"))).scalar_subquery(),
    )


APPEND_ONLY = ("audit_events", "transfers", "terms", "milestones")
"""The append-only tables: triggers refuse UPDATE and DELETE."""

STREAMED: dict[str, int] = {"yield_per": 100}
"""The execution options of a query with too many rows for memory: they are fetched in small batches."""


class Instant(TypeDecorator[datetime]):
    """An instant in UTC to the microsecond: timestamptz on PostgreSQL, fixed-width ISO text (which sorts) on
    SQLite.
    """

    impl = String
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(DateTime(timezone=True))
        return dialect.type_descriptor(String(27))

    def bind_processor(self, dialect: Dialect) -> Callable[[datetime | None], Any] | None:
        """Return the converter of parameters.

        `process_bind_param` would be slower, and a registration writes a dozen instants.
        """
        return None if dialect.name == "postgresql" else _to_text

    def result_processor(self, dialect: Dialect, _coltype: object) -> Callable[[Any], datetime | None]:
        """Return the converter of columns.

        `process_result_value` would be slower, because SQLAlchemy makes two calls for each value.
        """
        return _in_utc if dialect.name == "postgresql" else _from_text


def list_numbered() -> list[Table]:
    """Return the tables whose ids the database assigns. An id is never assigned twice."""
    return [each for each in metadata.sorted_tables if each.dialect_options["sqlite"]["autoincrement"]]


def find_last_id(connection: Connection, table: Table) -> int:
    """Return the last id that the database assigned in a table, or 0."""
    if connection.dialect.name == "sqlite":
        query = "SELECT seq FROM sqlite_sequence WHERE name = :table"
    else:
        query = "SELECT pg_sequence_last_value(to_regclass(pg_get_serial_sequence(:table, 'id')))"
    return int(connection.execute(text(query), {"table": table.name}).scalar_one_or_none() or 0)


def older(at: Column[Any], row_id: Column[Any], position: Position) -> ColumnElement[bool]:
    """Return the condition that a row comes after a position in a list from newest to oldest.

    An index on both columns serves it as one range.
    """
    return tuple_(at, row_id) < (position.at, position.id)


def recent(at: Column[Any], since: datetime, now: datetime) -> ColumnElement[bool]:
    """Return the condition that a row was stored since an instant.

    Rows in the future, from before the clock was set back, are left out: a limit would count them until then.
    """
    return (at > since) & (at <= now + CLOCKS_APART)


def _in_utc(value: datetime | None) -> datetime | None:
    return value if value is None else value.astimezone(UTC)


@lru_cache(64)  # A transaction writes the same instant many times.
def _to_text(value: datetime | None) -> str | None:
    if value is None:
        return value
    return value.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def _from_text(value: str | None) -> datetime | None:
    return value if value is None else datetime.fromisoformat(value)


def violates(error: IntegrityError, name: str) -> bool:
    """True if the violated constraint or unique index has this name.

    SQLite's message has the columns instead of the name.
    """
    if name in (message := str(error.orig)):
        return True
    for table in metadata.tables.values():
        for item in (*table.constraints, *table.indexes):
            if isinstance(item, UniqueConstraint | Index) and item.name == name:
                columns = ", ".join(f"{table.name}.{column.name}" for column in item.columns)
                return message == f"UNIQUE constraint failed: {columns}"
    return False
