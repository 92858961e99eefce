"""Statements that SQLAlchemy compiles once and the driver runs, and pages of lists.

SQLAlchemy's `Connection.execute` takes two to three times as long for a statement of 50 columns, because it
finds the compiled text by a key of the whole statement. So statements that run for each request are a
`Prepared` or a `Query`. A statement that is composed for one call runs with `tx.connection.execute`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import Any, Generic, TypeVar

from msgspec import Struct, field
from sqlalchemy import (
    Column,
    Delete,
    Dialect,
    Insert,
    Select,
    SelectBase,
    Table,
    Update,
    bindparam,
    delete,
    exc,
    func,
    select,
    tuple_,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.compiler import ExpandedState, SQLCompiler
from sqlalchemy.sql.dml import ReturningDelete, ReturningInsert

from sublet.db.model import Tx
from sublet.ids import Position

R = TypeVar("R")
T = TypeVar("T")
Row = Sequence[Any]
Rows = Sequence[Row]
Convert = Callable[[Any], Any]
Statement = SelectBase | Insert | Update | Delete
EXPANDED_MAX = 50
"""The maximum number of values in the lists of a kept text."""


def insert_into(tx: Tx, table: Table) -> Any:
    """Return an INSERT of the database's dialect, which supports ON CONFLICT DO NOTHING."""
    return (postgresql.insert if tx.connection.dialect.name == "postgresql" else sqlite.insert)(table)


def delete_oldest(tx: Tx, at: Column[Any], before: datetime, limit: int) -> bool:
    """Delete about `limit` rows with an `at` before an instant, the oldest first. Return True if there may be
    more.

    Rows of the same instant are deleted together, even beyond `limit`. Only the column `at` is read, because
    a login of PostgreSQL may have no right to the others.
    """
    oldest = select(at.label("at")).where(at < before).order_by(at).limit(limit).subquery()
    last = select(func.max(oldest.c.at)).scalar_subquery()
    return tx.connection.execute(delete(at.table).where(at <= last)).rowcount >= limit


class Query(Struct, Generic[R], frozen=True, eq=False):
    """A statement with its `bindparam`s. `read` converts the rows to the result.

    A query is data, so that the event loop can send it to the database (`Database.fetch`).
    """

    statement: Select[Any] | ReturningInsert[Any] | ReturningDelete[Any]
    read: Callable[[Rows], R]

    def run(self, tx: Tx, /, **parameters: object) -> R:
        """Return the result, as the transaction sees it."""
        asked = for_driver(self.statement, tx.connection.dialect)
        return self.read(asked.rows(_execute(tx, asked, parameters).fetchall()))


class Prepared:
    """A statement with its `bindparam`s.

    An INSERT or UPDATE without values sets the columns that the parameters name.
    """

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self._takes_values = isinstance(statement, Insert | Update)

    def all(self, tx: Tx, **parameters: object) -> Rows:
        """Return the rows of the statement, in the order of its columns."""
        asked = self._for_driver(tx, parameters)
        return asked.rows(_execute(tx, asked, parameters).fetchall())

    def one_or_none(self, tx: Tx, **parameters: object) -> Any:
        """Return the only row, or None. Raise SQLAlchemy's `MultipleResultsFound` for several rows."""
        rows = self.all(tx, **parameters)
        if len(rows) > 1:
            raise exc.MultipleResultsFound("a query for one row at most found more")
        return rows[0] if rows else None

    def value(self, tx: Tx, **parameters: object) -> Any:
        """Return the first column of the only row."""
        ((value, *_),) = self.all(tx, **parameters)
        return value

    def run(self, tx: Tx, **parameters: object) -> int:
        """Execute the statement, and return the number of changed rows."""
        return int(_execute(tx, self._for_driver(tx, parameters), parameters).rowcount)

    def lock(self, tx: Tx, **parameters: object) -> None:
        """Lock the selected rows until the transaction ends.

        On SQLite this does nothing, because there is one writer.
        """
        if tx.connection.dialect.name != "sqlite":
            self.all(tx, **parameters)

    def run_many(self, tx: Tx, rows: Sequence[Mapping[str, object]]) -> None:
        """Execute a statement without IN once for each set of parameters. All sets have the same names."""
        if rows:
            asked = self._for_driver(tx, rows[0])
            text = asked.compiled.string
            values = [asked.call(each)[1] for each in rows]
            _run(tx, text, lambda cursor: cursor.executemany(text, values))

    def _for_driver(self, tx: Tx, parameters: Mapping[str, object]) -> "DriverStatement":
        names = tuple(parameters) if self._takes_values else ()
        return for_driver(self._statement, tx.connection.dialect, names)


