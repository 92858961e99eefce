"""The built-in authoritative name server: UDP and TCP, answering from what is published. What it answers is in `answer.py`.

For the first minute and for small installations; larger ones publish to a real primary. It keeps nothing of a zone: each query, or some
that came together, asks the reader that it was made with, after it has come. Bound to 0.0.0.0 on a host with several addresses, the kernel chooses the address that a UDP
response comes from; give such a host's addresses one by one.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from itertools import zip_longest
from typing import Any, cast

import dns.opcode
import dns.rcode
import structlog

from sublet.dns.answer import alias_targets, answer, refusal
from sublet.dns.notify import NotifyLimit, answer_notify, is_notify
from sublet.dns.query import Query, read_query
from sublet.dns.response import Response, bare_response, truncated_response
from sublet.dns.response_limit import ResponseLimit
from sublet.dns.types import ZoneView
from sublet.dns.wire import HEADER_BYTES

ReadZones = Callable[[Collection[str]], Awaitable[Mapping[str, ZoneView]]]
"""Gives what zones hold around query names (lower case, no final dot, odd octets as `\\ddd`); left out: in no zone of ours."""

OnNotify = Callable[[str], Coroutine[None, None, None]]
"""Acts on a NOTIFY message about a child, in the background."""
NOTIFIES_MAX = 100
"""The most NOTIFY messages that are acted on at once."""
QUERY_BYTES_MAX = 4096
"""No query is longer: a name is 255 bytes, and what EDNS adds is small."""

READ_SECONDS = 5.0
"""How long the reader may take until the client gets SERVFAIL; resolvers give up after about that time."""

IDLE_SECONDS = 10.0
"""How long a TCP client may take for one whole query, and for taking what it is sent at once (`_SENT_BYTES`)."""

CONNECTION_SECONDS = 120.0
"""How long a TCP connection may last, busy or not."""

QUERIES_AT_ONCE = 16
"""How many queries are answered from one reading where they came together; everything else in the process waits for as many."""
BYTES_AT_ONCE = 1024
"""Over TCP no further one joins as many octets: names of a hundred labels take long to read the zone for."""

CONNECTIONS_MAX = 200
"""Most TCP connections at once."""
CONNECTIONS_PER_CLIENT = 50
"""Most TCP connections of one IPv4 address or IPv6 network of 64 bits."""
UDP_QUERIES_MAX = 1000
"""How many queries are worked on at once; what comes above is dropped, and resolvers ask again."""

ALIASES_MAX = 8
"""How many aliases in a row are followed; the client asks for the rest itself."""

_READ_BYTES = 16384
_SENT_BYTES = 2 + 65535
"""How much a TCP client is sent before it has to have taken it: one response as long as can be, or shorter ones."""
_BIND_TRIES = 20

log = structlog.get_logger(__name__)


class _Nonsense(Exception):  # noqa: N818 - it says what came
    """What came over TCP is no query and none can be found behind it."""


class NameServer:
    """A name server on any number of addresses.

    `on_answer` is called with the code of every response ("NOERROR", "NXDOMAIN", ...), and `on_limited` for every
    response that the limit truncates, for counting.
    """

    def __init__(
        self,
        read_zones: ReadZones,
        *,
        on_answer: Callable[[str], None] = lambda _rcode: None,
        on_limited: Callable[[], None] = lambda: None,
        on_notify: OnNotify | None = None,
    ) -> None:
        self._read_zones = read_zones
        self._on_answer = on_answer
        self._on_limited = on_limited
        self._on_notify = on_notify
        self._notify_limit = NotifyLimit()
        self._notified: set[asyncio.Task[None]] = set()
        self._limit = ResponseLimit()
        self._udp: list[_UdpEndpoint] = []
        self._tcp: list[asyncio.Server] = []
        self._connections: dict[asyncio.Task[None], _Connection] = {}

    async def start(self, host: str, port: int) -> int:
        """Listen on a host over UDP and TCP; returns the port. Port 0: a free one, the same for both.

        May be called again for further addresses. An IPv6 host means IPv6 alone, also for `::`.
        Raises OSError when the address can't be had.
        """
        loop = asyncio.get_running_loop()
        family, _, _, _, address = (await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))[0]
        tcp_socket, udp_socket = _bind_both(family, cast("tuple[Any, ...]", address))
        bound_port: int = tcp_socket.getsockname()[1]
        try:
            _, endpoint = await loop.create_datagram_endpoint(
                lambda: _UdpEndpoint(self._reply), sock=udp_socket
            )
            self._udp.append(endpoint)
            self._tcp.append(await asyncio.start_server(self._accept, sock=tcp_socket))
        except BaseException:
            tcp_socket.close()
            udp_socket.close()
            raise
        return bound_port

    async def close(self) -> None:
        """Stop listening, drop the connections, and wait until all of it is gone. Queries being worked on get no answer."""
        for server in self._tcp:
            server.close()
        tasks = [*self._connections, *self._notified]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for endpoint in self._udp:
            await endpoint.close()
        for server in self._tcp:
            await server.wait_closed()
        self._udp.clear()
        self._tcp.clear()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection. At a limit the one that has been idle longest is closed for it; if all are busy, it is refused."""
        client = _client_of(writer)
        held = [each for each in self._connections.values() if not each.writer.transport.is_closing()]
        of_client = [each for each in held if each.client == client]
        if len(of_client) >= CONNECTIONS_PER_CLIENT or len(held) >= CONNECTIONS_MAX:
            rivals = of_client if len(of_client) >= CONNECTIONS_PER_CLIENT else held
            longest = min(
                (each for each in rivals if each.idle_since is not None),
                key=lambda each: each.idle_since or 0.0,
                default=None,
            )
            if longest is None:
                writer.transport.abort()
                return
            longest.writer.transport.abort()
        connection = _Connection(reader, writer, client, asyncio.get_running_loop().time())
        task = asyncio.create_task(self._serve_connection(connection))
        self._connections[task] = connection
        task.add_done_callback(lambda ended: self._connections.pop(ended, None))

    async def _serve_connection(self, connection: "_Connection") -> None:
        """Answer queries in the order they come (RFC 7766) until the client goes, stalls, sends nonsense or has had its time."""
        writer = connection.writer
        # Draining then waits until the kernel has taken everything: nothing is left to lose when the transport is aborted.
        writer.transport.set_write_buffer_limits(high=0)
        try:
            async with asyncio.timeout(CONNECTION_SECONDS):
                received = bytearray()
                while await self._serve_some(received, connection):
                    pass
        except (OSError, _Nonsense):  # TimeoutError and a connection reset are OSErrors
            pass
        finally:
            writer.transport.abort()

    async def _serve_some(self, received: bytearray, connection: "_Connection") -> bool:
        """Answer the next query, and those that came with it, in their order; False when the connection is to be closed.

        `received` is what was read and not answered yet.
        """
        writer = connection.writer
        connection.idle_since = asyncio.get_running_loop().time()
        async with asyncio.timeout(IDLE_SECONDS):
            while not (queries := _take_queries(received)):
                octets = await connection.reader.read(_READ_BYTES)
                if not octets:
                    return False
                received += octets
        connection.idle_since = None
        responses = await self._reply(queries, over_tcp=True)
        sent = bytearray()
        for response in responses:
            if response is None:
                break
            if sent and len(sent) + 2 + len(response) > _SENT_BYTES:
                await _send(writer, sent)
                sent = bytearray()
            sent += len(response).to_bytes(2, "big") + response
        await _send(writer, sent)
        # Neither a filled read buffer nor an empty write buffer lets another task run; a long pipeline must.
        await asyncio.sleep(0)
        return None not in responses

    async def _reply(
        self, wires: Sequence[bytes], *, over_tcp: bool, hosts: Sequence[str] = ()
    ) -> list[bytes | None]:
        """The responses' octets; None for what gets none: a response (it could loop), or less than a header.

        `hosts` are the addresses that queries over UDP came from, in their order; without them nothing is limited.
        """
        queries = [self._take_notify(wire) or _read(wire) for wire in wires]
        names = {each.name for each in queries if isinstance(each, Query) and refusal(each) is None}
        views = await self._view(names) if names else {}
        replies: list[bytes | None] = []
        for query, host in zip_longest(queries, hosts):
            response: Response | None
            if isinstance(query, Query):
                response = _answered(query, views, over_tcp=over_tcp)
                if host is not None and self._is_limited(host, response):
                    response = truncated_response(query, response)
                    self._on_limited()
            else:
                response = query
            if response is not None:
                self._on_answer(dns.rcode.to_text(response.rcode))
            replies.append(response.wire if response is not None else None)
        return replies

    def _take_notify(self, wire: bytes) -> Response | None:
        """Return the response to a NOTIFY message, and act on it in the background; None for other messages."""
        if self._on_notify is None or not is_notify(wire):
            return None
        now_seconds = asyncio.get_running_loop().time()
        response, child = answer_notify(wire, is_limited=self._notify_limit.is_exceeded(now_seconds))
        if child is not None and len(self._notified) < NOTIFIES_MAX:
            task = asyncio.create_task(self._on_notify(child))
            self._notified.add(task)
            task.add_done_callback(self._notified.discard)
        return response

    def _is_limited(self, host: str, response: Response) -> bool:
        """Count a response over UDP, and return True if it must be truncated. One without records is no longer than its query."""
        now_seconds = asyncio.get_running_loop().time()
        return bool(response.about) and self._limit.is_exceeded(
            host, response.rcode, response.about, now_seconds
        )

    async def _view(self, names: Collection[str]) -> Mapping[str, ZoneView] | None:
        """The zones around names and around the targets of their aliases; None where they can't be read."""
        views: dict[str, ZoneView] = {}
        wanted = set(names)
        try:
            async with asyncio.timeout(READ_SECONDS):
                for _ in range(1 + ALIASES_MAX):
                    found = await self._read_zones(wanted)
                    views |= found
                    wanted = {name for view in found.values() for name in alias_targets(view)} - views.keys()
                    if not wanted:
                        break
        except Exception:
            log.exception("nameserver_query_failed", names=sorted(names))
            return None
        return views


