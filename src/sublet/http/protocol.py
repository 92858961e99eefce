"""One connection of HTTP/1.1 (RFC 9112): how large a head may be, how slow a client, how many there may be at once.

What isn't HTTP, or could be read in two ways by us and by a proxy before us, is refused here, in the envelope of every refusal, and
its connection is closed: two lengths, a length with chunks, bare LF (those by the parser), two hosts, an absolute URI.
"""

import asyncio
import re
from functools import partial
from typing import Any, NoReturn

import httptools
import structlog
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from sublet.errors import InvalidRequest, Refusal, Unavailable
from sublet.http.errors import render_refusal
from sublet.http.security_headers import SECURITY_HEADERS
from sublet.http.whole_answer import EXTENSION, write_whole
from sublet.ids import new_request_id

log = structlog.get_logger()
URI_MAX_BYTES = 16 * 1024
"""Most octets of a request's target; RFC 9110, section 4.1, asks for 8,000 at least."""
HEAD_MAX_BYTES = 32 * 1024
"""Most octets of request line and header fields together; the parser itself would gather them without end."""
HEAD_SECONDS = 10.0
"""How long a client may take for a request's head, from connecting or from the head's first octet."""
BODY_SECONDS = 30.0
"""How long it may take for the rest of a message that nobody waits for; `json_body` gives bodies that count less."""
SEND_SECONDS = 20.0
"""How long it may leave an answer untaken that is larger than what the system holds for it."""
CONNECTIONS_MAX = 1000
"""Most connections at once, where nobody says otherwise."""
FULL_TOLD_SECONDS = 60.0
"""How often the log has it at most that there are too many connections."""
AHEAD_MAX = 64
"""Most requests that a connection may have sent ahead of the one that is being answered: what came is parsed all at once."""
_CONTROL = re.compile(rb"%(?:[01][0-9a-f]|7f)", re.IGNORECASE)
_HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]*)(?::[0-9]{0,5})?")
"""A host name, an address, or nothing, with or without a port (RFC 9110, section 7.2). Names of containers have underscores."""


