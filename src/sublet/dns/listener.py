"""Receive DNS messages over UDP and TCP, and send their responses."""

import asyncio
import contextlib
import socket
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol, cast

from sublet.dns.query import QUERIES_AT_ONCE, QUERY_BYTES_MAX
from sublet.dns.tcp_server import TcpServer

UDP_QUERIES_MAX = 1000
"""The maximum number of UDP queries in progress. The server drops further queries; resolvers retry."""
_BIND_TRIES = 20


class Reply(Protocol):
    """Returns the responses to a batch of messages.

    None as a response sends nothing, and over TCP closes the connection.

    `hosts` are the source addresses of the messages, in the same order.
    """

    async def __call__(
        self, wires: Sequence[bytes], hosts: Sequence[str], /, *, over_tcp: bool
    ) -> list[bytes | None]:
        """Return the responses."""


class Listener:
    """Sockets on any number of addresses.

    `reply` answers the messages. Over TCP a message has at most `message_bytes_max` octets.

    Over UDP `reply` gets at most `udp_batch_max` messages at once, whose responses wait for each other. A
    listener that `is_shared` lets other processes of this user listen on the same address, and the kernel
    divides the clients.
    """

    def __init__(
        self,
        reply: Reply,
        *,
        message_bytes_max: int = QUERY_BYTES_MAX,
        udp_batch_max: int = QUERIES_AT_ONCE,
        is_shared: bool = False,
    ) -> None:
        self._reply = reply
        self._udp_batch_max = udp_batch_max
        self._is_shared = is_shared
        self._udp: list[_UdpEndpoint] = []
        self._tcp = TcpServer(partial(reply, over_tcp=True), message_bytes_max)

    async def start(self, host: str, port: int) -> int:
        """Listen on an IP address over UDP and TCP, and return the port.

        Port 0 chooses a port that is free for both.

        May be called for several addresses. An IPv6 address, also `::`, accepts no IPv4.

        Raises:
            OSError: the address can't be used.
        """
        loop = asyncio.get_running_loop()
        family, _, _, _, address = (await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))[0]
        tcp_socket, udp_socket = _bind_both(
            family, cast("tuple[Any, ...]", address), is_shared=self._is_shared
        )
        bound_port: int = tcp_socket.getsockname()[1]
        try:
            _, endpoint = await loop.create_datagram_endpoint(
                lambda: _UdpEndpoint(self._reply, self._udp_batch_max), sock=udp_socket
            )
            self._udp.append(endpoint)
            await self._tcp.listen(tcp_socket)
        except BaseException:
            tcp_socket.close()
            udp_socket.close()
            raise
        return bound_port

    async def close(self) -> None:
        """Stop listening, close all connections, and wait for their end.

        Messages in progress get no response.
        """
        await self._tcp.close()
        for endpoint in self._udp:
            await endpoint.close()
        self._udp.clear()


class _UdpEndpoint(asyncio.DatagramProtocol):
    """A UDP socket. Each task answers one batch, the queries that arrived before the task starts."""

    def __init__(self, reply: Reply, batch_max: int) -> None:
        self._reply = reply
        self._batch_max = batch_max
        self._tasks: set[asyncio.Task[None]] = set()
        self._next_batch: list[tuple[bytes, tuple[Any, ...]]] = []
        self._query_count = 0
        self._transport: asyncio.DatagramTransport | None = None
        self._closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def connection_lost(self, _error: Exception | None) -> None:
        if not self._closed.done():
            self._closed.set_result(None)

    def datagram_received(self, wire: bytes, address: tuple[Any, ...]) -> None:
        if self._query_count >= UDP_QUERIES_MAX:
            return
        self._query_count += 1
        if not self._next_batch or len(self._next_batch) == self._batch_max:
            self._next_batch = []
            task = asyncio.create_task(self._serve(self._next_batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._next_batch.append((wire, address))

    async def _serve(self, queries: list[tuple[bytes, tuple[Any, ...]]]) -> None:
        if queries is self._next_batch:
            self._next_batch = []
        try:
            wires, hosts = [wire for wire, _ in queries], [address[0] for _, address in queries]
            responses = await self._reply(wires, hosts, over_tcp=False)
        finally:
            self._query_count -= len(queries)
        for response, (_, address) in zip(responses, queries, strict=True):
            if response is not None and self._transport is not None and not self._transport.is_closing():
                # The source address may be forged, for example with port 0.
                with contextlib.suppress(OSError, ValueError):
                    self._transport.sendto(response, address)

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._transport is not None:
            self._transport.close()
            await self._closed


def _bind_both(
    family: int, address: tuple[Any, ...], *, is_shared: bool
) -> tuple[socket.socket, socket.socket]:
    """Return a TCP and a UDP socket on the same port.

    For port 0 try several: a port that is free for TCP may be in use for UDP.
    """
    for tries_left in reversed(range(_BIND_TRIES if address[1] == 0 else 1)):
        tcp_socket = _bind(family, socket.SOCK_STREAM, address, is_shared=is_shared)
        port = tcp_socket.getsockname()[1]
        try:
            return tcp_socket, _bind(
                family, socket.SOCK_DGRAM, (address[0], port, *address[2:]), is_shared=is_shared
            )
        except OSError:
            tcp_socket.close()
            if not tries_left:
                raise
    raise AssertionError  # the last try returned or raised


def _bind(
    family: int, kind: socket.SocketKind, address: tuple[Any, ...], *, is_shared: bool
) -> socket.socket:
    # asyncio sets TCP_NODELAY only on sockets whose protocol is TCP. Without it the second of two pipelined
    # responses waits 40 ms for the client's delayed acknowledgement of the first.
    protocol = socket.IPPROTO_TCP if kind == socket.SOCK_STREAM else socket.IPPROTO_UDP
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setblocking(False)  # noqa: FBT003 - the parameter has no name
        if kind == socket.SOCK_STREAM:  # not for UDP, where another process could then share the port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
    except BaseException:
        bound.close()
        raise
    return bound
