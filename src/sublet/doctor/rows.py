"""Check that stored values have the types of their columns.

PostgreSQL ensures this; SQLite stores any value in any column.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    ColumnElement,
    Integer,
    Select,
    String,
    Table,
    case,
    func,
    literal_column,
    or_,
    select,
    type_coerce,
)

from sublet.db import Tx
from sublet.doctor.model import Violation
from sublet.schema import STREAMED, Instant, metadata

_DIGIT = "[0-9]"
_INSTANT = f"{_DIGIT * 4}-{_DIGIT * 2}-{_DIGIT * 2}T{_DIGIT * 2}:[0-5]{_DIGIT}:[0-5]{_DIGIT}.{_DIGIT * 6}Z"


def check_rows(tx: Tx) -> Iterator[Violation]:
    """Yield the rows with a value of a wrong type: text in a column of numbers, invalid JSON, a date that
    doesn't exist.

    Not checked: that text is valid UTF-8, and the content of JSON values.
    """
    if tx.connection.dialect.name != "sqlite":
        return
    for table in metadata.sorted_tables:
        yield from _find_malformed(tx, table)


def _find_malformed(tx: Tx, table: Table) -> Iterator[Violation]:
    for object_id, name in tx.connection.execute(_malformed_rows(table)):
        sentence = f"its {name} is not a valid {_type_name(table.c[name])}"
        yield Violation("rows_are_readable", table.name, object_id, sentence)


@cache
def _malformed_rows(table: Table) -> Select[Any]:
    """Return the query for the id and the first wrong column of each malformed row."""
    row_id = table.c.id if "id" in table.c else literal_column(f"{table.name}.rowid")
    wrong = {column.name: column.is_not(None) & _is_malformed(column) for column in table.c}
    first = case(*((condition, name) for name, condition in wrong.items()))
    query = select(type_coerce(row_id, String), first).where(or_(*wrong.values()))
    return query.execution_options(**STREAMED)


def _is_malformed(column: Column[Any]) -> ColumnElement[bool]:
    kind = func.typeof(column)
    if isinstance(column.type, Boolean):
        return type_coerce(column, Integer).not_in((0, 1))
    if isinstance(column.type, Integer):
        return kind != "integer"
    if isinstance(column.type, Instant):
        written = type_coerce(column, String)
        day = func.substr(written, 1, 10)
        # SQLite's date() turns 31 February into a day in March, so an impossible day doesn't equal the
        # result.
        is_day = func.coalesce(func.date(day, "+0 days"), "") == day
        is_hour = func.substr(written, 12, 2) < "24"
        is_whole = written.bool_op("GLOB")(_INSTANT) & is_day & is_hour & (written >= "0001")
        return (kind != "text") | ~is_whole
    if isinstance(column.type, JSON):
        return (kind != "text") | (func.json_valid(type_coerce(column, String)) == 0)
    return kind != "text"


def _type_name(column: Column[Any]) -> str:
    meanings = ((Boolean, "truth value"), (Integer, "integer"), (Instant, "instant"), (JSON, "JSON value"))
    return next((meaning for kind, meaning in meanings if isinstance(column.type, kind)), "text")