class Connections(ServerState):
    """What all connections share.

    `waiting` are those that wait for their client, longest first: none of them has a request that is being answered. `draining` tells
    that each connection is to end with its next answer, `emptied` is set when the last one ends.
    """

    def __init__(self, most: int = CONNECTIONS_MAX) -> None:
        super().__init__()
        self.most = most
        self.waiting: dict[BoundedProtocol, None] = {}
        self.draining = False
        self.emptied = asyncio.Event()
        self._told_at: float | None = None

    def tell_full(self, now: float) -> None:
        """Log that there are too many connections, now and then."""
        if self._told_at is None or now - self._told_at >= FULL_TOLD_SECONDS:
            self._told_at = now
            log.warning("connections_full", connections_max=self.most)


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with bounds on a head's size, deadlines for slow clients, and refusals in our envelope.

    Where there are as many connections as there may be, one that waits longest for its client gives way to a new one: whoever holds
    connections without asking anything loses them first. Where all of them are being answered the new one is refused.
    """

    server_state: Connections

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_head = True
        self._fed_bytes = 0
        """Octets received since the head began: bounds a field that never ends, which no callback tells of."""
        self._head_bytes = 0
        self._untold_bytes = 0
        """Octets received since the parser last gave a part of a body: bounds trailers and what else follows a head."""
        self._refused_as: tuple[int, str] | None = None
        """The status and the sentence for what the parser was stopped at, where we stopped it."""
        self._deadline: asyncio.TimerHandle | None = None
        self._sending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head, if there is a place."""
        super().connection_made(transport)
        state = self.server_state
        if len(self.connections) > state.most:
            state.tell_full(self.loop.time())
            longest = next(iter(state.waiting), None)
            if longest is None:
                refusal = Unavailable(
                    "There are too many connections; try again shortly.", retry_after_seconds=1
                )
                self._answer_and_close(refusal, 503)
                return
            longest.give_way()
        state.waiting[self] = None
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadlines."""
        self._cancel_deadline()
        self._cancel_sending()
        self.server_state.waiting.pop(self, None)
        super().connection_lost(exc)
        if not self.connections:
            self.server_state.emptied.set()

    def give_way(self) -> None:
        """End at once for another connection."""
        self.server_state.waiting.pop(self, None)
        self.connections.discard(self)  # its end is told later, and its place is taken now
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Feed the parser, by pieces: a head without end is refused before all that came of it is parsed."""
        for start in range(0, len(data), HEAD_MAX_BYTES):
            self._feed(data[start : start + HEAD_MAX_BYTES])

    def _feed(self, data: bytes) -> None:
        """Feed the parser; then see to the bounds of a message that isn't complete."""
        if self.transport.is_closing():
            return  # the request is refused, and nothing reads what else the client sends
        was_in_head = self._in_head
        if was_in_head:
            self._fed_bytes += len(data)
        self._untold_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            self._cancel_deadline()
        elif (self._fed_bytes if self._in_head else self._untold_bytes) > HEAD_MAX_BYTES:
            self._refused_as = _HEAD_TOO_LARGE
            self.send_400_response("")
        elif self._in_head and not self._fed_bytes:
            self._cancel_deadline()  # between messages, where uvicorn's keep-alive timer runs
        elif self._deadline is None or was_in_head != self._in_head:
            self._cancel_deadline()
            seconds = HEAD_SECONDS if self._in_head else BODY_SECONDS
            self._deadline = self.loop.call_later(seconds, self._too_slow)

    def on_message_begin(self) -> None:
        """Begin to count the head."""
        super().on_message_begin()
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Count a part of the request line."""
        self._count(len(url))
        super().on_url(url)
        if len(self.url) > URI_MAX_BYTES:
            self._refuse(414, f"Path and query may have {URI_MAX_BYTES} bytes together.")

    def on_headers_complete(self) -> None:
        """Leave the head, once it can be read in one way only."""
        self._check_head()
        if len(self.pipeline) >= AHEAD_MAX:
            self._refuse(400, f"Wait for answers: a connection may send {AHEAD_MAX} requests ahead.")
        self._in_head = False
        self._untold_bytes = 0
        under_way: RequestResponseCycle | None = self.cycle
        super().on_headers_complete()
        self.scope["extensions"] = {EXTENSION: partial(write_whole, self.cycle)}  # type: ignore[dict-item] # ours is no dict
        self.server_state.waiting.pop(self, None)
        if self.server_state.draining:
            if under_way is not None and not under_way.response_started:
                under_way.keep_alive = True  # of requests that were sent ahead the last one's answer closes
            self.cycle.keep_alive = False

    def drain(self) -> None:
        """Have the answer that is under way say `Connection: close`; where its head is sent already, the next one will."""
        under_way: RequestResponseCycle | None = self.cycle
        if under_way is not None and not under_way.response_started:
            under_way.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Take in a part of the body, which the application counts."""
        self._untold_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the next head."""
        self._in_head = True
        self._fed_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the client again, where it has sent nothing ahead; one that closes has so long to take its answer."""
        under_way: RequestResponseCycle = self.cycle
        super().on_response_complete()
        if self.transport.is_closing():
            self._wait_to_be_taken()
        elif under_way.response_complete:
            self.server_state.waiting[self] = None

    def pause_writing(self) -> None:
        """Begin to wait for a client that doesn't take its answer."""
        super().pause_writing()
        self._wait_to_be_taken()

    def resume_writing(self) -> None:
        """Go on, since it was taken."""
        super().resume_writing()
        if not self.transport.is_closing():
            self._cancel_sending()

    def timeout_keep_alive_handler(self) -> None:
        """End a connection on which nothing came for long."""
        super().timeout_keep_alive_handler()
        self._wait_to_be_taken()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the parser's sentence is for nobody
        """Refuse what isn't HTTP, or whose head is too large, and close."""
        self._cancel_deadline()
        under_way: RequestResponseCycle | None = self.cycle  # None before the first request
        if under_way is not None and not under_way.response_complete:
            # An answer is under way, and a second one must not get into it. A whole request gets its own, which closes.
            if under_way.more_body:
                self.transport.close()
                self._wait_to_be_taken()
            else:
                under_way.keep_alive = False
                self.flow.pause_reading()
            return
        status, sentence = self._refused_as or _UNREADABLE
        request_id = self._answer_and_close(InvalidRequest(sentence), status)
        log.info("bad_request", request_id=request_id, status=status)

    def _answer_and_close(self, refusal: Refusal, status: int) -> str:
        request_id = new_request_id()
        _, headers, body = render_refusal(refusal, request_id)
        body += b"\n"
        headers |= {"content-length": str(len(body)), "connection": "close", "x-request-id": request_id}
        headers |= SECURITY_HEADERS
        lines = [
            STATUS_LINE[status],
            *(f"{name}: {value}\r\n".encode("latin-1") for name, value in headers.items()),
        ]
        self.transport.write(b"".join([*lines, b"\r\n", body]))
        self.transport.close()
        self._wait_to_be_taken()
        return request_id

    def _check_head(self) -> None:
        """Refuse a head that is too large, or that two readers could take for two requests, or whose path no resource of ours can have."""
        # One by one they are not counted: what is fed without coming to a head's end is bounded in `data_received`.
        self._count(sum([len(name) + len(value) + 4 for name, value in self.headers]))
        version = self.parser.get_http_version()
        names = [name for name, _ in self.headers]
        if version not in ("1.0", "1.1"):
            self._refuse(*_UNREADABLE)
        if names.count(b"host") > 1 or (version == "1.1" and b"host" not in names):
            self._refuse(400, "A request in HTTP/1.1 has the header Host, once.")
        if not all(_HOST.fullmatch(value) for name, value in self.headers if name == b"host"):
            self._refuse(400, "Send the header Host as a host name or an address, with or without a port.")
        if version == "1.0" and b"transfer-encoding" in names:
            self._refuse(400, "Transfer-Encoding is no header of HTTP/1.0.")
        path = self.url.partition(b"?")[0]
        if not path.startswith(b"/") and self.url != b"*":
            self._refuse(400, "Send the path alone in the request line: this is no proxy.")
        if b"#" in self.url:
            self._refuse(400, "A fragment (`#`) is not part of a request.")
        if b"//" in path:
            self._refuse(400, "The path has an empty segment (`//`).")
        if _CONTROL.search(path):
            self._refuse(400, "The path has a control character.")

    def _count(self, octets: int) -> None:
        self._head_bytes += octets
        if self._head_bytes > HEAD_MAX_BYTES:
            self._refuse(*_HEAD_TOO_LARGE)

    def _refuse(self, status: int, sentence: str) -> NoReturn:
        """Stop the parser; `send_400_response` then tells why."""
        self._refused_as = (status, sentence)
        raise httptools.HttpParserError(sentence)

    def _too_slow(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()
            self._wait_to_be_taken()

    def _wait_to_be_taken(self) -> None:
        """Let what is written be taken for so long, then end the connection whatever was."""
        if self._sending is None:
            self._sending = self.loop.call_later(SEND_SECONDS, self.transport.abort)

    def _cancel_sending(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


_UNREADABLE = (
    400,
    "This is not a request in HTTP/1.1 that can be read; percent-encode path and query, and use a usual method.",
)
_HEAD_TOO_LARGE = (431, f"Request line and header fields may have {HEAD_MAX_BYTES} bytes together.")
