"""Serve the application over HTTP: uvicorn in the running loop, on a socket that is ours, stopped by its caller."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import httptools
import structlog
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from sublet.errors import InvalidRequest
from sublet.http.errors import render_refusal
from sublet.ids import new_request_id

log = structlog.get_logger()
HEAD_MAX_BYTES = 32 * 1024
"""Most octets of request line and header fields together; the parser itself would gather them without end."""
HEAD_SECONDS = 10.0
"""How long a client may take for a request's head, from connecting or from the head's first octet."""
BODY_SECONDS = 30.0
"""How long it may take for the rest of a message that nobody waits for; `json_body` gives bodies that count less."""
KEEP_ALIVE_SECONDS = 30
DRAIN_SECONDS = 5.0
"""How long kept connections stay open for one more request each once the process is to end."""
GRACE_SECONDS = 10
"""How long requests that are under way after that may take."""
BACKLOG = 2048


class _State(ServerState):
    """What all connections share.

    `draining` tells that each connection is to end with its next answer, `emptied` is set when the last one ends.
    """

    def __init__(self) -> None:
        super().__init__()
        self.draining = False
        self.emptied = asyncio.Event()


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with a bound on the head's size, deadlines for slow clients, and refusals in our envelope."""

    server_state: _State

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_head = True
        self._fed_bytes = 0
        """Octets received since the head began: bounds a field that never ends, which no callback tells of."""
        self._head_bytes = 0
        self._untold_bytes = 0
        """Octets received since the parser last gave a part of a body: bounds trailers and what else follows a head."""
        self._too_large = False
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        self._cancel_deadline()
        super().connection_lost(exc)
        if not self.connections:
            self.server_state.emptied.set()

    def data_received(self, data: bytes) -> None:
        """Feed the parser; then see to the bounds of a message that isn't complete."""
        was_in_head = self._in_head
        if was_in_head:
            self._fed_bytes += len(data)
        self._untold_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            self._cancel_deadline()
        elif (self._fed_bytes if self._in_head else self._untold_bytes) > HEAD_MAX_BYTES:
            self._too_large = True
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

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header field."""
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Leave the head."""
        self._in_head = False
        self._untold_bytes = 0
        under_way: RequestResponseCycle | None = self.cycle
        super().on_headers_complete()
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

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the parser's sentence is for nobody
        """Refuse what isn't HTTP, or whose head is too large, and close."""
        self._cancel_deadline()
        under_way: RequestResponseCycle | None = self.cycle  # None before the first request
        if under_way is not None and not under_way.response_complete:
            # An answer is under way, and a second one must not get into it. A whole request gets its own, which closes.
            if under_way.more_body:
                self.transport.close()
            else:
                under_way.keep_alive = False
                self.flow.pause_reading()
            return
        sentence = "This is not a request in HTTP/1.1 that can be read; percent-encode path and query, and use a usual method."
        if self._too_large:
            sentence = f"Request line and header fields may have {HEAD_MAX_BYTES} bytes together."
        request_id = new_request_id()
        status, headers, body = render_refusal(InvalidRequest(sentence), request_id)
        lines = [STATUS_LINE[431 if self._too_large else status]]
        headers |= {"content-length": str(len(body)), "connection": "close", "x-request-id": request_id}
        lines += [f"{name}: {value}\r\n".encode("latin-1") for name, value in headers.items()]
        self.transport.write(b"".join([*lines, b"\r\n", body]))
        self.transport.close()
        log.info("bad_request", request_id=request_id, too_large=self._too_large)

    def _count(self, octets: int) -> None:
        self._head_bytes += octets
        if self._head_bytes > HEAD_MAX_BYTES:
            self._too_large = True
            raise httptools.HttpParserError("the request's head is too long")

    def _too_slow(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers (the process that holds all parts decides when to stop), which drains first.

    uvicorn closes idle connections at once, whether their clients have just sent the next request or not; that request would be
    lost, and the client couldn't know whether it was done. Here an idle connection is kept for one more request, whose answer
    says `Connection: close`.
    """

    def __init__(
        self, config: uvicorn.Config, drain_seconds: float, on_listening: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._drain_seconds = drain_seconds
        self._on_listening = on_listening
        self.server_state: _State = _State()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and tell so."""
        await super().startup(sockets)
        self._on_listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no new connections, have those there are end by themselves for a while, then close them."""
        for server in self.servers:
            server.close()
        for listening in sockets or []:
            listening.close()
        state = self.server_state
        state.draining = True
        for connection in state.connections:
            if isinstance(connection, BoundedProtocol):
                connection.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._drain_seconds):
                while state.connections:
                    state.emptied.clear()
                    await state.emptied.wait()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the caller."""
        yield


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that has its address and does not listen: connections are refused until `serve_http` begins; port 0 picks a free one.

    Raises:
        OSError: the address is in use or not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets that say they are TCP; without it the second segment of an answer on a kept
    # connection waits for the client's delayed acknowledgement of the first, 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError:
        listening.close()
        raise
    return listening


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket, as `bind` does otherwise: connections wait in its queue from now on.

    Raises:
        OSError: the address is in use or not ours.
    """
    listening = bind(host, port)
    try:
        listening.listen(BACKLOG)
    except OSError:  # since its `bind` somebody else has come to listen
        listening.close()
        raise
    return listening


async def serve_http(
    app: ASGIApp,
    listening: socket.socket,
    stop: asyncio.Event,
    *,
    drain_seconds: float | None = None,
    on_listening: Callable[[], None] = lambda: None,
) -> None:
    """Answer requests until `stop` is set; then take no new connections, and end those there are.

    `on_listening` is told once no connection is refused any more.

    Each may send one more request within `drain_seconds` (`DRAIN_SECONDS`), which is answered with `Connection: close`; this ends at
    once where no connection is left. What is in flight then is finished within `GRACE_SECONDS`. What is not done by then is
    cancelled; what it gave the database to write is written all the same.

    Raises:
        OSError: somebody else listens there by now.
    """
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        interface="asgi3",
        lifespan="off",
        log_config=None,
        log_level="error",  # a line for everyone who doesn't speak HTTP is ours to write
        access_log=False,
        # uvicorn believes X-Forwarded-For of everyone on this host; `limits.client_address` asks for trusted proxies
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = _Server(config, DRAIN_SECONDS if drain_seconds is None else drain_seconds, on_listening)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    server.should_exit = True
    await serving
