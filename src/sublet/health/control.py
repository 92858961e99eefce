"""Find out whether this host can check delegations.

A fault of this host, its network or its resolver is never a fault of a name.

The control group are the root servers, nameservers of names that were healthy at their last check, and the
registry's resolver. They get a question in each way in which nameservers are asked: over UDP and TCP, with
IPv4 and IPv6. A family without a route isn't used for checks, so it isn't tested either.
"""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype

from sublet.health.dns_client import DnsClient
from sublet.health.model import IMPAIRED, UNKNOWN, Finding, Level, Reply, Report, Server, find_rrset, name_of
from sublet.health.query_limits import Budget
from sublet.health.resolve import ROOT_SERVERS, ForwardingResolver

ROUND = timedelta(minutes=1)
"""How long a control is valid for checks that find nothing wrong. A check that finds a fault needs a control
that began after it.
"""
SERVERS_MAX = 3
"""The maximum number of servers that are asked in each way. One answer is enough."""
PEERS_MIN = 3
"""Nameservers of healthy names are asked only if they are known in this number of networks: fewer may fail
together.
"""
PEERS_MAX = 100
PEER_FOR = timedelta(days=4)
"""How long after its last check a healthy name's nameserver is in the control group. If the network stays
silent for longer, its names are broken.
"""
CLOCK_SLACK = timedelta(hours=1)
NO_ROUTE = "This host has no route to the root servers."
WAYS = tuple((family, transport) for transport in ("UDP", "TCP") for family in ("IPv4", "IPv6"))

_Member = tuple[str, dns.name.Name]
"""A server of the control group: its address, and a zone that it serves."""


