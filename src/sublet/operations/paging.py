"""Pages of lists: the parameters `limit` and `cursor`, the member `page`, the header `Link` (docs/spec-choices.md, "Values")."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

from sublet.db import Pages, Tx
from sublet.ids import Position, decode_cursor, encode_cursor
from sublet.operations.call import Call
from sublet.operations.shapes import PageShape

Item = TypeVar("Item")
Shape = TypeVar("Shape")


async def read_page(
    call: Call[Any, Any],
    list_name: str,
    find: Callable[[Tx, int, Position | None], Iterable[tuple[Position, Shape]]],
) -> tuple[list[Shape], PageShape, dict[str, str]]:
    """Return the rendered items of a page, its `page` member and its headers.

    `find(tx, limit, after)` returns up to `limit` rendered items with their positions, from the first position after `after`, or from the
    start of the list if `after` is None. Its `limit` is one more than the page's. `find` runs in a thread, so it doesn't block the event loop.

    Raises:
        InvalidCursor: the cursor doesn't belong to this list.
    """
    after = _after(call, list_name)

    def read(tx: Tx) -> list[tuple[Position, Shape]]:
        return list(find(tx, call.query.limit + 1, after))

    return _page(call, list_name, await call.context.db.read(read))


async def fetch_page(
    call: Call[Any, Any],
    list_name: str,
    pages: Pages[Item],
    render: Callable[[Item], tuple[Position, Shape]],
    **parameters: object,
) -> tuple[list[Shape], PageShape, dict[str, str]]:
    """Return what `read_page` returns, but for a list that a single query reads by an index. The event loop sends the query and renders the items.

    Raises:
        InvalidCursor: the cursor doesn't belong to this list.
    """
    query, values = pages.next_query(call.query.limit + 1, _after(call, list_name))
    found = await call.context.db.fetch(query, **values, **parameters)
    return _page(call, list_name, [render(each) for each in found])


def _after(call: Call[Any, Any], list_name: str) -> Position | None:
    return decode_cursor(list_name, call.query.cursor) if call.query.cursor is not None else None


def _page(
    call: Call[Any, Any], list_name: str, found: list[tuple[Position, Shape]]
) -> tuple[list[Shape], PageShape, dict[str, str]]:
    """Return a page of the found items. If there are more items than its limit, another page follows."""
    limit = call.query.limit
    items, has_more = found[:limit], len(found) > limit
    cursor = encode_cursor(list_name, items[-1][0]) if has_more else None
    headers = {}
    if cursor is not None:
        sent = [pair for pair in parse_qsl(call.query_string) if pair[0] not in ("cursor", "limit")]
        query = urlencode([*sent, ("limit", limit), ("cursor", cursor)])
        headers["link"] = f'<{call.request_path}?{query}>; rel="next"'
    page = PageShape(limit=limit, next_cursor=cursor, has_more=has_more)
    return [shape for _, shape in items], page, headers
