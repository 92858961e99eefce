"""An answer written in one piece: its head and its body at once, by the protocol of our server.

Of an answer in two messages, as ASGI has it, uvicorn looks through each header field with two expressions: a tenth of a read, and ours are the same
nearly each time.
"""

from collections.abc import Awaitable, Callable, Mapping

from starlette.types import Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from sublet.http.security_headers import ENCODED, FIELDS

EXTENSION = "sublet.whole_answer"
"""The name in a scope's `extensions` under which a server has its `WriteWhole` for the request."""
WriteWhole = Callable[[int, bytes, bytes, bool], Awaitable[None]]
"""Writes status, header fields as they stand on the wire, and body (none for HEAD), and completes the answer; the last tells that they say `Connection: close`."""


async def send_answer(scope: Scope, send: Send, status: int, headers: Mapping[str, str], body: bytes) -> None:
    """Send an answer, whole where the server can, with `SECURITY_HEADERS`.

    `headers` have lower-case names and a right `content-length`; each has one line, which is checked.
    """
    body = b"" if scope["method"] == "HEAD" else body
    write = scope.get("extensions", {}).get(EXTENSION)
    if write is not None:
        await write(status, _fields(headers), body, headers.get("connection") == "close")
        return
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw + ENCODED})
    await send({"type": "http.response.body", "body": body})


def _fields(headers: Mapping[str, str]) -> bytes:
    fields = "".join([f"{name}: {value}\r\n" for name, value in headers.items()]).encode("latin-1")
    if fields.count(b"\n") != len(headers) or fields.count(b"\r") != len(headers):
        raise ValueError("a header field has more than one line")
    return fields + FIELDS


async def write_whole(
    cycle: RequestResponseCycle,
    status: int,
    fields: bytes,
    body: bytes,
    closes: bool,  # noqa: FBT001 - a WriteWhole
) -> None:
    """Be a `WriteWhole` of one request: all that uvicorn's `send` does for an answer of two messages whose length is told."""
    # The scope refers to this function, and this function to the cycle. Without this line each request waits for the garbage
    # collector, whose pauses grow from 10 to 60 ms under full load.
    cycle.scope["extensions"] = {}
    if cycle.flow.write_paused and not cycle.disconnected:
        await cycle.flow.drain()
    if cycle.disconnected:
        return
    if cycle.response_started:
        raise RuntimeError("the request was answered already")
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    if closes:
        cycle.keep_alive = False
    elif not cycle.keep_alive:
        fields += b"connection: close\r\n"
    cycle.transport.write(
        b"".join((STATUS_LINE[status], _COMMON.written(cycle.default_headers), fields, b"\r\n", body))
    )
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()


class _Common:
    """The fields that uvicorn gives each answer: it makes a new list of them once a second, for the date."""

    def __init__(self) -> None:
        self._fields: list[tuple[bytes, bytes]] = []
        self._written = b""

    def written(self, fields: list[tuple[bytes, bytes]]) -> bytes:
        """Return them as they stand on the wire."""
        if fields is not self._fields:
            self._fields = fields
            self._written = b"".join([b"%b: %b\r\n" % each for each in fields])
        return self._written


_COMMON = _Common()
