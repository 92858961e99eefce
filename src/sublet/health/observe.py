"""Observe a delegation: send each nameserver, at each address, the queries of a resolver.

`findings.py` draws the conclusions. The number of queries and the time are limited, because registrants
choose the servers.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime
from functools import partial

import dns.flags
import dns.name
import dns.rdatatype

from sublet.dns.names import is_at_or_below
from sublet.dns.types import Delegation
from sublet.health.answers import has_edns_error, is_servfail, questions_of_resolvers
from sublet.health.dns_client import DnsClient
from sublet.health.model import (
    HostAddresses,
    Observation,
    Question,
    Reply,
    Server,
    Target,
    find_rrset,
    name_of,
    text_of,
)
from sublet.health.query_limits import (
    ADDRESSES_MAX,
    CHECK_SECONDS,
    EXTRA_QUERIES_MAX,
    Budget,
    Network,
    may_ask,
)
from sublet.health.resolve import ForwardingResolver, Resolver
from sublet.structs import replace

Claim = Callable[[Sequence[str]], AbstractAsyncContextManager[datetime | None]]
"""Claims addresses for one check. Yields None, or the time to try again if another check has claimed one of
the addresses.
"""
UNLISTED_MAX = 6
"""The maximum number of nameservers that only the zone names, and of their addresses, that a check asks."""


async def observe(
    target: Target,
    client: DnsClient,
    resolver: Resolver,
    claim: Claim,
    *,
    allowed: Sequence[Network] = (),
    seconds: float = CHECK_SECONDS,
    extra: Sequence[Question] = (),
    forwarding: ForwardingResolver | None = None,
) -> Observation:
    """Return the observations of a check, after at most `seconds`. Nothing that servers do raises an error.

    `claim` claims the addresses, so that only one check of all processes asks an address at a time. Each
    server that answers is also asked the `extra` questions, over TCP, in their order. A question for CDS
    records is asked over UDP too. `forwarding` is asked what clients ask resolvers, if the delegation is
    published.
    """
    check = _Check(client, resolver, target, allowed)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await check.resolve()
            async with claim([each.address for each in check.servers]) as busy_until:
                if busy_until is not None:
                    return check.observation(busy_until=busy_until)
                resolving = check.ask_resolver(forwarding) if forwarding and target.is_published else None
                await asyncio.gather(check.ask_all(), *([resolving] if resolving else []))
                await check.ask_extra(extra)
                await check.find_unlisted()
            await check.ask_unlisted(claim)
    return check.observation()


class _Check:
    """The progress of one check. `observation` works at any time, also after a timeout."""

    def __init__(
        self, client: DnsClient, resolver: Resolver, target: Target, allowed: Sequence[Network]
    ) -> None:
        self._client = client
        self._resolver = resolver
        self._target = target
        self._allowed = allowed
        self._name = name_of(target.fqdn)
        self._questions = questions_of_resolvers(target.fqdn, f"sublet-{secrets.token_hex(8)}")
        self._budget = Budget()
        self._extra_budget = Budget(EXTRA_QUERIES_MAX)
        self._hosts: dict[str, HostAddresses] = {}
        self._not_public: list[str] = []
        self.servers: list[Server] = []
        self._unlisted_hosts: list[HostAddresses] = []
        self._unlisted: list[Server] = []
        self._resolved: dict[Question, Reply] = {}

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
            tuple(self._unlisted_hosts),
            tuple(self._unlisted),
            self._resolved,
        )

    async def resolve(self) -> None:
        """Find the addresses of the nameservers in the glue or the DNS, and choose the addresses that may be
        asked.
        """
        delegation = self._target.delegation
        glued = glue_addresses(delegation)

        async def find(host: str) -> None:
            if host in glued:
                self._hosts[host] = HostAddresses(host, glued[host])
            else:
                self._hosts[host] = await self._resolver.addresses(host, self._budget)

        await asyncio.gather(*(find(host) for host in delegation.nameservers))
        hosts = [self._hosts[host] for host in delegation.nameservers]
        self._not_public = self._choose(hosts, self.servers, ADDRESSES_MAX)

    def _choose(self, hosts: Sequence[HostAddresses], servers: list[Server], addresses_max: int) -> list[str]:
        """Add a server for each address that may be asked, and return the others.

        The first addresses of all hosts come before all second addresses, so that the maximum omits no host.
        """
        not_public = []
        pairs = sorted(
            ((index, each.host, address) for each in hosts for index, address in enumerate(each.addresses)),
            key=lambda each: each[0],
        )
        for _, host, address in pairs:
            if not may_ask(address, self._allowed):
                not_public.append(address)
            elif len(servers) < addresses_max:
                servers.append(Server(host, address))
        return not_public

    async def ask_all(self) -> None:
        """Ask the servers.

        The questions that decide the state come first, because the queries or the time may run out.
        """
        await self._for_each(self.servers, self._ask_first)
        answered = [each for each in self.servers if _is_answering(each)]
        await self._for_each(answered, self._ask_deciding)
        await self._for_each(answered, self._ask_nameservers)
        await self._for_each(answered, self._ask_recursion)
        if answered:
            await self._ask_addresses(answered[0])

    async def ask_extra(self, extra: Sequence[Question]) -> None:
        """Ask the servers that answered the additional questions."""
        answered = [each for each in self.servers if _is_answering(each)]
        for question in extra:
            await self._for_each(answered, partial(self._ask_extra, question))

    async def ask_resolver(self, resolver: ForwardingResolver) -> None:
        """Ask the registry's resolver what clients ask it.

        If it fails for a name beside this one too, its replies don't count.
        """
        budget = Budget()
        replies = await asyncio.gather(
            *(resolver.ask(name_of(name), rdtype, budget) for name, rdtype in self._questions)
        )
        beside = name_of(f"sublet-{secrets.token_hex(8)}.{self._target.domain}")
        if any(is_servfail(each) for each in replies) and is_servfail(
            await resolver.ask(beside, "A", budget)
        ):
            return
        self._resolved = dict(zip(self._questions, replies, strict=True))

    async def find_unlisted(self) -> None:
        """Find the addresses of the nameservers that only the zone names."""
        named = {
            text_of(each.target): server
            for server in self.servers
            for each in find_rrset(server.nameservers.message, self._name, "NS") or ()
        }
        hosts = sorted(named.keys() - set(self._target.delegation.nameservers))[:UNLISTED_MAX]
        self._unlisted_hosts += await asyncio.gather(
            *(self._find_unlisted(each, named[each]) for each in hosts)
        )

    async def ask_unlisted(self, claim: Claim) -> None:
        """Ask the nameservers that only the zone names for the name's address.

        If another check is asking them, leave them out.
        """
        chosen: list[Server] = []
        self._choose(self._unlisted_hosts, chosen, UNLISTED_MAX)
        if not chosen:
            return
        known = {each.address: each for each in self.servers}
        asked = [each for each in chosen if each.address not in known]
        async with claim([each.address for each in asked]) as busy_until:
            if busy_until is None:
                await self._for_each(asked, self._ask_first)
                self._unlisted += [
                    replace(known[each.address], host=each.host) if each.address in known else each
                    for each in chosen
                ]

    async def _find_unlisted(self, host: str, server: Server) -> HostAddresses:
        """Find the addresses of a nameserver. For one below the name, ask the server that named it."""
        if not is_at_or_below(host, self._target.fqdn):
            return await self._resolver.addresses(host, self._budget)
        addresses: list[str] = []
        for family in ("A", "AAAA"):
            reply = await self._client.ask(server.address, name_of(host), family, self._budget)
            if reply.message is None:
                return HostAddresses(host, failure="unknown")
            addresses += [each.address for each in find_rrset(reply.message, name_of(host), family) or ()]
        return HostAddresses(host, tuple(addresses), None if addresses else "not_found")

    async def _for_each(self, servers: Sequence[Server], ask: Callable[[Server], Awaitable[None]]) -> None:
        await asyncio.gather(*(ask(server) for server in servers))

    async def _ask_first(self, server: Server) -> None:
        """Ask for the name's address. If there is no answer, find out whether the server answers anything."""
        first = self._questions[0]
        reply = server.answers[first] = await self._ask_as_resolver(server, first)
        if reply.failure in ("no_route", "not_asked"):
            server.soa = reply
        elif reply.message is None:
            await asyncio.gather(
                self._ask_soa(server), self._ask_soa_tcp(server), self._ask_soa_plain(server)
            )

    async def _ask_deciding(self, server: Server) -> None:
        # One after the other, because replies of many checks at once would hold up the event loop.
        for question in self._questions[1:]:
            await self._ask_answer(server, question)
        # BIND asks for the keys of signatures, also if no DS record says that the zone is signed.
        if self._target.delegation.ds_records or _sends_signatures(server):
            await self._ask_dnskey(server)
        if server.soa.failure == "not_asked":
            await self._ask_soa(server)

    async def _ask_answer(self, server: Server, question: Question) -> None:
        server.answers[question] = await self._ask_as_resolver(server, question)

    async def _ask_as_resolver(self, server: Server, question: Question) -> Reply:
        """Ask over UDP, over TCP after a truncated answer, and without EDNS after an EDNS error.

        Resolvers do so, and don't change the way of asking after a timeout.
        """
        name, rdtype = name_of(question[0]), question[1]
        reply = await self._client.ask(server.address, name, rdtype, self._budget)
        if reply.message is None:
            return reply
        if reply.message.flags & dns.flags.TC:
            again = await self._client.ask(server.address, name, rdtype, self._budget, tcp=True)
        elif has_edns_error(reply):
            again = await self._client.ask(server.address, name, rdtype, self._budget, edns=False)
        else:
            return reply
        return again if again.message is not None else reply

    async def _ask_soa(self, server: Server) -> None:
        server.soa = await self._client.ask(server.address, self._name, "SOA", self._budget)
        message = server.soa.message
        if message is not None and has_edns_error(server.soa):
            await self._ask_soa_plain(server)
        elif message is not None and message.flags & dns.flags.TC:
            # The answer was too long for UDP with its signatures.
            await self._ask_soa_tcp(server)

    async def _ask_soa_plain(self, server: Server) -> None:
        server.soa_plain = await self._client.ask(server.address, self._name, "SOA", self._budget, edns=False)

    async def _ask_soa_tcp(self, server: Server) -> None:
        if server.soa_tcp.failure == "not_asked":
            server.soa_tcp = await self._client.ask(server.address, self._name, "SOA", self._budget, tcp=True)

    async def _ask_dnskey(self, server: Server) -> None:
        server.dnskey_udp, server.dnskey = await self._client.ask_with_fallback(
            server.address, self._name, "DNSKEY", self._budget
        )

    async def _ask_nameservers(self, server: Server) -> None:
        await self._ask_soa_tcp(server)
        _, server.nameservers = await self._client.ask_with_fallback(
            server.address, self._name, "NS", self._budget
        )

    async def _ask_recursion(self, server: Server) -> None:
        """Ask for the SOA record of the parent zone, which only an open resolver answers."""
        parent: dns.name.Name = name_of(self._target.domain)
        server.recursion = await self._client.ask(server.address, parent, "SOA", self._budget, recursion=True)

    async def _ask_addresses(self, server: Server) -> None:
        """Ask one server for the addresses of the nameservers at or below the name, to compare them with the
        glue.
        """
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


def _sends_signatures(server: Server) -> bool:
    messages = [each.message for each in server.answers.values() if each.message is not None]
    return any(
        rrset.rdtype == dns.rdatatype.RRSIG for each in messages for rrset in (*each.answer, *each.authority)
    )


def _is_answering(server: Server) -> bool:
    """True if a server answered the first question, or one about its SOA record."""
    return any(each.message for each in (*server.answers.values(), server.soa, server.soa_plain))


def glue_addresses(delegation: Delegation) -> dict[str, tuple[str, ...]]:
    """Return all glue addresses by host, IPv4 addresses first."""
    found: dict[str, list[str]] = {}
    for version in ("ipv4", "ipv6"):
        for entry in delegation.glue:
            address = getattr(entry, version)
            if address is not None:
                found.setdefault(entry.host, []).append(address)
    return {host: tuple(addresses) for host, addresses in found.items()}
