"""A DNS client that makes forged answers unlikely: each query has its own socket, a random id, and random
case of letters (RFC 5452).
"""

import asyncio
import errno
import secrets
import string

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rdataclass
import dns.rdatatype

from sublet.dns.tcp import ConnectionFailed, connected, read_message
from sublet.health.model import NOT_ASKED, Reply
from sublet.health.query_limits import Budget, QueryRateLimit
from sublet.structs import replace

PORT = 53
UDP_SECONDS = 1.5
UDP_TRIES = 2
TCP_SECONDS = 3.0
PAYLOAD_OCTETS = 1232
"""The UDP payload size in EDNS. Larger answers are fragmented, and fragments may get lost
(dnsflagday.net/2020).
"""
PARSED_INLINE_OCTETS = 2048
"""Larger answers are parsed on a thread, so that they don't block the event loop."""
_LETTERS = string.ascii_letters.encode()
_NO_ROUTE = frozenset({errno.ENETUNREACH, errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EHOSTUNREACH})


class DnsClient:
    """Sends the queries of checks, and limits their rate in this process."""

    def __init__(self) -> None:
        self._rate_limit = QueryRateLimit()

    async def ask(
        self,
        address: str,
        name: dns.name.Name,
        rdtype: str,
        budget: Budget,
        *,
        tcp: bool = False,
        edns: bool = True,
        recursion: bool = False,
        checking_disabled: bool = False,
        port: int = PORT,
        is_rate_limited: bool = True,
        tries: int = UDP_TRIES,
    ) -> Reply:
        """Return a server's reply to one question, over UDP with retries, or over TCP.

        A failure is returned as a `Reply` too, not raised.

        A truncated UDP answer is returned, too. Queries to the operator's own resolver set `port`, and need
        no rate limit.
        """
        failure = NOT_ASKED
        for tried in range(1 if tcp else tries):
            if not budget.spend():
                return failure
            if is_rate_limited:
                await self._rate_limit.wait(address)
            # Some servers don't repeat the case of letters. So the retry has no random case, and accepts any,
            # as resolvers do.
            is_random_case = not tcp and not tried
            asked = _in_random_case(name) if is_random_case else name
            query = _query(asked, rdtype, edns=edns, recursion=recursion)
            if checking_disabled:
                query.flags |= dns.flags.CD
            exchange = _over_tcp if tcp else _over_udp
            try:
                wire = await exchange(query.to_wire(), address, port)
            except (OSError, ConnectionFailed) as error:
                failure = Reply(failure="no_route" if error.errno in _NO_ROUTE else "no_answer")
                if failure.failure == "no_route":
                    break
            else:
                reply = await _parse(wire, query)
                if reply.message is not None and not (is_random_case and not reply.is_case_kept):
                    return replace(reply, is_case_kept=reply.is_case_kept and failure.is_case_kept)
                failure = Reply(failure="malformed", octets=reply.octets, is_case_kept=reply.is_case_kept)
        return failure

    async def ask_with_fallback(
        self, address: str, name: dns.name.Name, rdtype: str, budget: Budget
    ) -> tuple[Reply, Reply]:
        """Return the UDP reply, and the complete reply, which is the TCP reply if the UDP reply was truncated
        or failed.
        """
        over_udp = await self.ask(address, name, rdtype, budget)
        if over_udp.failure in ("not_asked", "no_route"):
            return over_udp, over_udp
        if over_udp.message is not None and not over_udp.message.flags & dns.flags.TC:
            return over_udp, over_udp
        return over_udp, await self.ask(address, name, rdtype, budget, tcp=True)


def _query(name: dns.name.Name, rdtype: str, *, edns: bool, recursion: bool) -> dns.message.Message:
    query = dns.message.make_query(
        name,
        rdtype,
        use_edns=0 if edns else False,
        want_dnssec=edns,
        payload=PAYLOAD_OCTETS if edns else None,
        id=secrets.randbelow(65536),
    )
    if not recursion:
        query.flags &= ~dns.flags.RD
    return query


def _in_random_case(name: dns.name.Name) -> dns.name.Name:
    return dns.name.Name(
        tuple(
            # Only the letters of ASCII have a case in the DNS.
            bytes(octet ^ 0x20 if octet in _LETTERS and secrets.randbits(1) else octet for octet in label)
            for label in name.labels
        )
    )


class _UdpAnswer(asyncio.DatagramProtocol):
    """Receives the first datagram with the query's id.

    The socket is connected, so datagrams from other addresses don't arrive.
    """

    def __init__(self, query_id: bytes) -> None:
        self._id = query_id
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def datagram_received(self, data: bytes, _addr: object) -> None:
        if data[:2] == self._id and not self.answer.done():
            self.answer.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(exc)


async def _over_udp(wire: bytes, address: str, port: int) -> bytes:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_datagram_endpoint(
        lambda: _UdpAnswer(wire[:2]), remote_addr=(address, port)
    )
    try:
        transport.sendto(wire)
        async with asyncio.timeout(UDP_SECONDS):
            return await protocol.answer
    finally:
        transport.close()


async def _over_tcp(wire: bytes, address: str, port: int) -> bytes:
    async with connected((address, port), TCP_SECONDS) as (reader, writer):
        writer.write(len(wire).to_bytes(2, "big") + wire)
        return await read_message(reader)


async def _parse(wire: bytes, query: dns.message.Message) -> Reply:
    try:
        if len(wire) > PARSED_INLINE_OCTETS:
            message = await asyncio.to_thread(_message, wire)
        else:
            message = _message(wire)
    except (dns.exception.DNSException, ValueError):
        return Reply(failure="malformed", octets=len(wire))
    if not _is_answer_to(message, query):
        return Reply(failure="malformed", octets=len(wire))
    is_case_kept = not message.question or message.question[0].name.labels == query.question[0].name.labels
    return Reply(message, octets=len(wire), is_case_kept=is_case_kept)


def _message(wire: bytes) -> dns.message.Message:
    return dns.message.from_wire(wire, ignore_trailing=True, raise_on_truncation=False)


def _is_answer_to(message: dns.message.Message, query: dns.message.Message) -> bool:
    """True if a message answers a query. The case of letters doesn't matter.

    An error response may lack the question. A message with a record of another class is no answer, because
    such records have another content.
    """
    if not message.flags & dns.flags.QR or message.opcode() != dns.opcode.QUERY:
        return False
    if any(each.rdclass != dns.rdataclass.IN for section in message.sections[1:] for each in section):
        return False
    if not message.question:
        return message.rcode() != 0
    asked, answered = query.question[0], message.question[0]
    return (
        answered.rdtype == asked.rdtype and answered.rdclass == asked.rdclass and answered.name == asked.name
    )