class DriverStatement(Struct, frozen=True):
    """A statement for a driver: its text, and the conversions of its parameters and results.

    `constants` are the values in the statement. `columns` has the positions of columns that are converted.
    `lists` has the parameters of an IN: the text has one name for each of their values. `expanded` keeps the
    texts for short lists, by the lengths of the lists.
    """

    compiled: SQLCompiler
    constants: Mapping[str, Any]
    parameters: Sequence[tuple[str, Convert]]
    columns: Sequence[tuple[int, Convert]]
    lists: frozenset[str]
    expanded: dict[tuple[int, ...], ExpandedState] = field(default_factory=dict)

    def call(self, parameters: Mapping[str, object]) -> tuple[str, Mapping[str, Any]]:
        """Return the text, and the values for all its names."""
        values: dict[str, Any] = {**self.constants, **parameters}
        for name, convert in self.parameters:
            value = values[name]
            values[name] = [convert(each) for each in value] if name in self.lists else convert(value)
        if not self.lists:
            return self.compiled.string, values
        lists = {name: values.pop(name) for name in self.lists}
        lengths = tuple(map(len, lists.values()))
        expanded = self.expanded.get(lengths)
        if expanded is None:
            expanded = self.compiled.construct_expanded_state(values | lists)
            if sum(lengths) <= EXPANDED_MAX:
                self.expanded[lengths] = expanded
        for name, value in lists.items():
            values.update(zip(expanded.parameter_expansion[name], value, strict=True))
        return expanded.statement, values

    def rows(self, rows: Rows) -> Rows:
        """Return the driver's rows with the types of the schema."""
        if not self.columns:
            return rows
        return [self._row(row) for row in rows]

    def _row(self, row: Row) -> Row:
        values = list(row)
        for position, convert in self.columns:
            if (value := values[position]) is not None:
                values[position] = convert(value)
        return values


@lru_cache(1024)
def for_driver(statement: Statement, dialect: Dialect, names: tuple[str, ...] = ()) -> DriverStatement:
    """Return a statement in the SQL of a dialect. The parameters of the dialect must have names.

    `names` are the columns that an INSERT or UPDATE without values sets.
    """
    compiled = statement.compile(dialect=dialect, column_keys=list(names) or None)
    assert isinstance(compiled, SQLCompiler)  # noqa: S101 - a statement of ours is no DDL
    binds = {name: bind for bind, name in compiled.bind_names.items()}
    parameters = [
        (name, convert)
        for name, each in binds.items()
        if (convert := each.type.dialect_impl(dialect).bind_processor(dialect)) is not None
    ]
    columns = [
        (position, convert)
        for position, column in enumerate(statement.exported_columns)
        if (convert := column.type.dialect_impl(dialect).result_processor(dialect, None)) is not None
    ]
    return DriverStatement(
        compiled,
        constants={name: value for name, value in compiled.params.items() if not binds[name].required},
        parameters=parameters,
        columns=columns,
        lists=frozenset(name for name, each in binds.items() if each.expanding),
    )


@contextmanager
def together(tx: Tx) -> Iterator[None]:
    """Send the statements of the block to PostgreSQL in one round trip.

    The block runs `Prepared` statements, and doesn't use their results. The first error is raised at its end.
    """
    if tx.connection.dialect.name == "sqlite":
        yield
        return
    driver: Any = tx.connection.connection.driver_connection
    try:
        with driver.pipeline():
            yield
    except tx.connection.dialect.loaded_dbapi.Error as error:
        raise _sqlalchemy_error(error, "a pipeline") from error


def _execute(tx: Tx, asked: DriverStatement, parameters: Mapping[str, object]) -> Any:
    """Return the driver's cursor with the result."""
    text, values = asked.call(parameters)
    return _run(tx, text, lambda cursor: cursor.execute(text, values))


def _run(tx: Tx, text: str, execute: Callable[[Any], object]) -> Any:
    """Return a cursor of the driver after `execute`."""
    cursor = tx.connection.connection.cursor()
    try:
        execute(cursor)
    except tx.connection.dialect.loaded_dbapi.Error as error:
        raise _sqlalchemy_error(error, text) from error
    return cursor


def _sqlalchemy_error(error: Exception, text: str) -> exc.DBAPIError:
    """Return SQLAlchemy's error for one of the driver. Their classes have the same names (PEP 249)."""
    names = [kind.__name__ for kind in type(error).__mro__]
    kind = next(getattr(exc, name) for name in names if hasattr(exc, name))
    return kind(text, None, error, hide_parameters=True)  # type: ignore[no-any-return]


STATEMENT_ITEMS_MAX = 1000
"""The maximum number of ids or names in one statement."""


def in_batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the items in batches of up to `STATEMENT_ITEMS_MAX`, because the databases limit the number of
    values in a statement.
    """
    for start in range(0, len(items), STATEMENT_ITEMS_MAX):
        yield items[start : start + STATEMENT_ITEMS_MAX]


class Pages(Generic[R]):
    """A list from newest to oldest.

    `query` selects the whole list, with its `bindparam`s, without an order. `read` converts rows to items. A
    filtered list composes its query at each call instead, with `schema.older`.
    """

    def __init__(
        self, query: Select[Any], at: Column[Any], row_id: Column[Any], read: Callable[[Rows], list[R]]
    ) -> None:
        page = query.order_by(at.desc(), row_id.desc()).limit(bindparam("limit"))
        last = tuple_(bindparam("after_at", type_=at.type), bindparam("after_id", type_=row_id.type))
        self._first = Query(page, read)
        self._next = Query(page.where(tuple_(at, row_id) < last), read)

    def next_query(self, limit: int, after: Position | None) -> tuple[Query[list[R]], dict[str, object]]:
        """Return the query and the parameters of the next `limit` rows after a position; for None, of the
        newest rows.
        """
        if after is None:
            return self._first, {"limit": limit}
        return self._next, {"limit": limit, "after_at": after.at, "after_id": after.id}

    def read(self, tx: Tx, limit: int, after: Position | None, **parameters: object) -> list[R]:
        """Return the next `limit` items after a position; for None, the newest items."""
        query, values = self.next_query(limit, after)
        return query.run(tx, **values, **parameters)
