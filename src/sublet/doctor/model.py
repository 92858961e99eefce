"""The results of the doctor, and the SQL that its checks share."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from sqlalchemy import Column, ColumnElement, Select, exists, func, select

from sublet.audit import audit_events
from sublet.db import Tx
from sublet.schema import STREAMED


class Violation(Struct, frozen=True):
    """A broken invariant: its name, the object that breaks it, and a sentence about the problem."""

    invariant: str
    object_type: str
    object_id: int | str
    message: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.object_type} {self.object_id}: {self.message}"


class Notice(Struct, frozen=True):
    """A message for the operator that isn't about a broken invariant."""

    notice: str
    object_type: str
    object_id: int | str
    message: str


def was_transferred(subdomain_id: ColumnElement[int], user_id: ColumnElement[int]) -> ColumnElement[bool]:
    """True if the name was transferred from the user, who keeps rows from before the transfer."""
    events = audit_events.alias()
    return exists().where(
        (events.c.object_type == "subdomain")
        & (events.c.object_id == subdomain_id)
        & (events.c.action == "subdomain.transfer")
        & (events.c.before["user_id"].as_integer() == user_id)
    )


def select_repeated(column: Column[Any]) -> Select[Any]:
    """Return a query for the rows whose value in this column is also in an earlier row."""
    first = select(column.label("value"), func.min(column.table.c.id).label("id")).group_by(column)
    several = first.where(column.is_not(None)).having(func.count() > 1).subquery()
    query = select(column.table.c.id, column.label("value")).join(several, several.c.value == column)
    return query.where(column.table.c.id != several.c.id)


def yield_violations(
    tx: Tx, invariant: str, object_type: str, query: Select[Any], sentence: str
) -> Iterator[Violation]:
    """Yield a violation for each row of a query, whose column `id` is the object's id.

    `sentence` is a template with names of the query's columns in braces.
    """
    for row in tx.connection.execute(query.execution_options(**STREAMED)).mappings():
        yield Violation(invariant, object_type, row["id"], sentence.format_map(row))
