"""The page of the API reference: the same for all browsers, rendered and compressed once."""

import gzip
from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response

from sublet.http.errors import accepted_request_id
from sublet.ids import new_request_id


def reference_page(html: str, headers: Mapping[str, str]) -> Callable[[Request], Awaitable[Response]]:
    """Return the handler of the page. Compression is safe here (no BREACH attack), because the page has no data of a session."""
    body = html.encode()
    compressed = gzip.compress(body, mtime=0)

    async def answer(request: Request) -> Response:
        is_compressed = "gzip" in request.headers.get("accept-encoding", "")
        response = Response(
            compressed if is_compressed else body,
            media_type="text/html",
            headers={**headers, "vary": "accept-encoding"},
        )
        if is_compressed:
            response.headers["content-encoding"] = "gzip"
        response.headers["x-request-id"] = (
            accepted_request_id(request.headers.get("x-request-id")) or new_request_id()
        )
        return response

    return answer
