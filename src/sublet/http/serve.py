"""Serve the application over HTTP: uvicorn in the running loop, on a socket that is ours, stopped by its caller."""

import asyncio
import socket
from typing import Any

import httptools
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_MAX_BYTES = 32 * 1024
"""Longest request line and headers together; the parser itself has no limit."""
GRACE_SECONDS = 10


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with a bound on a request's head, so that one connection can't fill the memory."""

    _head_bytes = 0

    def on_message_begin(self) -> None:
        """Start counting a request's head."""
        self._head_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count the request line."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header."""
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def _count(self, size_bytes: int) -> None:
        self._head_bytes += size_bytes
        if self._head_bytes > HEAD_MAX_BYTES:
            raise httptools.HttpParserError("the request's head is too long")


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 picks a free one.

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
    listening.listen(2048)
    return listening


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers: the process that holds all parts decides when to stop."""

    def capture_signals(self) -> Any:
        """Leave the signals to the caller."""
        return _Nothing()


class _Nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *_error: object) -> None: ...


async def serve_http(app: ASGIApp, listening: socket.socket, stop: asyncio.Event) -> None:
    """Answer requests until `stop` is set; then take no new ones and finish those in flight, within `GRACE_SECONDS`."""
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE_SECONDS,
        backlog=2048,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    server.should_exit = True
    await serving
