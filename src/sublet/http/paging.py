"""Pages of lists: `limit` and `cursor` in, `page` and a `Link` header out (docs/spec-choices.md, "Values")."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

from sublet.db import Tx
from sublet.http.endpoints import Call
from sublet.http.shapes import PageShape
from sublet.ids import Position, decode_cursor, encode_cursor
from sublet.processors import let_others_go_first

Shape = TypeVar("Shape")


async def read_page(
    call: Call[Any, Any],
    list_name: str,
    find: Callable[[Tx, int, Position | None], Iterable[tuple[Position, Shape]]],
) -> tuple[list[Shape], PageShape, dict[str, str]]:
    """Return a page's items as the wire shows them, its `page` member and the headers.

    `find` gives at most so many items that come after a position (from the beginning on for None), each with its own. It is asked
    for one more than the page has, and shapes them where it reads them: the event loop would answer nobody else meanwhile.

    Raises:
        InvalidCursor: the cursor is not one of this list.
    """
    limit = call.query.limit
    after = decode_cursor(list_name, call.query.cursor) if call.query.cursor is not None else None

    def read(tx: Tx) -> list[tuple[Position, Shape]]:
        return list(let_others_go_first(find(tx, limit + 1, after)))

    found = await call.context.db.read(read)
    items = found[:limit]
    has_more = len(found) > limit
    cursor = encode_cursor(list_name, items[-1][0]) if has_more else None
    headers = {}
    if cursor is not None:
        sent = [pair for pair in parse_qsl(call.query_string) if pair[0] not in ("cursor", "limit")]
        query = urlencode([*sent, ("limit", limit), ("cursor", cursor)])
        headers["link"] = f'<{call.request_path}?{query}>; rel="next"'
    page = PageShape(limit=limit, next_cursor=cursor, has_more=has_more)
    return [shape for _, shape in items], page, headers
