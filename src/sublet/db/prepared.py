"""Statements that are built once and run by the driver itself: what is asked of every request.

SQLAlchemy builds and compiles each of them, so they read like all others and are the same on both engines; at a call only the driver is at
work. Of a small question's time SQLAlchemy's own execution is two thirds and more (docs/decisions/0010-prepared-statements.md). It
remains right for everything that is composed at a call, or asked seldom.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

from sqlalchemy import BindParameter, Dialect, Insert, Update
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.sql.visitors import iterate

from sublet.db.model import Tx

Row = tuple[Any, ...]
Processor = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A statement in one engine's SQL: what its parameters and its columns need on their way."""

    sql: str
    parameters: tuple[tuple[str, Processor | None], ...]
    is_positional: bool
    constants: Mapping[str, Any]
    columns: tuple[tuple[int, Processor], ...]
    lists: Mapping[str, Sequence[str]]


class Prepared:
    """One statement with its `bindparam`s; an INSERT or UPDATE without values takes those that are given first.

    Rows are plain tuples, in the order of the statement's columns. An IN takes a list as a `bindparam(…, expanding=True)`; since each
    length is another statement, a list is lengthened to the next power of two by saying its last value again. Nothing is filled in that
    the tables' columns would have by themselves.
    """

    def __init__(self, statement: ClauseElement) -> None:
        self._statement = statement
        self._compiled: dict[tuple[str, tuple[str, ...], tuple[int, ...]], _Compiled] = {}
        self._takes_values = isinstance(statement, Insert | Update)
        self._lists = tuple(
            str(each.key)
            for each in iterate(statement)
            if isinstance(each, BindParameter) and each.expanding and each.required
        )

    def all(self, tx: Tx, **parameters: object) -> list[Row]:
        """Return the rows that it finds, or gives back."""
        compiled = self._of(tx, parameters)
        rows: list[Row] = self._execute(tx, compiled, parameters).fetchall()
        return [_read(row, compiled.columns) for row in rows] if compiled.columns else rows

    def each(self, tx: Tx, **parameters: object) -> Iterator[Row]:
        """Return the rows as `all` does, all taken from the driver at once, but each made of what it gave when it is asked for."""
        compiled = self._of(tx, parameters)
        for row in self._execute(tx, compiled, parameters).fetchall():
            yield _read(row, compiled.columns)

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

    def lock(self, tx: Tx, **parameters: object) -> None:
        """Lock the rows that it selects for update until the transaction ends; SQLite has one writer, and is not asked."""
        if tx.connection.dialect.name != "sqlite":
            self.all(tx, **parameters)

    def run_many(self, tx: Tx, rows: Sequence[Mapping[str, object]]) -> None:
        """Do it for each of these sets of parameters, which all have the same names."""
        if not rows:
            return
        compiled = self._of(tx, rows[0])
        given = [_given(compiled, row) for row in rows]
        try:
            tx.driver.cursor().executemany(compiled.sql, given)
        except tx.driver_error as error:
            tx.raise_told(error, compiled.sql)

    def _of(self, tx: Tx, parameters: Mapping[str, object]) -> _Compiled:
        dialect = tx.connection.dialect
        names = tuple(parameters) if self._takes_values else ()
        lengths: tuple[int, ...] = ()
        if self._lists:
            lengths = tuple(_lengthened(len(cast("Sized", parameters[name]))) for name in self._lists)
        found = self._compiled.get((dialect.name, names, lengths))
        if found is None:
            lists = dict(zip(self._lists, lengths, strict=True))
            found = self._compiled[dialect.name, names, lengths] = _compile(
                self._statement, dialect, names, lists
            )
        return found

    @staticmethod
    def _execute(tx: Tx, compiled: _Compiled, parameters: Mapping[str, object]) -> Any:
        try:
            return tx.driver.execute(compiled.sql, _given(compiled, parameters))
        except tx.driver_error as error:
            tx.raise_told(error, compiled.sql)


def _lengthened(length: int) -> int:
    return 1 << (length - 1).bit_length() if length else 0


def _compile(
    statement: ClauseElement, dialect: Dialect, names: tuple[str, ...], lists: Mapping[str, int]
) -> _Compiled:
    compiled = statement.compile(dialect=dialect, column_keys=list(names) or None)
    assert isinstance(compiled, SQLCompiler)  # noqa: S101 - a query or a change, no DDL
    given = {name: [None] * length for name, length in lists.items()}
    written = compiled.construct_expanded_state({**compiled.params, **given})
    processors = enumerate(
        each.type._cached_result_processor(dialect, None)  # noqa: SLF001 - its only way
        for each in compiled._result_columns  # noqa: SLF001 - its only way
    )
    binds: Mapping[str, Any] = {**compiled._bind_processors, **written.processors}  # noqa: SLF001 - its only way
    expansion = {name: tuple(written.parameter_expansion[name]) for name in lists}
    asked = {*chain(*expansion.values()), *(name for name, bind in compiled.binds.items() if bind.required)}
    return _Compiled(
        sql=written.statement,
        parameters=tuple((name, binds.get(name)) for name in written.positiontup or written.parameters),
        is_positional=bool(compiled.positional),
        constants={name: value for name, value in written.parameters.items() if name not in asked},
        columns=tuple((place, each) for place, each in processors if each is not None),
        lists=expansion,
    )


def _given(compiled: _Compiled, parameters: Mapping[str, object]) -> Any:
    if compiled.lists:
        parameters = {**parameters, **dict(_spread(compiled.lists, parameters))}
    if compiled.constants:
        parameters = {**compiled.constants, **parameters}
    if compiled.is_positional:
        return [
            parameters[name] if processor is None else processor(parameters[name])
            for name, processor in compiled.parameters
        ]
    return {
        name: parameters[name] if processor is None else processor(parameters[name])
        for name, processor in compiled.parameters
    }


def _spread(
    lists: Mapping[str, Sequence[str]], parameters: Mapping[str, object]
) -> Iterator[tuple[str, object]]:
    for name, names in lists.items():
        values = list(cast("Iterable[object]", parameters[name]))
        values += values[-1:] * (len(names) - len(values))
        yield from zip(names, values, strict=True)


def _read(row: Row, columns: Iterable[tuple[int, Processor]]) -> Row:
    values = list(row)
    for place, processor in columns:
        value = values[place]
        if value is not None:  # which every type reads as None, and most instants of a row are
            values[place] = processor(value)
    return tuple(values)
