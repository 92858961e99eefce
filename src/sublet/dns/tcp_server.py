"""Accept DNS queries over TCP (RFC 7766), within limits for each client and connection."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from ipaddress import ip_address, ip_network

from msgspec import Struct

from sublet.dns.query import QUERIES_AT_ONCE, QUERY_BYTES_MAX
from sublet.dns.wire import HEADER_BYTES

Reply = Callable[[list[bytes], list[str]], Awaitable[list[bytes | None]]]
"""Returns the responses to a batch of messages from these source addresses. None as a response closes the
connection.
"""

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


class TcpServer:
    """Accepts connections. `reply` answers the queries on them, of at most `query_bytes_max` octets."""

    def __init__(self, reply: Reply, query_bytes_max: int = QUERY_BYTES_MAX) -> None:
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
        responses = await self._reply(queries, [connection.address] * len(queries))
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
