"""The pages of a list as it is asked for mostly, without filters: two statements that are built once."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Select, bindparam, tuple_

from sublet.db.model import Tx
from sublet.db.prepared import Prepared
from sublet.ids import Position


class Pages:
    """A list from newest to oldest; `query` selects all of it, with its `bindparam`s, in no order.

    Building such a statement at each call, and having SQLAlchemy run it, was most of the time of a short page
    (docs/decisions/0010-prepared-statements.md). A list that somebody filters is composed at the call, with `schema.older` for what
    follows a position here: `older` takes values, and this the names of parameters.
    """

    def __init__(self, query: Select[Any], at: Column[Any], row_id: Column[Any]) -> None:
        page = query.order_by(at.desc(), row_id.desc()).limit(bindparam("limit"))
        place = tuple_(bindparam("after_at", type_=at.type), bindparam("after_id", type_=row_id.type))
        self._first = Prepared(page)
        self._next = Prepared(page.where(tuple_(at, row_id) < place))

    def rows(self, tx: Tx, limit: int, after: Position | None, **parameters: object) -> Sequence[Any]:
        """Return at most so many rows that come after a position, from the newest on for None; each is made of what the driver gave when it is asked for."""
        if after is None:
            return self._first.all(tx, limit=limit, **parameters)
        return self._next.all(tx, limit=limit, after_at=after.at, after_id=after.id, **parameters)