@dataclass(slots=True, eq=False)
class _Connection:
    """A TCP connection; `idle_since` is when it began to wait for a whole query, None while queries are answered."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    client: str
    idle_since: float | None


def _client_of(writer: asyncio.StreamWriter) -> str:
    """Return what counts as one client: an IPv4 address, or an IPv6 network of 64 bits."""
    peer = writer.get_extra_info("peername")
    if peer is None:  # it is gone already
        return ""
    address = ip_address(peer[0])
    return str(address) if address.version == 4 else str(ip_network(f"{address}/64", strict=False))


class _UdpEndpoint(asyncio.DatagramProtocol):
    """One UDP socket: a task for a query and those that come with it."""

    def __init__(self, reply: Callable[..., Awaitable[list[bytes | None]]]) -> None:
        self._reply = reply
        self._tasks: set[asyncio.Task[None]] = set()
        self._coming: list[tuple[bytes, tuple[Any, ...]]] = []
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
        if not self._coming or len(self._coming) == QUERIES_AT_ONCE:
            self._coming = []
            task = asyncio.create_task(self._serve(self._coming))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._coming.append((wire, address))

    async def _serve(self, queries: list[tuple[bytes, tuple[Any, ...]]]) -> None:
        if queries is self._coming:
            self._coming = []  # what comes from now on is for another task
        try:
            wires, hosts = [wire for wire, _ in queries], [address[0] for _, address in queries]
            responses = await self._reply(wires, over_tcp=False, hosts=hosts)
        finally:
            self._query_count -= len(queries)
        for response, (_, address) in zip(responses, queries, strict=True):
            if response is not None and self._transport is not None and not self._transport.is_closing():
                with contextlib.suppress(OSError, ValueError):  # a forged source address, port 0 for one
                    self._transport.sendto(response, address)

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._transport is not None:
            self._transport.close()
            await self._closed


def _take_queries(received: bytearray) -> list[bytes]:
    """Take whole queries from the front, `QUERIES_AT_ONCE` at most and not much more than `BYTES_AT_ONCE`.

    Raises:
        _Nonsense: what begins there is too short or too long for a query.
    """
    queries: list[bytes] = []
    at = 0
    while len(queries) < QUERIES_AT_ONCE and at < BYTES_AT_ONCE and len(received) >= at + 2:
        size_bytes = int.from_bytes(received[at : at + 2], "big")
        if not HEADER_BYTES <= size_bytes <= QUERY_BYTES_MAX:
            if not queries:
                raise _Nonsense
            break  # those before it are answered first
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


def _read(wire: bytes) -> Query | Response | None:
    """The query in a message; the response to what can't be read as one; None for what gets none."""
    if len(wire) < HEADER_BYTES or wire[2] & 0x80:
        return None
    if (wire[2] >> 3) & 0xF != dns.opcode.QUERY:
        return _bare_header(wire, dns.rcode.NOTIMP)
    if len(wire) > QUERY_BYTES_MAX:
        return _bare_header(wire, dns.rcode.FORMERR)
    try:
        return read_query(wire)
    except Exception:  # noqa: BLE001 - whatever strangers send, it is their form that is wrong
        return _bare_header(wire, dns.rcode.FORMERR)


