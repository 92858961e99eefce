"""Find the addresses of nameservers with a validating resolver (`health_resolver`), or by iteration from the
root, without validation.
"""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from ipaddress import ip_network
from typing import Protocol

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset
from msgspec import Struct

from sublet.health.dns_client import DnsClient
from sublet.health.model import NOT_ASKED, HostAddresses, Reply, find_rrset, name_of, text_of
from sublet.health.query_limits import ADDRESSES_MAX, Budget, Network, may_ask
from sublet.structs import replace

ALIASES_MAX = 4
"""The maximum number of CNAME records that are followed from a host."""
REFERRALS_MAX = 12
"""The maximum number of referrals from the root to a host."""
DEPTH_MAX = 3
"""The maximum depth of resolving nameservers of nameservers."""
SERVERS_MAX = 3
"""The maximum number of a zone's servers that are tried for one question."""
CACHED_ZONES_MAX = 20_000
"""The maximum number of zones whose servers are cached."""
ZONE_CACHE_SECONDS = 3600.0
"""The maximum time for which the servers of a zone are cached."""
ROOT_SERVERS = (
    "198.41.0.4",
    "170.247.170.2",
    "192.33.4.12",
    "199.7.91.13",
    "192.203.230.10",
    "192.5.5.241",
    "192.112.36.4",
    "198.97.190.53",
    "192.36.148.17",
    "192.58.128.30",
    "193.0.14.129",
    "199.7.83.42",
    "202.12.27.33",
    "2001:503:ba3e::2:30",
    "2801:1b8:10::b",
    "2001:500:2::c",
    "2001:500:2d::d",
    "2001:500:a8::e",
    "2001:500:2f::f",
    "2001:500:12::d0d",
    "2001:500:1::53",
    "2001:7fe::53",
    "2001:503:c27::2:30",
    "2001:7fd::1",
    "2001:500:9f::42",
    "2001:dc3::35",
)
"""The addresses of the root servers (https://www.internic.net/domain/named.root)."""
ROOT_HOSTS_MAX = 6
"""The number of root servers whose addresses the resolver is asked for."""
CACHED_HOSTS_MAX = 20_000
"""The maximum number of nameservers whose addresses are cached."""
HOST_CACHE_SECONDS = 300.0
"""The time for which the addresses of a nameserver are cached."""
SPECIAL_USE_DOMAINS = frozenset({"alt", "example", "invalid", "local", "localhost", "onion"})
"""Top-level domains that the DNS never has (RFC 6761, 6762, 7686, 9476). No query is sent for nameservers
below them.
"""
_FAMILIES = ("A", "AAAA")


def is_special_use(host: str) -> bool:
    """True if the DNS never has this host, so no query is sent for it."""
    return host.rpartition(".")[2] in SPECIAL_USE_DOMAINS


class Resolver(Protocol):
    """Finds the addresses of nameservers."""

    async def addresses(self, host: str, budget: Budget) -> HostAddresses:
        """Return the addresses of a host, or the failure. Raises nothing."""


class _Answer(Struct, frozen=True):
    """The answer for one name and type: addresses, an alias, or a `failure` and `missing_in` of
    `HostAddresses`.
    """

    addresses: tuple[str, ...] = ()
    alias: str | None = None
    failure: str | None = None
    missing_in: str | None = None


def _merge(host: str, found: Sequence[_Answer]) -> HostAddresses:
    addresses = tuple(dict.fromkeys(each for one in found for each in one.addresses))
    alias = next((one.alias for one in found if one.alias), None)
    if addresses:
        return HostAddresses(host, addresses[:ADDRESSES_MAX], alias=alias)
    failures = [one.failure or "not_found" for one in found]
    failure = next((each for each in ("unknown", "bogus") if each in failures), "not_found")
    missing_in = next((one.missing_in for one in found if one.missing_in is not None), None)
    return HostAddresses(host, (), failure, alias, missing_in)


class CachingResolver:
    """Caches the addresses that another resolver found, because many names have the same nameservers."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._found: OrderedDict[str, tuple[float, HostAddresses]] = OrderedDict()

    async def addresses(self, host: str, budget: Budget) -> HostAddresses:
        """Return the addresses of a host, or the failure. Failures aren't cached."""
        if is_special_use(host):
            return HostAddresses(host, failure="not_found")
        now = asyncio.get_running_loop().time()
        until, found = self._found.get(host, (0.0, HostAddresses(host)))
        if until > now:
            return found
        found = await self._resolver.addresses(host, budget)
        if found.addresses:
            self._found[host] = (now + HOST_CACHE_SECONDS, found)
            while len(self._found) > CACHED_HOSTS_MAX:
                self._found.popitem(last=False)
        return found


