"""Serve an ASGI application with uvicorn on a given socket, and drain it at the end.

uvicorn doesn't limit the time for a request's head, the head's size, or how many requests a client pipelines on one connection. The
proxy in `deploy/nginx/` does (docs/operating/proxy.md).
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

KEEP_ALIVE_SECONDS = 30
DRAIN_SECONDS = 5.0
"""How long idle connections stay open for one more request when the process stops."""
DRAIN_CHECK_SECONDS = 0.02
GRACE_SECONDS = 10
"""How long requests may still take after the drain, before they are cancelled."""
BACKLOG = 2048
CONNECTIONS_MAX = 1000


class _Server(uvicorn.Server):
    """A uvicorn server that its caller stops, not a signal. Then it keeps idle connections open for one more request.

    Without the drain uvicorn closes idle connections at once, and a request that a client has just sent on one is lost.
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
        """Refuse new connections, wait until the clients have closed theirs or the drain is over, then stop."""
        for server in self.servers:
            server.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._drain_seconds):
                while self.server_state.connections:  # noqa: ASYNC110 - uvicorn has no event for it
                    await asyncio.sleep(DRAIN_CHECK_SECONDS)
        await super().shutdown(sockets)


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that is bound but doesn't listen: clients are refused until `serve_http` begins. Port 0 picks a free one.

    Raises:
        OSError: the address is in use or isn't an address of this host.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets with this protocol number. Without it the second segment of an answer waits for the
    # client's delayed acknowledgement, 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError:
        listening.close()
        raise
    return listening


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket: clients wait in its queue until `serve_http` begins. Port 0 picks a free one.

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
    """Answer requests until `stop` is set, then drain. Calls `on_listening` once clients are accepted.

    While there are more than `connections_max` connections, requests are answered with 503. From `stop` on new connections are
    refused and each answer says `Connection: close`. The drain ends when no connection is left, or after `drain_seconds`
    (`DRAIN_SECONDS`). Requests that are then under way get `GRACE_SECONDS`; after that they are cancelled, but what the database
    already accepted is still written.

    Raises:
        OSError: another process listens on the address.
    """

    async def draining(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_closing(message: Message) -> None:
            if stop.is_set() and message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        await app(scope, receive, send_closing)

    config = uvicorn.Config(
        draining,
        http="httptools",
        ws="none",
        interface="asgi3",
        lifespan="off",
        log_config=None,
        log_level="error",  # a warning for each malformed request would flood the log
        access_log=False,
        proxy_headers=False,  # `client_address.py` reads X-Forwarded-For, from trusted proxies only
        server_header=False,
        backlog=BACKLOG,
        # uvicorn answers 503 when the number of connections, with the one of the request, reaches the limit.
        limit_concurrency=connections_max + 1,
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
