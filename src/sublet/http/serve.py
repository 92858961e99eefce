"""Serve an ASGI application with uvicorn on a given socket, and drain its connections when it stops.

uvicorn doesn't limit the time for a request's head, the size of the head, or the requests that a client
pipelines on a connection. The proxy in `deploy/nginx/` does (docs/operating/proxy.md).
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator

import uvicorn
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sublet.errors import InvalidRequest, Refusal, Unavailable
from sublet.http.errors import render_refusal
from sublet.http.security_headers import SECURITY_HEADERS
from sublet.ids import new_request_id

KEEP_ALIVE_SECONDS = 30
DRAIN_SECONDS = 5.0
"""The time for which idle connections stay open for a last request while the process stops."""
DRAIN_CHECK_SECONDS = 0.02
GRACE_SECONDS = 10
"""The time after the drain in which running requests may end before they are cancelled."""
BACKLOG = 2048
CONNECTIONS_MAX = 1000


class _Connection(HttpToolsProtocol):
    """A connection that answers what isn't HTTP in the envelope, because all responses are JSON (part 1 of
    the contract, rule 2), and that ignores trailers.

    uvicorn has no settings for this. `tests/http/test_heads.py` fails if another version of it calls other
    methods.
    """

    def on_headers_complete(self) -> None:
        """Begin the request. The trailers after its body go to a list that is never read.

        Otherwise a client could add headers that only the proxy may set, such as `X-Forwarded-For` (RFC 9110,
        section 6.5.1).
        """
        super().on_headers_complete()
        self.headers = []

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's sentence for all malformed requests
        """Refuse the request, and close the connection."""
        refused = _refused(
            InvalidRequest(
                "This is not a request in HTTP/1.1 that can be read. Percent-encode path and query, and use "
                "a usual method."
            )
        )
        fields = [*self.server_state.default_headers, *refused.raw_headers]
        lines = b"".join(b"%s: %s\r\n" % each for each in fields)
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\n" + lines + b"\r\n" + bytes(refused.body))
        self.transport.close()


def _refused(refusal: Refusal) -> Response:
    """Return the answer to a request that the application doesn't get. It closes the connection."""
    request_id = new_request_id()
    status, headers, body = render_refusal(refusal, request_id)
    headers |= {"x-request-id": request_id, "connection": "close", **SECURITY_HEADERS}
    return Response(body + b"\n", status, headers)


class _Server(uvicorn.Server):
    """A uvicorn server that its caller stops, not a signal.

    While it stops, idle connections stay open for a last request.

    Without this drain uvicorn closes idle connections at once, and loses requests that clients have just
    sent.
    """

    def __init__(
        self, config: uvicorn.Config, drain_seconds: float, on_listening: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._drain_seconds = drain_seconds
        self._on_listening = on_listening

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the caller."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then call `on_listening`."""
        await super().startup(sockets)
        self._on_listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Refuse new connections, wait until all connections are closed or the drain has timed out, then
        stop.
        """
        for server in self.servers:
            server.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._drain_seconds):
                while self.server_state.connections:  # noqa: ASYNC110 - uvicorn has no event for closed connections
                    await asyncio.sleep(DRAIN_CHECK_SECONDS)
        await super().shutdown(sockets)


def bind(host: str, port: int) -> socket.socket:
    """Return a bound socket that doesn't listen, so clients are refused until `serve_http` starts.

    Port 0 picks a free port.

    Raises:
        OSError: the address is in use or isn't an address of this host.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets with this protocol number. Without TCP_NODELAY the second
    # segment of an answer waits up to 40 ms for the client's delayed acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError:
        listening.close()
        raise
    return listening


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Clients wait in its queue until `serve_http` starts. Port 0 picks a free port.

    Raises:
        OSError: the address is in use or isn't an address of this host.
    """
    listening = bind(host, port)
    try:
        listening.listen(BACKLOG)
    except OSError:  # another process began to listen after `bind`
        listening.close()
        raise
    return listening


async def serve_http(
    app: ASGIApp,
    listening: socket.socket,
    stop: asyncio.Event,
    *,
    connections_max: int = CONNECTIONS_MAX,
    drain_seconds: float | None = None,
    on_listening: Callable[[], None] = lambda: None,
) -> None:
    """Answer requests until `stop` is set, then drain. Calls `on_listening` once it accepts clients.

    Answers 503 while there are more than `connections_max` connections. After `stop` it refuses new
    connections, and each answer has `Connection: close`. The drain ends once all connections are closed, or
    after `drain_seconds` (default: `DRAIN_SECONDS`). Requests that still run are cancelled after
    `GRACE_SECONDS`; a write that the database has accepted still takes effect.

    Raises:
        OSError: another process listens on the address.
    """

    async def draining(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_closing(message: Message) -> None:
            if stop.is_set() and message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        state = server.server_state
        if max(len(state.connections), len(state.tasks)) > connections_max:
            await _refused(Unavailable("The service has too many connections. Try again in a moment."))(
                scope, receive, send
            )
        else:
            await app(scope, receive, send_closing)

    config = uvicorn.Config(
        draining,
        http=_Connection,
        ws="none",
        interface="asgi3",
        lifespan="off",
        log_config=None,
        log_level="error",  # uvicorn logs a warning for each malformed request, which would flood the log
        access_log=False,
        proxy_headers=False,  # `operations/client.py` reads X-Forwarded-For, from trusted proxies only
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    seconds = DRAIN_SECONDS if drain_seconds is None else drain_seconds
    server = _Server(config, seconds, on_listening)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    server.should_exit = True
    await serving
