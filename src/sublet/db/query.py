"""Queries as data: a statement and the function that makes a result of its rows.

A transaction can run a query (`run`), and the event loop can send it to the database itself (`Database.fetch`), because nothing of
it is code that calls a connection.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar

from sqlalchemy import Dialect, Select
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import ReturningDelete, ReturningInsert

from sublet.db.model import Tx

R = TypeVar("R")
Row = Sequence[Any]
Rows = Sequence[Row]
Convert = Callable[[Any], Any]


@dataclass(frozen=True, eq=False, slots=True)
class Query(Generic[R]):
    """One statement with its `bindparam`s, which have single values; `read` makes the result of all its rows."""

    statement: Select[Any] | ReturningInsert[Any] | ReturningDelete[Any]
    read: Callable[[Rows], R]

    def run(self, tx: Tx, /, **parameters: object) -> R:
        """Return the result, as the transaction sees it."""
        return self.read(tx.connection.execute(self.statement, parameters).all())


@dataclass(frozen=True, slots=True)
class DriverQuery:
    """A query as a driver takes it: the text, and how values are converted on the way in and out.

    `constants` are the values that the statement itself has. `columns` are the positions of columns whose values are converted.
    """

    text: str
    constants: Mapping[str, Any]
    parameters: Mapping[str, Convert]
    columns: Sequence[tuple[int, Convert]]

    def values(self, parameters: Mapping[str, object]) -> dict[str, Any]:
        """Return all values that the text names."""
        values = {**self.constants, **parameters}
        for name, convert in self.parameters.items():
            values[name] = convert(values[name])
        return values

    def rows(self, rows: Rows) -> Rows:
        """Return the driver's rows with the types of the schema."""
        if not self.columns:
            return rows
        return [self._row(row) for row in rows]

    def _row(self, row: Row) -> Row:
        values = list(row)
        for position, convert in self.columns:
            if values[position] is not None:
                values[position] = convert(values[position])
        return values


@lru_cache(256)
def for_driver(query: Query[Any], dialect: Dialect) -> DriverQuery:
    """Return a query in the SQL of a dialect; the dialect's parameter style must be one with names."""
    compiled = query.statement.compile(dialect=dialect)
    assert isinstance(compiled, SQLCompiler)  # noqa: S101 - a statement of ours is no DDL
    parameters = {
        name: convert
        for name, each in compiled.binds.items()
        if (convert := each.type.dialect_impl(dialect).bind_processor(dialect)) is not None
    }
    columns = [
        (position, convert)
        for position, column in enumerate(query.statement.exported_columns)
        if (convert := column.type.dialect_impl(dialect).result_processor(dialect, None)) is not None
    ]
    constants = {name: value for name, value in compiled.params.items() if not compiled.binds[name].required}
    return DriverQuery(compiled.string, constants, parameters, columns)
