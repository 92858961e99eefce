"""The pages of a list without filters: two statements that are built once."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Select, bindparam, tuple_

from sublet.db.model import Tx
from sublet.db.statements import Prepared
from sublet.ids import Position


class Pages:
    """A list from newest to oldest; `query` selects all of it, with its `bindparam`s, in no order.

    A filtered list is composed at the call instead, with `schema.older` for the rows after a position.
    """

    def __init__(self, query: Select[Any], at: Column[Any], row_id: Column[Any]) -> None:
        page = query.order_by(at.desc(), row_id.desc()).limit(bindparam("limit"))
        place = tuple_(bindparam("after_at", type_=at.type), bindparam("after_id", type_=row_id.type))
        self._first = Prepared(page)
        self._next = Prepared(page.where(tuple_(at, row_id) < place))

    def rows(self, tx: Tx, limit: int, after: Position | None, **parameters: object) -> Sequence[Any]:
        """Return the next `limit` rows after a position, or the newest ones for None."""
        if after is None:
            return self._first.all(tx, limit=limit, **parameters)
        return self._next.all(tx, limit=limit, after_at=after.at, after_id=after.id, **parameters)
