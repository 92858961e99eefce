"""Pages of lists: `limit` and `cursor` in, `page` and a `Link` header out (docs/spec-choices.md, "Values")."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

from sublet.http.endpoints import Call
from sublet.http.shapes import PageShape
from sublet.ids import Position, decode_cursor, encode_cursor

Item = TypeVar("Item")


def position_of(call: Call[Any, Any], list_name: str) -> Position | None:
    """Return where the page starts: after the cursor's position, or None at the list's beginning.

    Raises:
        InvalidCursor: the cursor is not one of this list.
    """
    return decode_cursor(list_name, call.query.cursor) if call.query.cursor is not None else None


def make_page(
    call: Call[Any, Any], list_name: str, found: Sequence[Item], position: Callable[[Item], Position]
) -> tuple[Sequence[Item], PageShape, dict[str, str]]:
    """Return the page's items, its `page` member and the headers, from one item more than the limit asked for."""
    limit = call.query.limit
    items = found[:limit]
    has_more = len(found) > limit
    cursor = encode_cursor(list_name, position(items[-1])) if has_more else None
    headers = {}
    if cursor is not None:
        sent = [pair for pair in parse_qsl(call.query_string) if pair[0] not in ("cursor", "limit")]
        query = urlencode([*sent, ("limit", limit), ("cursor", cursor)])
        headers["link"] = f'<{call.request_path}?{query}>; rel="next"'
    return items, PageShape(limit=limit, next_cursor=cursor, has_more=has_more), headers
