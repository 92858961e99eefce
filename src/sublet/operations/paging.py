"""Pages of lists: the parameters `limit` and `cursor`, the member `page`, the header `Link`
(docs/spec-choices.md, "Values").
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl, urlencode

from sublet.ids import Position, decode_cursor, encode_cursor
from sublet.operations.call import Call
from sublet.operations.shapes import PageShape

ShapeT = TypeVar("ShapeT")


class Paging(Generic[ShapeT]):
    """The page of a list that a call asks for.

    The list shall have up to `limit` items from the first position after `after`, or from its start if
    `after` is None. `limit` is one more than the page's, so that `take` sees whether another page follows.

    Raises:
        InvalidCursor: the cursor doesn't belong to this list.
    """

    def __init__(self, call: Call[Any, Any], list_name: str) -> None:
        self._call = call
        self._list_name = list_name
        self.limit: int = call.query.limit + 1
        cursor = call.query.cursor
        self.after: Position | None = decode_cursor(list_name, cursor) if cursor is not None else None

    def take(
        self, found: Iterable[tuple[Position, ShapeT]]
    ) -> tuple[list[ShapeT], PageShape, dict[str, str]]:
        """Return the items of the page, its `page` member and its headers, of a list's items with their
        positions.
        """
        limit = self.limit - 1
        listed = list(islice(found, self.limit))
        items, has_more = listed[:limit], len(listed) > limit
        cursor = encode_cursor(self._list_name, items[-1][0]) if has_more else None
        headers = {}
        if cursor is not None:
            sent = [pair for pair in parse_qsl(self._call.query_string) if pair[0] not in ("cursor", "limit")]
            query = urlencode([*sent, ("limit", limit), ("cursor", cursor)])
            headers["link"] = f'<{self._call.request_path}?{query}>; rel="next"'
        return [shape for _, shape in items], PageShape(limit, cursor, has_more), headers
