"""Pages of lists without filters. The two statements of a list are built once."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from sqlalchemy import Column, Select, bindparam, tuple_

from sublet.db.model import Tx
from sublet.db.statements import Query, Rows
from sublet.ids import Position

R = TypeVar("R")


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
