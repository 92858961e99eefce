"""What all tables share: their metadata with its names of constraints, the types of ids and instants."""

from datetime import UTC, datetime
from typing import Any, cast

from sqlalchemy import BigInteger, Dialect, Index, Integer, MetaData, String, UniqueConstraint
from sqlalchemy.exc import IntegrityError
from sqlalchemy.types import DateTime, TypeDecorator, TypeEngine

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

APPEND_ONLY = ("audit_events", "transfers", "terms", "milestones")
"""The tables that are only ever added to: triggers refuse the rest."""

STREAMED: dict[str, int] = {"yield_per": 1000}
"""The execution options of a query whose rows are not to be in memory at once."""


class Instant(TypeDecorator[datetime]):
    """An instant in UTC to the microsecond: timestamptz on PostgreSQL, fixed-width ISO text (which sorts) on SQLite."""

    impl = String
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(DateTime(timezone=True))
        return dialect.type_descriptor(String(27))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None or dialect.name == "postgresql":
            return value
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if dialect.name == "postgresql":
            return cast("datetime", value).astimezone(UTC)
        return datetime.fromisoformat(value)


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