class Control:
    """Asks the control group, for all checks of a process.

    `problem` is the result of the last control: a sentence, or None. `root_servers` are the addresses of the
    root servers.
    """

    def __init__(
        self,
        client: DnsClient,
        root_hints: Sequence[str],
        resolver: ForwardingResolver | None,
        now: Callable[[], datetime],
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        """Without `root_hints`, the resolver names the root servers; without a resolver, they are those of
        the Internet.

        `monotonic` is a clock that doesn't jump, to find jumps of the wall clock. Without it, only the root
        zone's signatures show those.
        """
        self.root_servers = root_hints or ROOT_SERVERS
        self._knows_root_servers = bool(root_hints)
        self.problem: str | None = None
        self._client = client
        self._resolver = resolver
        self._now = now
        self._monotonic = monotonic
        self._started = (now(), 0.0 if monotonic is None else monotonic())
        self._lock = asyncio.Lock()
        self._began = 0.0
        self._began_at: datetime | None = None
        self._peers: OrderedDict[str, tuple[datetime, _Member]] = OrderedDict()

    async def find_problem(self, *, after: float | None = None) -> str | None:
        """Return why this host can't check delegations, or None, by a control that began within the last
        `ROUND`.

        With `after`, an instant of the event loop's clock, the control also began after it, and included
        nameservers of healthy names. Checks that wait together share a control. Without `after`, a missing
        route to the root servers is no problem: if a check finds no fault nevertheless, the nameservers have
        answered.
        """
        async with self._lock:
            is_new = self._began_at is not None and timedelta() <= self._now() - self._began_at < ROUND
            if not is_new or (after is not None and self._began < after):
                began, began_at = asyncio.get_running_loop().time(), self._now()
                self.problem = await self._ask(includes_peers=after is not None)
                self._began, self._began_at = began, began_at
            return None if after is None and self.problem == NO_ROUTE else self.problem

    def remember(self, fqdn: str, servers: Sequence[Server], *, is_healthy: bool) -> None:
        """Add the nameservers of a healthy name to the control group, one for each network, or remove those
        of another name.
        """
        for each in servers:
            network = str(ip_network((each.address, 48 if ":" in each.address else 24), strict=False))
            self._peers.pop(network, None)
            if is_healthy:
                self._peers[network] = (self._now(), (each.address, name_of(fqdn)))
        while len(self._peers) > PEERS_MAX:
            self._peers.popitem(last=False)

    def _find_jump(self) -> str | None:
        """Return that the wall clock has jumped since the process started, or None.

        It may have been right before or after the jump.
        """
        if self._monotonic is None:
            return None
        jump = self._now() - self._started[0] - timedelta(seconds=self._monotonic() - self._started[1])
        if abs(jump) <= CLOCK_SLACK:
            return None
        direction = "forward" if jump > timedelta() else "back"
        return (
            f"The clock jumped {direction} while the worker ran. Set it, or restart the worker if it is "
            "right now."
        )

    async def _ask(self, *, includes_peers: bool) -> str | None:
        jump = self._find_jump()
        if jump is not None:
            return jump
        problem = await self._ask_resolver()
        if problem is not None:
            return problem
        roots = await self._ask_in_each_way([(each, dns.name.root) for each in self.root_servers])
        if all(each.failure == "no_route" for each in roots):
            return NO_ROUTE
        problem = _find_silent_way(roots, "root server") or _clock_problem(
            [each.message for each in roots], self._now()
        )
        if problem is not None or not includes_peers:
            return problem
        healthy = [peer for at, peer in self._peers.values() if self._now() - at < PEER_FOR]
        peers = await self._ask_in_each_way(healthy, servers_min=PEERS_MIN)
        return _find_silent_way(peers, "nameserver of a name that was healthy")

    async def _ask_in_each_way(self, members: list[_Member], *, servers_min: int = 1) -> list[Reply]:
        """Return a reply for each of `WAYS`: `no_route` if fewer than `servers_min` members can be asked in
        this way.
        """
        members = random.sample(members, len(members))
        by_family = {
            family: [each for each in members if (":" in each[0]) == (family == "IPv6")]
            for family in ("IPv4", "IPv6")
        }
        return await asyncio.gather(
            *(
                self._ask_first(by_family[family] if len(by_family[family]) >= servers_min else (), transport)
                for family, transport in WAYS
            )
        )

    async def _ask_first(self, members: Sequence[_Member], transport: str) -> Reply:
        """Return an authoritative answer of a member about its zone, or the failure."""
        members = members[:SERVERS_MAX]
        failure = "no_route"
        for asked in (members[:1], members[1:]):
            replies = await asyncio.gather(*(self._ask_member(*each, transport) for each in asked))
            for (_, zone), reply in zip(asked, replies, strict=True):
                if _is_authoritative(reply, zone):
                    return reply
                failure = failure if reply.failure == "no_route" else "no_answer"
        return Reply(failure=failure)

    async def _ask_member(self, address: str, zone: dns.name.Name, transport: str) -> Reply:
        return await self._client.ask(address, zone, "SOA", Budget(), tcp=transport == "TCP", tries=1)

    async def _ask_resolver(self) -> str | None:
        if self._resolver is None:
            return None
        message = (await self._resolver.ask(dns.name.root, "SOA", Budget())).message
        if message is None:
            return "The resolver (health_resolver) doesn't answer."
        if message.rcode() != dns.rcode.NOERROR:
            return (
                f"The resolver (health_resolver) answers {dns.rcode.to_text(message.rcode())} for the root "
                "zone."
            )
        if not message.flags & dns.flags.AD:
            return "The resolver (health_resolver) doesn't validate."
        if not self._knows_root_servers:
            found = await self._resolver.root_servers(Budget())
            self.root_servers, self._knows_root_servers = found or self.root_servers, bool(found)
        return None


def impaired_report(problem: str, now: datetime) -> Report:
    """Return the report of a check that says nothing about the name, because of a problem of the registry."""
    finding = Finding(
        IMPAIRED,
        Level.NOTICE,
        "registry",
        f"The registry can't check delegations at the moment. {problem}",
        "No action needed. The registry checks the name again soon.",
    )
    return Report(UNKNOWN, (finding,), now)


def _find_silent_way(replies: Sequence[Reply], member: str) -> str | None:
    """Return that no member answered in one of the ways, or None.

    A family counts if there is a route for one of its ways.
    """
    used = {family for (family, _), reply in zip(WAYS, replies, strict=True) if reply.failure != "no_route"}
    for (family, transport), reply in zip(WAYS, replies, strict=True):
        if reply.message is None and family in used:
            return f"No {member} answers this host over {transport} with {family}."
    return None


def _is_authoritative(reply: Reply, zone: dns.name.Name) -> bool:
    """True if a reply is about the zone. Without authority, a resolver on the way has answered instead."""
    message = reply.message
    return (
        message is not None
        and bool(message.flags & dns.flags.AA)
        and find_rrset(message, zone, "SOA") is not None
    )


def _clock_problem(messages: Sequence[dns.message.Message | None], now: datetime) -> str | None:
    """Return why the clock must be wrong, or None: the root zone is always signed for the present."""
    for message in messages:
        for rrset in message.answer if message is not None else ():
            if rrset.rdtype == dns.rdatatype.RRSIG:
                begins = datetime.fromtimestamp(min(each.inception for each in rrset), UTC)
                ends = datetime.fromtimestamp(max(each.expiration for each in rrset), UTC)
                if not begins - CLOCK_SLACK <= now <= ends:
                    return (
                        f"The clock of this host says {now:%Y-%m-%d %H:%M} UTC, but the root zone is signed "
                        f"from {begins:%Y-%m-%d %H:%M} to {ends:%Y-%m-%d %H:%M} UTC."
                    )
    return None