def _answered(query: Query, views: Mapping[str, ZoneView] | None, *, over_tcp: bool) -> Response:
    """The response to a query; SERVFAIL where nothing could be read (`views` is None), or what was read makes none."""
    if views is None and refusal(query) is None:
        return bare_response(query, dns.rcode.SERVFAIL)
    try:
        return answer(query, views or {}, over_tcp=over_tcp)
    except Exception:
        log.exception("nameserver_query_failed", names=[query.name])
        return bare_response(query, dns.rcode.SERVFAIL)


def _bare_header(wire: bytes, rcode: dns.rcode.Rcode) -> Response:
    """A response to what can't be read further than its header: its id, opcode and RD bit, and the code."""
    return Response(rcode, wire[:2] + bytes([0x80 | (wire[2] & 0x79), rcode]) + bytes(8))


def _bind_both(family: int, address: tuple[Any, ...]) -> tuple[socket.socket, socket.socket]:
    """A TCP and a UDP socket on the same port. Any free port for TCP may be taken for UDP, so for port 0 try a few."""
    for tries_left in reversed(range(_BIND_TRIES if address[1] == 0 else 1)):
        tcp_socket = _bound(family, socket.SOCK_STREAM, address)
        port = tcp_socket.getsockname()[1]
        try:
            return tcp_socket, _bound(family, socket.SOCK_DGRAM, (address[0], port, *address[2:]))
        except OSError:
            tcp_socket.close()
            if not tries_left:
                raise
    raise AssertionError  # the last try returned or raised


def _bound(family: int, kind: socket.SocketKind, address: tuple[Any, ...]) -> socket.socket:
    # asyncio sets TCP_NODELAY only on sockets that say they are TCP; without it the second of two pipelined answers waits
    # for the client's delayed acknowledgement of the first, 40 ms.
    protocol = socket.IPPROTO_TCP if kind == socket.SOCK_STREAM else socket.IPPROTO_UDP
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setblocking(False)  # noqa: FBT003 - the method takes it so
        if kind == socket.SOCK_STREAM:  # for UDP it would let another process share the port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
    except BaseException:
        bound.close()
        raise
    return bound
