"""The built-in authoritative name server: UDP and TCP, answering from what is published. What it answers is in `answer.py`.

For the first minute and for small installations; larger ones publish to a real primary. It keeps no state: each query asks
the reader that it was made with. Bound to 0.0.0.0 on a host with several addresses, the kernel chooses the address that a UDP
response comes from; give such a host's addresses one by one.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Any, cast

import dns.message
import dns.opcode
import dns.rcode
import structlog

from sublet.dns.answer import UDP_PAYLOAD_BYTES, answer, bare_response, name_key, refusal
from sublet.dns.types import ZoneView

ReadZone = Callable[[str], Awaitable[ZoneView | None]]
"""Gives what a zone holds around a query name (lower case, no final dot, odd octets as `\\ddd`); None: no zone of ours."""

QUERY_BYTES_MAX = 4096
"""No query is longer: a name is 255 bytes, and what EDNS adds is small."""

READ_SECONDS = 5.0
"""How long the reader may take until the client gets SERVFAIL; resolvers give up after about that time."""

IDLE_SECONDS = 10.0
"""How long a TCP client may take for one whole query, and for taking one whole response."""

CONNECTION_SECONDS = 120.0
"""How long a TCP connection lives, however busy, so that nobody holds one of the few places for ever."""

CONNECTIONS_MAX = 200
UDP_QUERIES_MAX = 1000
"""How many queries are worked on at once; what comes above is dropped, and resolvers ask again."""

_HEADER_BYTES = 12
_BIND_TRIES = 20

log = structlog.get_logger(__name__)


class NameServer:
    """A name server on any number of addresses.

    `on_answer` is called with the code of every response ("NOERROR", "NXDOMAIN", ...), for counting.
    """

    def __init__(self, read_zone: ReadZone, *, on_answer: Callable[[str], None] | None = None) -> None:
        self._read_zone = read_zone
        self._on_answer = on_answer
        self._udp: list[_UdpEndpoint] = []
        self._tcp: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

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
        tasks = list(self._connections)
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
        if len(self._connections) >= CONNECTIONS_MAX:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve_connection(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer queries in the order they come (RFC 7766) until the client goes, stalls, sends nonsense or has had its time."""
        # Draining then waits until the kernel has taken everything: nothing is left to lose when the transport is aborted.
        writer.transport.set_write_buffer_limits(high=0)
        try:
            async with asyncio.timeout(CONNECTION_SECONDS):
                while await self._serve_one(reader, writer):
                    pass
        except (
            OSError,
            EOFError,
        ):  # TimeoutError and a connection reset are OSErrors, an incomplete read is an EOFError
            pass
        finally:
            writer.transport.abort()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one query; False when the connection is to be closed."""
        async with asyncio.timeout(IDLE_SECONDS):
            size_bytes = int.from_bytes(await reader.readexactly(2), "big")
            if not _HEADER_BYTES <= size_bytes <= QUERY_BYTES_MAX:
                return False
            wire = await reader.readexactly(size_bytes)
        response = await self._reply(wire, over_tcp=True)
        if response is None:
            return False
        writer.write(len(response).to_bytes(2, "big") + response)
        async with asyncio.timeout(IDLE_SECONDS):
            await writer.drain()
        # Neither a filled read buffer nor an empty write buffer lets another task run; a long pipeline must.
        await asyncio.sleep(0)
        return True

    async def _reply(self, wire: bytes, *, over_tcp: bool) -> bytes | None:
        """The response's bytes; None for what gets none: a response (it could loop), or less than a header."""
        if len(wire) < _HEADER_BYTES or wire[2] & 0x80:
            return None
        rcode, response = await self._respond(wire, over_tcp=over_tcp)
        if self._on_answer is not None:
            self._on_answer(dns.rcode.to_text(rcode))
        return response

    async def _respond(self, wire: bytes, *, over_tcp: bool) -> tuple[dns.rcode.Rcode, bytes]:
        if (wire[2] >> 3) & 0xF != dns.opcode.QUERY:
            return _bare_header(wire, dns.rcode.NOTIMP)
        try:
            if len(wire) > QUERY_BYTES_MAX:
                return _bare_header(wire, dns.rcode.FORMERR)
            query = dns.message.from_wire(wire)
        except dns.message.UnknownTSIGKey:
            return _bare_header(wire, dns.rcode.NOTAUTH)  # RFC 8945, section 5.2.1: we have no keys
        except Exception:  # noqa: BLE001 - whatever strangers send, it is their form that is wrong
            return _bare_header(wire, dns.rcode.FORMERR)
        try:
            view = None
            if refusal(query) is None:
                async with asyncio.timeout(READ_SECONDS):
                    view = await self._read_zone(name_key(query.question[0].name))
            response = answer(query, view, over_tcp=over_tcp)
            return response.rcode(), response.to_wire(max_size=65535)
        except Exception:
            log.exception("nameserver_query_failed", question=[str(rrset) for rrset in query.question])
            response = bare_response(query, dns.rcode.SERVFAIL)
            return dns.rcode.SERVFAIL, response.to_wire(max_size=UDP_PAYLOAD_BYTES)


class _UdpEndpoint(asyncio.DatagramProtocol):
    """One UDP socket: a task a query."""

    def __init__(self, reply: Callable[..., Awaitable[bytes | None]]) -> None:
        self._reply = reply
        self._tasks: set[asyncio.Task[None]] = set()
        self._transport: asyncio.DatagramTransport | None = None
        self._closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def connection_lost(self, _error: Exception | None) -> None:
        if not self._closed.done():
            self._closed.set_result(None)

    def datagram_received(self, wire: bytes, address: tuple[Any, ...]) -> None:
        if len(self._tasks) >= UDP_QUERIES_MAX:
            return
        task = asyncio.create_task(self._serve(wire, address))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, wire: bytes, address: tuple[Any, ...]) -> None:
        response = await self._reply(wire, over_tcp=False)
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


def _bare_header(wire: bytes, rcode: dns.rcode.Rcode) -> tuple[dns.rcode.Rcode, bytes]:
    """A response to what can't be read further than its header: its id, opcode and RD bit, and the code."""
    return rcode, wire[:2] + bytes([0x80 | (wire[2] & 0x79), rcode]) + bytes(8)


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
    # for the client's delayed acknowledgement of the first, 40 ms: each publication is read back that way.
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