class ForwardingResolver:
    """Asks a validating recursive resolver."""

    def __init__(self, client: DnsClient, address: str, port: int) -> None:
        self.without_cache: Resolver | None = None
        """Looks for addresses that the resolver fails to find, to learn which of both is at fault."""
        self._client = client
        self._address = address
        self._port = port

    async def addresses(self, host: str, budget: Budget) -> HostAddresses:
        """Return the addresses of a host, or the failure."""
        name = name_of(host)
        answers = await asyncio.gather(*(self._find(name, family, budget) for family in _FAMILIES))
        found = _merge(host, answers)
        if found.failure == "unknown" and self.without_cache is not None:
            # Addresses that were found without the resolver don't count: the resolver has failed.
            alone = await self.without_cache.addresses(host, budget)
            return replace(found, failure="unknown" if alone.addresses else alone.failure)
        return found

    async def root_servers(self, budget: Budget) -> tuple[str, ...]:
        """Return addresses of root servers, so that a closed network needs no setting for them; empty if the
        resolver fails.
        """
        message = (await self.ask(dns.name.root, "NS", budget)).message
        found = find_rrset(message, dns.name.root, "NS") if message is not None else None
        hosts = [each.target for each in found or ()][:ROOT_HOSTS_MAX]
        answers = await asyncio.gather(
            *(self._find(host, family, budget) for host in hosts for family in _FAMILIES)
        )
        return tuple(address for each in answers for address in each.addresses)

    async def _find(self, name: dns.name.Name, family: str, budget: Budget) -> _Answer:
        reply = await self.ask(name, family, budget)
        if reply.message is None:
            return _Answer(failure="unknown")
        if reply.message.rcode() not in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN):
            return await self._explain_servfail(name, family, budget)
        rdtype = dns.rdatatype.from_text(family)
        alias, addresses = None, []
        for rrset in reply.message.answer:
            if rrset.rdtype == dns.rdatatype.CNAME and rrset.name == name:
                alias = text_of(rrset[0].target)
            if rrset.rdtype == rdtype:
                addresses += [each.address for each in rrset]
        if addresses:
            return _Answer(tuple(addresses), alias)
        missing = reply.message.rcode() == dns.rcode.NXDOMAIN and alias is None
        return _Answer(
            alias=alias, failure="not_found", missing_in=_zone_of(reply.message) if missing else None
        )

    async def _explain_servfail(self, name: dns.name.Name, family: str, budget: Budget) -> _Answer:
        """Query again without validation after a SERVFAIL, and return the failure: `bogus`, or `unknown` if
        the resolver fails again.
        """
        unchecked = await self.ask(name, family, budget, checking_disabled=True)
        if unchecked.message is not None and unchecked.message.rcode() == dns.rcode.NOERROR:
            return _Answer(failure="bogus")
        return _Answer(failure="unknown")

    async def ask(
        self, name: dns.name.Name, rdtype: str, budget: Budget, *, checking_disabled: bool = False
    ) -> Reply:
        """Return the resolver's reply to one question: over UDP, or over TCP if that
        fails or is truncated.
        """
        reply = NOT_ASKED
        for tcp in (False, True):
            reply = await self._client.ask(
                self._address,
                name,
                rdtype,
                budget,
                tcp=tcp,
                recursion=True,
                checking_disabled=checking_disabled,
                port=self._port,
                is_rate_limited=False,
            )
            if reply.message is not None and not reply.message.flags & dns.flags.TC:
                break
        return reply


def _zone_of(message: dns.message.Message) -> str | None:
    """Return the zone of a negative answer: the owner of its SOA record."""
    return next(
        (text_of(rrset.name) for rrset in message.authority if rrset.rdtype == dns.rdatatype.SOA), None
    )


class _ZoneServers(Struct, frozen=True):
    """A zone with its nameservers, and their addresses from glue."""

    zone: dns.name.Name
    addresses: tuple[str, ...]
    hosts: tuple[dns.name.Name, ...] = ()


