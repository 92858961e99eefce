"""Observe a delegation: send each nameserver, at each address, the queries of a resolver.

`findings.py` draws the conclusions. The number of queries and the time are limited, because registrants choose the servers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime
from functools import partial

import dns.flags
import dns.name
import dns.rcode

from sublet.dns.names import is_at_or_below
from sublet.dns.types import Delegation
from sublet.health.dns_client import DnsClient
from sublet.health.model import HostAddresses, Observation, Question, Server, Target, name_of
from sublet.health.query_limits import (
    ADDRESSES_MAX,
    CHECK_SECONDS,
    EXTRA_QUERIES_MAX,
    Budget,
    Network,
    may_ask,
)
from sublet.health.resolve import Resolver

Claim = Callable[[Sequence[str]], AbstractAsyncContextManager[datetime | None]]
"""Claims addresses for one check. Yields None, or the time to try again if another check has claimed one of the addresses."""


async def observe(
    target: Target,
    client: DnsClient,
    resolver: Resolver,
    claim: Claim,
    *,
    allowed: Sequence[Network] = (),
    seconds: float = CHECK_SECONDS,
    extra: Sequence[Question] = (),
) -> Observation:
    """Return the observations of a check, after at most `seconds`. Nothing that servers do raises an error.

    `claim` claims the addresses, so that only one check of all processes asks an address at a time. Each server that answers is also asked the
    `extra` questions, over TCP, in their order. A question for CDS records is asked over UDP too.
    """
    check = _Check(client, resolver, target)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await check.resolve(allowed)
            async with claim([each.address for each in check.servers]) as busy_until:
                if busy_until is not None:
                    return check.observation(busy_until=busy_until)
                await check.ask_all(extra)
    return check.observation()


class _Check:
    """The progress of one check. `observation` works at any time, also after a timeout."""

    def __init__(self, client: DnsClient, resolver: Resolver, target: Target) -> None:
        self._client = client
        self._resolver = resolver
        self._target = target
        self._name = name_of(target.fqdn)
        self._budget = Budget()
        self._extra_budget = Budget(EXTRA_QUERIES_MAX)
        self._hosts: dict[str, HostAddresses] = {}
        self._not_public: list[str] = []
        self.servers: list[Server] = []

    def observation(self, *, busy_until: datetime | None = None) -> Observation:
        """Return the observations so far."""
        unseen = [each for each in self._target.delegation.nameservers if each not in self._hosts]
        for host in unseen:
            self._hosts[host] = HostAddresses(host, failure="unknown")
        return Observation(
            tuple(self._hosts.values()),
            tuple(self.servers),
            tuple(self._not_public),
            busy_until,
        )

    async def resolve(self, allowed: Sequence[Network]) -> None:
        """Find the addresses of the nameservers in the glue or the DNS, and choose the addresses that may be asked."""
        delegation = self._target.delegation
        glued = glue_addresses(delegation)

        async def find(host: str) -> None:
            if host in glued:
                self._hosts[host] = HostAddresses(host, glued[host])
            else:
                self._hosts[host] = await self._resolver.addresses(host, self._budget)

        await asyncio.gather(*(find(host) for host in delegation.nameservers))
        # The first addresses of all hosts come before all second addresses, so that `ADDRESSES_MAX` omits no host.
        pairs = sorted(
            (
                (index, host, address)
                for host in delegation.nameservers
                for index, address in enumerate(self._hosts[host].addresses)
            ),
            key=lambda each: each[0],
        )
        for _, host, address in pairs:
            if not may_ask(address, allowed):
                self._not_public.append(address)
            elif len(self.servers) < ADDRESSES_MAX:
                self.servers.append(Server(host, address))

    async def ask_all(self, extra: Sequence[Question]) -> None:
        """Ask the servers. The questions that decide the state come first, because the queries or the time may run out."""
        await self._for_each(self.servers, self._ask_soa)
        answered = [each for each in self.servers if each.soa.message or each.soa_plain.message]
        if self._target.delegation.ds_records:
            await self._for_each(answered, self._ask_dnskey)
        await self._for_each(
            [each for each in answered if each.soa_tcp.failure == "not_asked"], self._ask_soa_tcp
        )
        await self._for_each(answered, self._ask_nameservers)
        await self._for_each(answered, self._ask_recursion)
        if answered:
            await self._ask_addresses(answered[0])
        for question in extra:
            await self._for_each(answered, partial(self._ask_extra, question))

    async def _for_each(self, servers: Sequence[Server], ask: Callable[[Server], Awaitable[None]]) -> None:
        await asyncio.gather(*(ask(server) for server in servers))

    async def _ask_soa(self, server: Server) -> None:
        server.soa = await self._client.ask(server.address, self._name, "SOA", self._budget)
        message = server.soa.message
        if message is None:
            has_edns_error = server.soa.failure in ("no_answer", "malformed")
        else:
            has_edns_error = message.rcode() in (dns.rcode.FORMERR, dns.rcode.NOTIMP)
        if has_edns_error:
            await asyncio.gather(self._ask_soa_tcp(server), self._ask_soa_plain(server))
        elif message is not None and message.flags & dns.flags.TC:
            # The answer was too long for UDP with its signatures.
            await self._ask_soa_tcp(server)

    async def _ask_soa_plain(self, server: Server) -> None:
        server.soa_plain = await self._client.ask(server.address, self._name, "SOA", self._budget, edns=False)

    async def _ask_soa_tcp(self, server: Server) -> None:
        server.soa_tcp = await self._client.ask(server.address, self._name, "SOA", self._budget, tcp=True)

    async def _ask_dnskey(self, server: Server) -> None:
        server.dnskey_udp, server.dnskey = await self._client.ask_with_fallback(
            server.address, self._name, "DNSKEY", self._budget
        )

    async def _ask_nameservers(self, server: Server) -> None:
        _, server.nameservers = await self._client.ask_with_fallback(
            server.address, self._name, "NS", self._budget
        )

    async def _ask_recursion(self, server: Server) -> None:
        """Ask for the SOA record of the parent zone, which only an open resolver answers."""
        parent: dns.name.Name = name_of(self._target.domain)
        server.recursion = await self._client.ask(server.address, parent, "SOA", self._budget, recursion=True)

    async def _ask_addresses(self, server: Server) -> None:
        """Ask one server for the addresses of the nameservers at or below the name, to compare them with the glue."""
        for host in self._target.delegation.nameservers:
            if is_at_or_below(host, self._target.fqdn):
                for family in ("A", "AAAA"):
                    reply = await self._client.ask(server.address, name_of(host), family, self._budget)
                    server.addresses[host, family] = reply

    async def _ask_extra(self, question: Question, server: Server) -> None:
        name, rdtype = name_of(question[0]), question[1]
        server.extra[question] = await self._client.ask(
            server.address, name, rdtype, self._extra_budget, tcp=True
        )
        if rdtype == "CDS":
            server.cds_udp = await self._client.ask(server.address, name, rdtype, self._extra_budget)


def glue_addresses(delegation: Delegation) -> dict[str, tuple[str, ...]]:
    """Return all glue addresses by host, IPv4 addresses first."""
    found: dict[str, list[str]] = {}
    for version in ("ipv4", "ipv6"):
        for entry in delegation.glue:
            address = getattr(entry, version)
            if address is not None:
                found.setdefault(entry.host, []).append(address)
    return {host: tuple(addresses) for host, addresses in found.items()}
