"""A small Internet with a name for each finding of delegation health, and the expected
findings of each name.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sublet.dns.types import Delegation, DsRecord, GlueEntry
from sublet.health.model import BROKEN, DEGRADED, HEALTHY, UNKNOWN, Target
from support.dns_world import DAY, Server, World, Zone, ZoneKey, delegation_lines, ds_text, root_and_test
from support.fault_proxy import FaultProxy
from support.faulty_name_server import FaultyNameServer

TLD = "192.5.6.30"
PARENT = "8.8.1.1"
PARENT_DOMAIN = "reg.test"
KNOT, KNOT_TOO, KNOT_SIX = "9.9.1.1", "9.9.2.1", "2620:1:1::1"
BIND, NSD, POWERDNS, RECURSIVE = "11.1.1.1", "12.1.1.1", "13.1.1.1", "14.1.1.1"
DEAD, DEAD_SIX, UNROUTED = "15.1.1.1", "2620:1:2::1", "2620:1:3::1"
RESOLVER = "17.1.1.1"
NO_TCP, UPWARD, SERVFAIL, NO_EDNS, LARGE_UDP = (f"16.1.{number}.1" for number in range(1, 6))

HOSTS = {
    "a": (KNOT,),
    "b": (BIND,),
    "c": (NSD,),
    "d": (POWERDNS,),
    "e": (KNOT_TOO, KNOT_SIX),
    "dead": (DEAD,),
    "half": (KNOT_TOO, DEAD_SIX),
    "unrouted": (UNROUTED,),
    "private": ("10.0.0.1",),
    "recursive": (RECURSIVE,),
    "notcp": (NO_TCP,),
    "upward": (UPWARD,),
    "servfail": (SERVFAIL,),
    "noedns": (NO_EDNS,),
    "large": (LARGE_UDP,),
}
"""The addresses of the nameservers HOST.hosts.test."""


PROXIED = (
    "tc-without-tcp",
    "edns-dropped",
    "edns-dropped-over-udp",
    "apex-servfail",
    "aaaa-dropped",
    "below-servfail",
    "nsec-stripped",
    "soa-nodata",
    "soa-notimp",
    "soa-dropped",
    "alias-at-apex",
    "no-aa",
    "upper-case",
    "dnskey-dropped",
)
PROXIES = {
    f"{fault}-{kind}": FaultProxy(f"16.{network}.{number}.1", behind, fault)
    for number, fault in enumerate(PROXIED, 1)
    for network, kind, behind in ((2, "knot", KNOT), (3, "nsd", NSD))
}
"""The proxies in front of Knot and NSD, by their label in hosts.test."""
HOSTS |= {host: (each.address,) for host, each in PROXIES.items()}


@dataclass(frozen=True)
class Planted:
    """A name below the parent: its nameservers by their label in hosts.test, its DS records and glue, and the
    expected findings.
    """

    label: str
    hosts: tuple[str, ...]
    state: str
    codes: frozenset[str]
    ds: tuple[DsRecord, ...] = ()
    glue: tuple[GlueEntry, ...] = ()
    parent_signed: bool = True

    @property
    def fqdn(self) -> str:
        """The full name."""
        return f"{self.label}.{PARENT_DOMAIN}"

    def target(self) -> Target:
        """Return the name as the target of a check."""
        hosts = tuple(each if "." in each else f"{each}.hosts.test" for each in self.hosts)
        return Target(self.fqdn, PARENT_DOMAIN, Delegation(hosts, self.glue, self.ds), self.parent_signed)


@dataclass
class _Plan:
    zones: dict[str, list[Zone]] = field(default_factory=lambda: {each: [] for each in "abcdr"})
    records: dict[str, list[str]] = field(default_factory=dict)
    cases: list[Planted] = field(default_factory=list)

    def plant(
        self,
        label: str,
        hosts: Sequence[str],
        state: str,
        *codes: str,
        on: str = "ab",
        zone: dict[str, object] | None = None,
        of_second: dict[str, object] | None = None,
        listed: Sequence[str] | None = None,
        extra: Sequence[str] = (),
        ds: Sequence[DsRecord] = (),
        glue: Sequence[GlueEntry] = (),
        parent_signed: bool = True,
    ) -> None:
        """Add a name with its expected findings, and its zone on servers (a: Knot, b: BIND, c: NSD, d:
        PowerDNS, r: the recursive BIND).
        """
        case = Planted(label, tuple(hosts), state, frozenset(codes), tuple(ds), tuple(glue), parent_signed)
        names = listed or case.target().delegation.nameservers
        lines = (*(f"@ NS {each}." for each in names), *extra)
        for number, server in enumerate(on):
            options = {**(zone or {}), **((of_second or {}) if number else {})}
            self.zones[server].append(Zone(case.fqdn, lines, **options))  # type: ignore[arg-type]
        self.cases.append(case)

    def proxied(self, fault: str, state: str, *codes: str, **options: Any) -> None:
        """Add a name with its zone on Knot and NSD, which are behind proxies with a fault."""
        hosts = [f"{fault}-knot", f"{fault}-nsd"]
        self.plant(fault, hosts, state, *codes, on="ac", **options)

    def faulty_server(self, label: str, host: str, state: str, *codes: str) -> None:
        """Add a name with its zone on Knot and on a faulty server."""
        self.plant(label, ["a", host], state, *codes, on="a")
        fqdn = self.cases[-1].fqdn
        self.records[host] = [
            f"{fqdn}. 300 IN SOA ns.{fqdn}. hostmaster.{fqdn}. 1 3600 900 86400 60",
            f"{fqdn}. 300 IN NS a.hosts.test.",
            f"{fqdn}. 300 IN NS {host}.hosts.test.",
        ]


def planted_world() -> tuple[World, list[Planted], ZoneKey]:
    """Return a new world, its names, and the key of its root."""
    plan = _Plan()
    _plant_reach(plan)
    _plant_content(plan)
    _plant_signatures(plan)
    _plant_manners(plan)
    _plant_answers(plan)
    key, root_key = ZoneKey.new(), ZoneKey.new()
    delegations = delegation_lines(each.target() for each in plan.cases)
    hosts = [
        f"{host} {'AAAA' if ':' in address else 'A'} {address}"
        for host, addresses in HOSTS.items()
        for address in addresses
    ]
    parent = Zone(PARENT_DOMAIN, ("@ NS ns", f"ns A {PARENT}", *delegations), key)
    hosts_zone = Zone("hosts.test", ("@ NS ns", f"ns A {PARENT}", *hosts, "alias CNAME a", "lost CNAME gone"))
    tld = (
        "reg NS ns.reg",
        f"ns.reg A {PARENT}",
        f"reg DS {ds_text(key.ds(PARENT_DOMAIN))}",
        "hosts NS ns.hosts",
        f"ns.hosts A {PARENT}",
    )
    servers = (
        *root_and_test(TLD, tld, root_key),
        Server("knot", (PARENT,), (parent, hosts_zone)),
        Server("knot", (KNOT, KNOT_TOO, KNOT_SIX), tuple(plan.zones["a"])),
        Server("bind", (BIND,), tuple(plan.zones["b"])),
        Server("nsd", (NSD,), tuple(plan.zones["c"])),
        Server("powerdns", (POWERDNS,), tuple(plan.zones["d"])),
        Server("bind", (RECURSIVE,), tuple(plan.zones["r"]), recursion=True),
    )
    faulty_servers = tuple(
        FaultyNameServer(HOSTS[host][0], tuple(plan.records.get(host, ())), frozenset({fault}))
        for host, fault in (
            ("notcp", "no_tcp"),
            ("upward", "upward"),
            ("servfail", "servfail"),
            ("noedns", "no_edns"),
            ("large", "large_udp"),
        )
    )
    silent = (DEAD, DEAD_SIX, RESOLVER)
    world = World(servers, faulty_servers, silent, tuple(PROXIES.values()))
    return world, plan.cases, root_key


def _plant_reach(plan: _Plan) -> None:
    plan.plant("good", "ab", HEALTHY)
    plan.plant("others", "cd", HEALTHY, on="cd")
    plan.plant("six", "eb", HEALTHY)
    plan.plant("gone", ["a", "gone"], DEGRADED, "nameserver_not_found", on="a")
    plan.plant("allgone", ["gone", "away"], BROKEN, "nameserver_not_found", on="")
    plan.plant("alias", ["alias", "b"], DEGRADED, "nameserver_is_alias")
    plan.plant("private", ["a", "private"], DEGRADED, "nameserver_not_public", on="a")
    plan.plant("dead", ["a", "dead"], DEGRADED, "nameserver_unreachable", on="a")
    plan.plant(
        "alldead", ["dead", "private"], BROKEN, "nameserver_unreachable", "nameserver_not_public", on=""
    )
    plan.plant("half", ["half", "b"], DEGRADED, "nameserver_unreachable_over_ipv6")
    plan.plant("unrouted", ["unrouted"], UNKNOWN, "single_point", on="")
    plan.plant(
        "hijackable", ["a", "ns.unregistered.test"], DEGRADED, "nameserver_not_found", "hijackable", on="a"
    )
    plan.plant("lame", ["a", "c"], DEGRADED, "lame", on="a")
    plan.plant("alllame", ["c", "servfail"], BROKEN, "lame", on="")
    plan.faulty_server("upward", "upward", DEGRADED, "lame")


def _plant_content(plan: _Plan) -> None:
    plan.plant("listed", "ab", DEGRADED, "ns_set_differs", listed=["a.hosts.test"])
    plan.plant("serial", "ab", HEALTHY, "soa_serial_differs", of_second={"serial": 2})
    plan.plant("single", "a", HEALTHY, "single_point", on="a")
    for label, address, state, codes in (
        ("glued", BIND, HEALTHY, ()),
        ("otherglue", NSD, DEGRADED, ("glue_differs",)),
    ):
        hosts = [f"ns1.{label}.{PARENT_DOMAIN}", f"ns2.{label}.{PARENT_DOMAIN}"]
        glue = [GlueEntry(hosts[0], KNOT), GlueEntry(hosts[1], BIND)]
        plan.plant(label, hosts, state, *codes, extra=(f"ns1 A {KNOT}", f"ns2 A {address}"), glue=glue)


def _plant_signatures(plan: _Plan) -> None:
    key, other, weak = ZoneKey.new(), ZoneKey.new(), ZoneKey.new(10)

    def ds(label: str, of: ZoneKey = key) -> tuple[DsRecord, ...]:
        return (of.ds(f"{label}.{PARENT_DOMAIN}"),)

    signed: dict[str, object] = {"key": key}
    plan.plant("signed", "ab", HEALTHY, zone=signed, ds=ds("signed"))
    plan.plant("nokey", "ab", BROKEN, "ds_without_key", zone=signed, ds=ds("nokey", other))
    plan.plant("unsigned", "ab", BROKEN, "ds_without_key", ds=ds("unsigned"))
    plan.plant(
        "halfsigned",
        "ab",
        DEGRADED,
        "ds_without_key",
        zone=signed,
        of_second={"key": None},
        ds=ds("halfsigned"),
    )
    forged = {"key": key, "mutilated": ("192.0.2.1", "192.0.2.2")}
    address = ["@ A 192.0.2.1", "@ AAAA 2001:db8::1"]
    plan.plant("forged", "ab", DEGRADED, "ds_broken", zone=forged, ds=ds("forged"), extra=address)
    # BIND, but not unbound, accepts answers whose SOA record doesn't validate.
    forged = {"key": key, "mutilated": (" 1 3600 900 ", " 1 3600 901 ")}
    plan.plant("forgedsoa", "ab", DEGRADED, "ds_broken", zone=forged, ds=ds("forgedsoa"))
    unused = {"key": other, "published": (key,)}
    plan.plant("unused", "ab", BROKEN, "ds_broken", zone=unused, ds=ds("unused"))
    soon = {"key": key, "signed_from": -29 * DAY, "signed_until": DAY}
    plan.plant("soon", "ab", DEGRADED, "signatures_expire", zone=soon, ds=ds("soon"))
    short = {"key": key, "signed_from": -DAY, "signed_until": DAY}
    plan.plant("short", "ab", HEALTHY, zone=short, ds=ds("short"))
    expired = {"key": key, "signed_from": -29 * DAY, "signed_until": -3600}
    plan.plant("expired", "ab", BROKEN, "signatures_expire", zone=expired, ds=ds("expired"))
    stale = {**expired, "fresh": ("SOA", "DNSKEY"), "signed_until": -2 * DAY}
    plan.plant("stale", "ab", BROKEN, "signatures_expire", zone=stale, ds=ds("stale"), extra=address)
    nsec3 = {"key": key, "nsec3": True}
    plan.plant("nsec3", "ab", HEALTHY, zone=nsec3, ds=ds("nsec3"), extra=["* A 192.0.2.1"])
    plan.proxied("nsec-stripped", BROKEN, "denial_missing", zone=nsec3, ds=ds("nsec-stripped"))
    plan.proxied("dnskey-dropped", DEGRADED, "answers_fail", zone=signed)
    plan.plant("weak", "ab", DEGRADED, "weak_algorithm", zone={"key": weak}, ds=ds("weak", weak))
    plan.plant(
        "plainparent",
        "ab",
        HEALTHY,
        "parent_not_signed",
        zone=signed,
        ds=ds("plainparent"),
        parent_signed=False,
    )


def _plant_manners(plan: _Plan) -> None:
    plan.plant("recursive", ["a", "recursive"], HEALTHY, "open_recursion", on="ar")
    plan.faulty_server("notcp", "notcp", DEGRADED, "nameserver_unreachable_over_tcp")
    plan.faulty_server("noedns", "noedns", HEALTHY, "edns_broken")
    plan.faulty_server("large", "large", HEALTHY, "udp_size")


def _plant_answers(plan: _Plan) -> None:
    """Plant what resolvers can use, and what they can't."""
    plan.proxied("tc-without-tcp", BROKEN, "nameserver_unreachable_over_tcp")
    plan.proxied("edns-dropped", BROKEN, "nameserver_unreachable")
    plan.proxied("edns-dropped-over-udp", BROKEN, "nameserver_unreachable")
    plan.proxied("apex-servfail", BROKEN, "answers_fail")
    plan.proxied("below-servfail", BROKEN, "answers_fail")
    plan.proxied("aaaa-dropped", DEGRADED, "answers_fail")
    plan.proxied("soa-nodata", DEGRADED, "soa_missing")
    plan.proxied("soa-notimp", DEGRADED, "soa_missing")
    plan.proxied("soa-dropped", DEGRADED, "soa_missing")
    plan.proxied("alias-at-apex", DEGRADED, "alias_at_apex")
    plan.proxied("no-aa", DEGRADED, "not_authoritative")
    plan.proxied("upper-case", DEGRADED, "case_changed")
    of_zone = ["ns_set_differs", "zone_nameservers_fail", "unlisted_nameserver_fails"]
    plan.plant("zonedead", "ab", DEGRADED, *of_zone, listed=["dead.hosts.test"])
    plan.plant("zonelame", "ab", DEGRADED, *of_zone, listed=["c.hosts.test"])
    plan.plant("zonegone", "ab", DEGRADED, *of_zone, listed=["gone.hosts.test"])
    plan.plant("zoneprivate", "ab", DEGRADED, *of_zone, listed=["private.hosts.test"])
    within = [f"ns.zonewithin.{PARENT_DOMAIN}"]
    plan.plant("zonewithin", "ab", DEGRADED, "ns_set_differs", listed=within, extra=[f"ns A {BIND}"])
