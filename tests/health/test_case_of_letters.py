"""Servers that echo the question in another case than it was asked: resolvers use their answers, so checks do
too.
"""

import asyncio
from collections.abc import Callable

import dns.flags
import dns.message
import dns.name
import dns.rrset
import pytest

from sublet.health.dns_client import DnsClient
from sublet.health.model import Reply, find_rrset
from sublet.health.query_limits import Budget

NAME = dns.name.from_text("blog.example.test.")


class _Echo(asyncio.DatagramProtocol):
    """A server that answers each question with a record of a class, and echoes its name as changed by
    `change`.
    """

    def __init__(self, change: Callable[[str], str], rdclass: str) -> None:
        self._change = change
        self._rdclass = rdclass

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, wire: bytes, address: tuple[str, int]) -> None:
        query = dns.message.from_wire(wire)
        response = dns.message.make_response(query)
        response.flags |= dns.flags.AA
        name = dns.name.from_text(self._change(query.question[0].name.to_text()))
        soa = "ns1.example.test. hostmaster.example.test. 1 3600 900 86400 60"
        response.question = [dns.rrset.RRset(name, query.question[0].rdclass, query.question[0].rdtype)]
        response.answer = [dns.rrset.from_text(name, 300, self._rdclass, "SOA", soa)]
        self._transport.sendto(response.to_wire(), address)


async def ask(change: Callable[[str], str], name: dns.name.Name = NAME, rdclass: str = "IN") -> Reply:
    """Ask a server on loopback for the SOA record of a name."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        lambda: _Echo(change, rdclass), local_addr=("127.0.0.1", 0)
    )
    try:
        port = transport.get_extra_info("sockname")[1]
        return await DnsClient().ask("127.0.0.1", name, "SOA", Budget(), port=port, is_rate_limited=False)
    finally:
        transport.close()


@pytest.mark.parametrize("change", [str, str.upper, str.lower, str.swapcase, str.title])
def test_the_case_of_the_echoed_question_does_not_matter(change: Callable[[str], str]) -> None:
    reply = asyncio.run(ask(change))
    assert reply.message is not None
    assert find_rrset(reply.message, NAME, "SOA") is not None


def test_octets_beyond_ascii_have_no_case() -> None:
    name = dns.name.from_text("\\228" * 60 + ".test.")
    reply = asyncio.run(ask(str, name))
    assert find_rrset(reply.message, name, "SOA") is not None


def test_an_answer_about_another_name_is_malformed() -> None:
    reply = asyncio.run(ask(lambda name: "x" + name))
    assert (reply.message, reply.failure) == (None, "malformed")


def test_a_record_of_another_class_makes_an_answer_malformed() -> None:
    """An A record of the class HS has no address in dnspython."""
    reply = asyncio.run(ask(str, rdclass="HS"))
    assert (reply.message, reply.failure) == (None, "malformed")
