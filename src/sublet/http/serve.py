"""Serve the application over HTTP: uvicorn in the running loop, on a socket that is ours, stopped by its caller."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

from sublet.http.protocol import CONNECTIONS_MAX, BoundedProtocol, Connections

KEEP_ALIVE_SECONDS = 30
DRAIN_SECONDS = 5.0
"""How long kept connections stay open for one more request each once the process is to end."""
GRACE_SECONDS = 10
"""How long requests that are under way after that may take."""
BACKLOG = 2048


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers (the process that holds all parts decides when to stop), which drains first.

    uvicorn closes idle connections at once, whether their clients have just sent the next request or not; that request would be
    lost, and the client couldn't know whether it was done. Here an idle connection is kept for one more request, whose answer
    says `Connection: close`.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        connections_max: int,
        drain_seconds: float,
        on_listening: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._drain_seconds = drain_seconds
        self._on_listening = on_listening
        self.server_state: Connections = Connections(connections_max)

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
    connections_max: int = CONNECTIONS_MAX,
    drain_seconds: float | None = None,
    on_listening: Callable[[], None] = lambda: None,
) -> None:
    """Answer requests until `stop` is set; then take no new connections, and end those there are.

    Of `connections_max` connections one that asks nothing gives way to the next (`BoundedProtocol`). `on_listening` is told once no connection is refused any more.

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
    seconds = DRAIN_SECONDS if drain_seconds is None else drain_seconds
    server = _Server(config, connections_max, seconds, on_listening)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    server.should_exit = True
    await serving