class IteratingResolver:
    """Follows referrals from the root servers, and caches the servers of each zone."""

    def __init__(
        self, client: DnsClient, root_servers: Sequence[str], allowed: Sequence[Network] = ()
    ) -> None:
        self._client = client
        self._root = _ZoneServers(dns.name.root, tuple(root_servers))
        self._allowed = (*allowed, *(ip_network(each) for each in root_servers))
        self._cuts: OrderedDict[dns.name.Name, tuple[float, _ZoneServers]] = OrderedDict()

    async def addresses(self, host: str, budget: Budget) -> HostAddresses:
        """Return the addresses of a host, or the failure."""
        name = name_of(host)
        # One after the other, because the second query uses the zones that the first one cached.
        found = [await self._resolve(name, family, budget, 0) for family in _FAMILIES]
        return _merge(host, found)

    async def _resolve(self, name: dns.name.Name, family: str, budget: Budget, depth: int) -> _Answer:
        """Resolve a name, and follow its aliases."""
        alias: str | None = None
        for _ in range(ALIASES_MAX + 1):
            found = await self._find(name, family, budget, depth)
            if found.alias is None:
                missing_in = found.missing_in if alias is None else None
                return _Answer(found.addresses, alias, found.failure, missing_in)
            alias = alias or found.alias
            name = name_of(found.alias)
        return _Answer(alias=alias, failure="not_found")

    async def _find(self, name: dns.name.Name, family: str, budget: Budget, depth: int) -> _Answer:
        cut = self._find_nearest_zone(name)
        for _ in range(REFERRALS_MAX):
            servers = cut.addresses or await self._addresses_of(cut.hosts, budget, depth)
            message, has_route = await self._ask_one_of(servers, name, family, budget)
            if message is None:
                # No server of the zone answers. Whether this host is online, the control group says
                # (`control.py`).
                is_zone_at_fault = cut.zone != dns.name.root and has_route and not budget.is_spent
                return _Answer(failure="not_found" if is_zone_at_fault else "unknown")
            answered = _read_answer(message, name, family)
            if answered is not None:
                return answered
            referred = _read_referral(message, cut.zone, name)
            if referred is None:
                return _Answer(failure="not_found")
            cut = self._cache_zone(referred, message)
        return _Answer(failure="not_found")

    async def _addresses_of(
        self, hosts: Iterable[dns.name.Name], budget: Budget, depth: int
    ) -> tuple[str, ...]:
        """Return the addresses of the first host that has any.

        `hosts` are the servers of a zone without glue.
        """
        if depth >= DEPTH_MAX:
            return ()
        for host in tuple(hosts)[:SERVERS_MAX]:
            found = await self._resolve(host, "A", budget, depth + 1)
            if found.addresses:
                return found.addresses
        return ()

    async def _ask_one_of(
        self, servers: Sequence[str], name: dns.name.Name, rdtype: str, budget: Budget
    ) -> tuple[dns.message.Message | None, bool]:
        """Return the first usable answer of a zone's servers, or None; and False if this host has no route to
        any of them.
        """
        usable = [each for each in servers if may_ask(each, self._allowed)]
        random.shuffle(usable)
        has_route = not usable
        for address in sorted(usable, key=lambda each: ":" in each)[:SERVERS_MAX]:
            _, reply = await self._client.ask_with_fallback(address, name, rdtype, budget)
            has_route = has_route or reply.failure != "no_route"
            if reply.message is not None and reply.message.rcode() in (
                dns.rcode.NOERROR,
                dns.rcode.NXDOMAIN,
            ):
                return reply.message, True
        return None, has_route

    def _find_nearest_zone(self, name: dns.name.Name) -> _ZoneServers:
        now = asyncio.get_running_loop().time()
        while name != dns.name.root:
            until, cut = self._cuts.get(name, (0.0, self._root))
            if until > now:
                return cut
            name = name.parent()
        return self._root

    def _cache_zone(self, cut: _ZoneServers, message: dns.message.Message) -> _ZoneServers:
        seconds = min([ZONE_CACHE_SECONDS, *(each.ttl for each in message.authority)])
        self._cuts[cut.zone] = (asyncio.get_running_loop().time() + seconds, cut)
        while len(self._cuts) > CACHED_ZONES_MAX:
            self._cuts.popitem(last=False)
        return cut


def _read_answer(message: dns.message.Message, name: dns.name.Name, family: str) -> _Answer | None:
    """Return the content of an answer about a name, or None if the message is a referral."""
    rdtype = dns.rdatatype.from_text(family)
    for rrset in message.answer:
        if rrset.name == name and rrset.rdtype == rdtype:
            return _Answer(tuple(each.address for each in rrset))
        if rrset.name == name and rrset.rdtype == dns.rdatatype.CNAME:
            return _Answer(alias=text_of(rrset[0].target))
    if message.rcode() == dns.rcode.NXDOMAIN:
        return _Answer(failure="not_found", missing_in=_zone_of(message))
    return _Answer(failure="not_found") if message.flags & dns.flags.AA else None


def _read_referral(
    message: dns.message.Message, zone: dns.name.Name, name: dns.name.Name
) -> _ZoneServers | None:
    """Return the zone that a referral from `zone` towards `name` leads to, or None.

    Glue for hosts outside of `zone` is ignored.
    """
    for rrset in message.authority:
        leads = rrset.name != zone and rrset.name.is_subdomain(zone) and name.is_subdomain(rrset.name)
        if rrset.rdtype == dns.rdatatype.NS and leads:
            hosts = tuple(each.target for each in rrset)
            glue = tuple(
                each.address
                for extra in message.additional
                if extra.name in hosts
                and extra.name.is_subdomain(zone)
                and extra.rdtype in (dns.rdatatype.A, dns.rdatatype.AAAA)
                for each in extra
            )
            return _ZoneServers(rrset.name, glue, hosts)
    return None
