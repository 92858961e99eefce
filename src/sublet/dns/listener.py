"""Receive DNS messages over UDP and TCP (RFC 7766), and send their responses, within limits for each client
and connection.
"""

import asyncio
import contextlib
import socket
from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from typing import Any, Protocol, cast

from msgspec import Struct

from sublet.dns.query import QUERIES_AT_ONCE, QUERY_BYTES_MAX
from sublet.dns.wire import HEADER_BYTES

UDP_QUERIES_MAX = 1000
"""The maximum number of UDP queries in progress. The server drops further queries; resolvers retry."""
_BIND_TRIES = 20
IDLE_SECONDS = 10.0
"""How long a client may take to send a whole query, and to receive `_SENT_BYTES`."""
CONNECTION_SECONDS = 120.0
"""The maximum duration of a TCP connection, idle or busy."""
CONNECTIONS_MAX = 200
"""The maximum number of TCP connections."""
CONNECTIONS_PER_CLIENT = 50
"""The maximum number of TCP connections of one IPv4 address or IPv6 network of 64 bits."""
BATCH_BYTES_MAX = 1024
"""A batch with this many octets takes no further query, because names with many
labels are slow to look up.
"""

_READ_BYTES = 16384
_SENT_BYTES = 2 + 65535
"""The maximum number of octets to send before the client must have received them. The
longest response fits.
"""


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
        self._tcp = _TcpServer(reply, message_bytes_max)

    async def start(self, host: str, port: int) -> int:
        """Listen on an IP address over UDP and TCP, and return the port.

        Port 0 chooses a port that is free for both.

        May be called for several addresses. An IPv6 address, also `::`, accepts no IPv4.

        Raises:
            OSError: the address can't be used.
        """
        tcp_socket, udp_socket = _bind_both(host, port, is_shared=self._is_shared)
        bound_port: int = tcp_socket.getsockname()[1]
        try:
            _, endpoint = await asyncio.get_running_loop().create_datagram_endpoint(
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


class _MalformedQuery(Exception):  # noqa: N818 - the client's error
    """The length of the next query is impossible, so its end is unknown."""


class _Connection(Struct, eq=False):
    """A TCP connection.

    `idle_since` is when it began to wait for a whole query; None while queries are answered.
    """

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    address: str
    client: str
    idle_since: float | None


class _TcpServer:
    """Accepts connections. `reply` answers the queries on them, of at most `query_bytes_max` octets."""

    def __init__(self, reply: Reply, query_bytes_max: int) -> None:
        self._reply = reply
        self._query_bytes_max = query_bytes_max
        self._servers: list[asyncio.Server] = []
        self._connections: dict[asyncio.Task[None], _Connection] = {}

    async def listen(self, bound: socket.socket) -> None:
        """Accept connections on a bound socket."""
        self._servers.append(await asyncio.start_server(self._accept, sock=bound))

    async def close(self) -> None:
        """Stop listening, close all connections, and wait for their end."""
        for server in self._servers:
            server.close()
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection.

        At a limit, close the connection that has been idle longest; if all are busy, refuse the new one.
        """
        address = _address_of(writer)
        client = _client_of(address)
        in_use = [each for each in self._connections.values() if not each.writer.transport.is_closing()]
        of_client = [each for each in in_use if each.client == client]
        if len(of_client) >= CONNECTIONS_PER_CLIENT or len(in_use) >= CONNECTIONS_MAX:
            candidates = of_client if len(of_client) >= CONNECTIONS_PER_CLIENT else in_use
            longest_idle = min(
                (each for each in candidates if each.idle_since is not None),
                key=lambda each: each.idle_since or 0.0,
                default=None,
            )
            if longest_idle is None:
                writer.transport.abort()
                return
            longest_idle.writer.transport.abort()
        connection = _Connection(reader, writer, address, client, asyncio.get_running_loop().time())
        task = asyncio.create_task(self._serve_connection(connection))
        self._connections[task] = connection
        task.add_done_callback(lambda ended: self._connections.pop(ended, None))

    async def _serve_connection(self, connection: _Connection) -> None:
        """Answer queries in their order (RFC 7766) until the client leaves or stalls, a query is malformed,
        or `CONNECTION_SECONDS` are over.
        """
        writer = connection.writer
        # With a limit of 0, `drain` waits until the kernel has all data, so `abort` loses none.
        writer.transport.set_write_buffer_limits(high=0)
        try:
            async with asyncio.timeout(CONNECTION_SECONDS):
                received = bytearray()
                while await self._serve_batch(received, connection):
                    pass
        except (OSError, _MalformedQuery):  # a TimeoutError and a connection reset are OSErrors
            pass
        finally:
            writer.transport.abort()

    async def _serve_batch(self, received: bytearray, connection: _Connection) -> bool:
        """Answer the next queries in their order. Return False if the connection must be closed.

        `received` has the octets that were read and not answered yet.
        """
        writer = connection.writer
        connection.idle_since = asyncio.get_running_loop().time()
        async with asyncio.timeout(IDLE_SECONDS):
            while not (queries := _take_queries(received, self._query_bytes_max)):
                octets = await connection.reader.read(_READ_BYTES)
                if not octets:
                    return False
                received += octets
        connection.idle_since = None
        responses = await self._reply(queries, [connection.address] * len(queries), over_tcp=True)
        sent = bytearray()
        for response in responses:
            if response is None:
                break
            if sent and len(sent) + 2 + len(response) > _SENT_BYTES:
                await _send(writer, sent)
                sent = bytearray()
            sent += len(response).to_bytes(2, "big") + response
        await _send(writer, sent)
        # `read` and `drain` return at once while data is buffered. Yield, so that a long pipeline doesn't
        # block other tasks.
        await asyncio.sleep(0)
        return None not in responses


def _address_of(writer: asyncio.StreamWriter) -> str:
    """Return the address of the client; empty if the client has closed the connection already."""
    peer = writer.get_extra_info("peername")
    return "" if peer is None else str(peer[0])


def _client_of(address: str) -> str:
    """Return the IPv4 address, or the IPv6 network of 64 bits, that the limits count as one client."""
    if not address:
        return ""
    parsed = ip_address(address)
    return address if parsed.version == 4 else str(ip_network(f"{address}/64", strict=False))


def _take_queries(received: bytearray, query_bytes_max: int) -> list[bytes]:
    """Remove the next whole queries from `received`, and return them, up to `QUERIES_AT_ONCE` and
    `BATCH_BYTES_MAX`.

    Raises:
        _MalformedQuery: the first query is too short or too long.
    """
    queries: list[bytes] = []
    at = 0
    while len(queries) < QUERIES_AT_ONCE and at < BATCH_BYTES_MAX and len(received) >= at + 2:
        size_bytes = int.from_bytes(received[at : at + 2], "big")
        if not HEADER_BYTES <= size_bytes <= query_bytes_max:
            if not queries:
                raise _MalformedQuery
            break  # Answer the whole queries first; the next call raises for the malformed one.
        if len(received) < at + 2 + size_bytes:
            break
        queries.append(bytes(received[at + 2 : at + 2 + size_bytes]))
        at += 2 + size_bytes
    del received[:at]
    return queries


async def _send(writer: asyncio.StreamWriter, octets: bytearray) -> None:
    writer.write(octets)
    async with asyncio.timeout(IDLE_SECONDS):
        await writer.drain()


def _bind_both(host: str, port: int, *, is_shared: bool) -> tuple[socket.socket, socket.socket]:
    """Return a TCP and a UDP socket on the same port.

    For port 0 try several: a port that is free for TCP may be in use for UDP.
    """
    for tries_left in reversed(range(_BIND_TRIES if port == 0 else 1)):
        tcp_socket = _bind(socket.SOCK_STREAM, host, port, is_shared=is_shared)
        bound_port = tcp_socket.getsockname()[1]
        try:
            return tcp_socket, _bind(socket.SOCK_DGRAM, host, bound_port, is_shared=is_shared)
        except OSError:
            tcp_socket.close()
            if not tries_left:
                raise
    raise AssertionError  # the last try returned or raised


def _bind(kind: socket.SocketKind, host: str, port: int, *, is_shared: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
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
        bound.bind((host, port))
    except BaseException:
        bound.close()
        raise
    return bound
