"""What all tables share: their metadata with its names of constraints, the types of ids and instants."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Dialect,
    Index,
    Integer,
    MetaData,
    String,
    UniqueConstraint,
    tuple_,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.types import DateTime, TypeDecorator, TypeEngine

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
"""The type of every id: SQLite numbers only an INTEGER primary key by itself."""

OWNER_KEY = String().with_variant(String(collation="C"), "postgresql")
"""The type of `dns.names.owner_key`: in byte order, so that what lies below a name is one range."""

APPEND_ONLY = ("audit_events", "transfers", "terms", "milestones")
"""The tables that are only ever added to: triggers refuse the rest."""

STREAMED: dict[str, int] = {"yield_per": 100}
"""The execution options of a query whose rows are not to be in memory at once: few at a time, since others ask meanwhile."""


class Instant(TypeDecorator[datetime]):
    """An instant in UTC to the microsecond: timestamptz on PostgreSQL, fixed-width ISO text (which sorts) on SQLite."""

    impl = String
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(DateTime(timezone=True))
        return dialect.type_descriptor(String(27))

    def bind_processor(self, dialect: Dialect) -> Callable[[datetime | None], Any] | None:
        """Return what writes a parameter: this and not `process_bind_param`, since a registration has a dozen of them."""
        return None if dialect.name == "postgresql" else _to_text

    def result_processor(self, dialect: Dialect, _coltype: object) -> Callable[[Any], datetime | None]:
        """Return what reads a column: this and not `process_result_value`, whose two calls a value a list has by the thousand."""
        return _in_utc if dialect.name == "postgresql" else _from_text


def older(at: Column[Any], row_id: Column[Any], position: Position) -> ColumnElement[bool]:
    """Return the condition that a row comes after a position in a list from newest to oldest, as one range of an index on both."""
    return tuple_(at, row_id) < (position.at, position.id)


def _in_utc(value: datetime | None) -> datetime | None:
    return value if value is None else value.astimezone(UTC)


@lru_cache(64)  # most instants that one transaction writes are the same one
def _to_text(value: datetime | None) -> str | None:
    if value is None:
        return value
    return value.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def _from_text(value: str | None) -> datetime | None:
    return value if value is None else datetime.fromisoformat(value)


def violates(error: IntegrityError, name: str) -> bool:
    """Tell whether a violated constraint or unique index is the one of this name (SQLite names columns only)."""
    if name in (message := str(error.orig)):
        return True
    for table in metadata.tables.values():
        for item in (*table.constraints, *table.indexes):
            if isinstance(item, UniqueConstraint | Index) and item.name == name:
                columns = ", ".join(f"{table.name}.{column.name}" for column in item.columns)
                return message == f"UNIQUE constraint failed: {columns}"
    return False
