"""Statements that are built once and run by the driver itself: what is asked of every request.

SQLAlchemy builds and compiles each of them, so they read like all others and are the same on both engines; at a call only the driver is at
work. Of a small question's time SQLAlchemy's own execution is two thirds and more (docs/decisions/0010-prepared-statements.md). It
remains right for everything that is composed at a call, or asked seldom.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from sqlalchemy import Dialect, Insert, Update
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement

from sublet.db.model import Tx

Row = tuple[Any, ...]
Processor = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A statement in one engine's SQL: what its parameters and its columns need on their way."""

    sql: str
    names: tuple[str, ...]
    is_positional: bool
    constants: Mapping[str, Any]
    binds: Mapping[str, Processor]
    columns: tuple[tuple[int, Processor], ...]


class Prepared:
    """One statement with its `bindparam`s; an INSERT or UPDATE without values takes those that are given first.

    Rows are plain tuples, in the order of the statement's columns. It can't have an IN over a list whose length differs (that is another
    statement each time), and nothing is filled in that the tables' columns would have by themselves.
    """

    def __init__(self, statement: ClauseElement) -> None:
        self._statement = statement
        self._compiled: dict[tuple[str, tuple[str, ...]], _Compiled] = {}
        self._takes_values = isinstance(statement, Insert | Update)

    def all(self, tx: Tx, **parameters: object) -> list[Row]:
        """Return the rows that it finds, or gives back."""
        compiled = self._of(tx, parameters)
        rows: list[Row] = self._execute(tx, compiled, parameters).fetchall()
        return [_read(row, compiled.columns) for row in rows] if compiled.columns else rows

    def one_or_none(self, tx: Tx, **parameters: object) -> Row | None:
        """Return its one row, or None; more than one is a fault."""
        rows = self.all(tx, **parameters)
        if len(rows) > 1:
            raise ValueError("more than one row where there is one at most")
        return rows[0] if rows else None

    def value(self, tx: Tx, **parameters: object) -> Any:
        """Return the one column of its one row."""
        ((value,),) = self.all(tx, **parameters)
        return value

    def run(self, tx: Tx, **parameters: object) -> int:
        """Do it; return how many rows that concerned."""
        return int(self._execute(tx, self._of(tx, parameters), parameters).rowcount)

    def run_many(self, tx: Tx, rows: Sequence[Mapping[str, object]]) -> None:
        """Do it for each of these sets of parameters, which all have the same names."""
        if not rows:
            return
        compiled = self._of(tx, rows[0])
        given = [_given(compiled, row) for row in rows]
        try:
            tx.driver.cursor().executemany(compiled.sql, given)
        except tx.driver_error as error:
            _raise(tx, compiled, error)

    def _of(self, tx: Tx, parameters: Iterable[str]) -> _Compiled:
        dialect = tx.connection.dialect
        key = (dialect.name, tuple(parameters) if self._takes_values else ())
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = _compile(self._statement, dialect, key[1])
        return found

    @staticmethod
    def _execute(tx: Tx, compiled: _Compiled, parameters: Mapping[str, object]) -> Any:
        try:
            return tx.driver.execute(compiled.sql, _given(compiled, parameters))
        except tx.driver_error as error:
            _raise(tx, compiled, error)


def _compile(statement: ClauseElement, dialect: Dialect, names: tuple[str, ...]) -> _Compiled:
    compiled = statement.compile(dialect=dialect, column_keys=list(names) or None)
    assert isinstance(compiled, SQLCompiler)  # noqa: S101 - a query or a change, no DDL
    assert not compiled.post_compile_params, "an IN over a list has another text each time"  # noqa: S101 - said above
    processors = enumerate(
        each.type._cached_result_processor(dialect, None)  # noqa: SLF001 - its only way
        for each in compiled._result_columns  # noqa: SLF001 - its only way
    )
    return _Compiled(
        sql=str(compiled),
        names=tuple(compiled.positiontup or compiled.params),
        is_positional=bool(compiled.positional),
        constants={name: value for name, value in compiled.params.items() if value is not None},
        binds=dict(compiled._bind_processors),  # type: ignore[arg-type] # noqa: SLF001 - its only way
        columns=tuple((place, each) for place, each in processors if each is not None),
    )


def _given(compiled: _Compiled, parameters: Mapping[str, object]) -> Any:
    values = []
    for name in compiled.names:
        value = parameters[name] if name in parameters else compiled.constants[name]
        processor = compiled.binds.get(name)
        values.append(value if processor is None else processor(value))
    return values if compiled.is_positional else dict(zip(compiled.names, values, strict=True))


def _read(row: Row, columns: Iterable[tuple[int, Processor]]) -> Row:
    values = list(row)
    for place, processor in columns:
        values[place] = processor(values[place])
    return tuple(values)


def _raise(tx: Tx, compiled: _Compiled, error: Exception) -> NoReturn:
    """Raise what SQLAlchemy would: callers know its classes, and it sees to connections that are lost."""
    # Without the parameters: what users wrote stays out of the log.
    tx.connection._handle_dbapi_exception(error, compiled.sql, None, None, None)  # noqa: SLF001 - its only way
