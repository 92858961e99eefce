"""Look at a delegation: ask each nameserver at each address what a resolver would ask it.

A look decides nothing; `findings.py` does. It is bounded in queries and time whatever the servers do.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime

import dns.flags
import dns.name
import dns.rcode

from sublet.dns.names import is_at_or_below
from sublet.dns.types import Delegation
from sublet.health.ask import Asker
from sublet.health.model import HostAddresses, Observation, Question, Server, Target, name_of
from sublet.health.resolve import Resolver
from sublet.health.targets import (
    ADDRESSES_MAX,
    EXTRA_QUERIES_MAX,
    LOOK_SECONDS,
    Budget,
    Network,
    may_ask,
)

Claim = Callable[[Sequence[str]], AbstractAsyncContextManager[datetime | None]]
"""Claims addresses for one look; yields when to come again if another look has one of them."""


class Observer:
    """Looks at delegations. `claim` shares the limits of addresses with other processes."""

    def __init__(
        self, asker: Asker, resolver: Resolver, claim: Claim, allowed: Sequence[Network] = ()
    ) -> None:
        self._asker = asker
        self._resolver = resolver
        self._claim = claim
        self._allowed = allowed

    async def observe(
        self, target: Target, *, seconds: float = LOOK_SECONDS, extra: Sequence[Question] = ()
    ) -> Observation:
        """Return what one look at a delegation saw, after at most `seconds`. Raises nothing that servers can cause.

        `extra` questions are asked of each server that answers, over TCP, in their order.
        """
        look = _Look(self._asker, self._resolver, target)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await look.resolve(self._allowed)
                async with self._claim([each.address for each in look.servers]) as busy_until:
                    if busy_until is not None:
                        return look.observation(busy_until=busy_until)
                    await look.ask_all(extra)
        return look.observation()


class _Look:
    """The state of one look, which is complete enough to judge at any time."""

    def __init__(self, asker: Asker, resolver: Resolver, target: Target) -> None:
        self._asker = asker
        self._resolver = resolver
        self._target = target
        self._name = name_of(target.fqdn)
        self._budget = Budget()
        self._extra_budget = Budget(EXTRA_QUERIES_MAX)
        self._hosts: dict[str, HostAddresses] = {}
        self._not_public: list[str] = []
        self._is_online: bool | None = None
        self.servers: list[Server] = []

    def observation(self, *, busy_until: datetime | None = None) -> Observation:
        """Return what was seen so far."""
        unseen = [each for each in self._target.delegation.nameservers if each not in self._hosts]
        for host in unseen:
            self._hosts[host] = HostAddresses(host, failure="unknown")
        return Observation(
            tuple(self._hosts.values()),
            tuple(self.servers),
            tuple(self._not_public),
            self._is_online,
            busy_until,
        )

    async def resolve(self, allowed: Sequence[Network]) -> None:
        """Find the addresses of the nameservers, from glue or the DNS, and choose those that may be asked."""
        delegation = self._target.delegation
        glued = glue_addresses(delegation)

        async def find(host: str) -> None:
            if host in glued:
                self._hosts[host] = HostAddresses(host, glued[host])
            else:
                self._hosts[host] = await self._resolver.addresses(host, self._budget)

        await asyncio.gather(*(find(host) for host in delegation.nameservers))
        # The first address of each host comes first, so that each host is asked.
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
        """Ask the servers: what decides comes first, so that it isn't lost if the queries or the time run out."""
        await self._for_each(self.servers, self._ask_soa)
        answered = [each for each in self.servers if each.soa.message or each.soa_plain.message]
        if self.servers and not answered:
            self._is_online = await self._resolver.is_online(self._budget)
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
            await self._for_each(answered, self._asking(question))

    async def _for_each(self, servers: Sequence[Server], ask: Callable[[Server], Awaitable[None]]) -> None:
        await asyncio.gather(*(ask(server) for server in servers))

    async def _ask_soa(self, server: Server) -> None:
        server.soa = await self._asker.ask(server.address, self._name, "SOA", self._budget)
        message = server.soa.message
        if message is None:
            has_edns_error = server.soa.failure in ("no_answer", "malformed")
        else:
            has_edns_error = message.rcode() in (dns.rcode.FORMERR, dns.rcode.NOTIMP)
        if has_edns_error:
            await asyncio.gather(self._ask_soa_tcp(server), self._ask_soa_plain(server))
        elif message is not None and message.flags & dns.flags.TC:  # the signatures are judged
            await self._ask_soa_tcp(server)

    async def _ask_soa_plain(self, server: Server) -> None:
        server.soa_plain = await self._asker.ask(server.address, self._name, "SOA", self._budget, edns=False)

    async def _ask_soa_tcp(self, server: Server) -> None:
        server.soa_tcp = await self._asker.ask(server.address, self._name, "SOA", self._budget, tcp=True)

    async def _ask_dnskey(self, server: Server) -> None:
        server.dnskey_udp, server.dnskey = await self._asker.ask_whole(
            server.address, self._name, "DNSKEY", self._budget
        )

    async def _ask_nameservers(self, server: Server) -> None:
        _, server.nameservers = await self._asker.ask_whole(server.address, self._name, "NS", self._budget)

    async def _ask_recursion(self, server: Server) -> None:
        """Ask for the parent zone, which only a resolver for everyone answers."""
        parent: dns.name.Name = name_of(self._target.domain)
        server.recursion = await self._asker.ask(server.address, parent, "SOA", self._budget, recursion=True)

    async def _ask_addresses(self, server: Server) -> None:
        """Ask one server for the addresses of the nameservers at or below the name, to compare them with the glue."""
        for host in self._target.delegation.nameservers:
            if is_at_or_below(host, self._target.fqdn):
                for family in ("A", "AAAA"):
                    reply = await self._asker.ask(server.address, name_of(host), family, self._budget)
                    server.addresses[host, family] = reply

    def _asking(self, question: Question) -> Callable[[Server], Awaitable[None]]:
        async def ask(server: Server) -> None:
            name, rdtype = question
            server.extra[question] = await self._asker.ask(
                server.address, name_of(name), rdtype, self._extra_budget, tcp=True
            )

        return ask


def glue_addresses(delegation: Delegation) -> dict[str, tuple[str, ...]]:
    """Return the glue by host: all its addresses, those of IPv4 first."""
    found: dict[str, list[str]] = {}
    for version in ("ipv4", "ipv6"):
        for entry in delegation.glue:
            address = getattr(entry, version)
            if address is not None:
                found.setdefault(entry.host, []).append(address)
    return {host: tuple(addresses) for host, addresses in found.items()}
