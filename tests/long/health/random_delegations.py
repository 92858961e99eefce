"""Delegations below a signed zone, good and broken: each fault of a table, and random ones.

They differ in their nameservers, in what those serve and do, and in the DS records at the parent.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from sublet.dns.types import Delegation, GlueEntry
from sublet.health.model import Target
from support.dns_world import (
    DAY,
    ROOT_ADDRESS,
    Server,
    World,
    Zone,
    ZoneKey,
    delegation_lines,
    ds_text,
    root_and_test,
)
from support.fault_proxy import FAULTS, FaultProxy

DOMAIN = "reg.test"
TLD, PARENT, PARENT_TOO = "192.5.6.30", "8.8.1.1", "8.8.2.1"
UNBOUND, BIND = "17.1.1.1", "17.1.2.1"
ADDRESSES_EACH = 20
KINDS = {"knot": "9.9.1", "bind": "11.1.1", "nsd": "12.1.1", "powerdns": "13.1.1"}
DEAD = tuple(f"15.1.1.{number}" for number in range(1, 4))
EMPTY = "12.1.2.1"
"""The address of a server without zones."""
SERVED = {
    f"{kind}{number}": f"{network}.{number}"
    for kind, network in KINDS.items()
    for number in range(1, ADDRESSES_EACH + 1)
}
SIGNINGS = ("plain", "nsec", "nsec3")
"""How the zones of the table are signed. Each has its own proxies, because resolvers remember addresses."""
PROXIED = {
    f"{fault}-{signing}-{kind}": FaultProxy(f"16.{number}.{variant}.{place}", SERVED[f"{kind}1"], fault)
    for number, fault in enumerate(FAULTS, 1)
    for variant, signing in enumerate(SIGNINGS, 1)
    for place, kind in enumerate(("knot", "nsd"), 1)
}
"""The proxies by their host, in front of Knot and NSD."""
HOSTS: dict[str, str | None] = {
    **SERVED,
    **{host: proxy.address for host, proxy in PROXIED.items()},
    **{f"dead{number}": address for number, address in enumerate(DEAD)},
    "empty": EMPTY,
    "private": "10.0.0.1",
    "gone": None,
}
"""The addresses of the nameservers HOST.hosts.test; None: it doesn't exist."""
BAD_HOSTS = ("dead0", "dead1", "dead2", "empty", "private", "gone")
EXPIRED: dict[str, object] = {"signed_from": -20 * DAY, "signed_until": -2 * DAY}
"""Signatures that expired two days ago, because unbound tolerates a day (val-sig-skew-max)."""
FORGED: dict[str, object] = {"mutilated": (" 1 3600 900 ", " 1 3600 901 ")}

CASES = (
    "none-plain-all",
    "none-nsec-all",
    "none-nsec3-all",
    "tc-without-tcp-plain-all",
    "edns-dropped-plain-all",
    "edns-dropped-over-udp-plain-all",
    "expired-but-soa-address",
    "nsec-stripped-nsec3-all",
    "apex-servfail-plain-all",
    "below-servfail-plain-all",
    "listed-dead-plain",
    "listed-lame-plain",
    "soa-nodata-plain-all",
    "soa-notimp-plain-all",
    "soa-dropped-plain-all",
    "no-aa-plain-all",
    "alias-at-apex-plain-all",
    "upper-case-plain-all",
)
"""The main faults of the table."""


def _kind(host: str) -> str | None:
    """Return the program that serves the zones at a host, also behind a proxy; None if it has none."""
    return (
        host.rpartition("-")[2] if host in PROXIED else host.rstrip("0123456789") if host in SERVED else None
    )


@dataclass
class _Plan:
    keys: list[ZoneKey]
    zones: dict[str, list[Zone]] = field(default_factory=lambda: {each: [] for each in KINDS})
    targets: list[Target] = field(default_factory=list)

    def add(
        self,
        label: str,
        hosts: Sequence[str],
        *,
        options: Sequence[dict[str, Any] | None] = ({},),
        ds: Sequence[ZoneKey] = (),
        listed: Sequence[str] | None = None,
        records: Sequence[str] = (),
        glued: bool = False,
    ) -> None:
        """Add a name with these nameservers.

        `options` are those of its zone for each program, None: it has no zone there.

        `listed` are the nameservers that its zone names, by default those at the parent.
        """
        fqdn = f"{label}.{DOMAIN}"

        def name(host: str) -> str:
            return f"{host}.{fqdn}" if glued and HOSTS[host] and host != "private" else f"{host}.hosts.test"

        names = {host: name(host) for host in hosts}
        glue = tuple(GlueEntry(name, HOSTS[host]) for host, name in names.items() if name.endswith(fqdn))
        lines = (
            *(f"@ NS {name(each)}." for each in (hosts if listed is None else listed)),
            *(f"{entry.host}. A {entry.ipv4}" for entry in glue),
            *records,
        )
        kinds = [each for each in dict.fromkeys(map(_kind, hosts)) if each is not None]
        for number, kind in enumerate(kinds):
            own = options[number % len(options)]
            if own is not None:
                # The PowerDNS of the world can't serve NSEC3 zones that were signed elsewhere.
                own = {**own, "nsec3": own.get("nsec3", False) and kind != "powerdns"}
                self.zones[kind].append(Zone(fqdn, lines, **own))
        delegation = Delegation(tuple(names.values()), glue, tuple(each.ds(fqdn) for each in ds))
        self.targets.append(Target(fqdn, DOMAIN, delegation, parent_signed=True))


def random_world(
    rng: Random, count: int, *, only: Sequence[str] | None = None
) -> tuple[World, list[Target], ZoneKey]:
    """Return a world with `count` delegations below `DOMAIN`, and the key of its root.

    The first are the table's; `only` these labels. The rest is random.
    """
    plan = _Plan([ZoneKey.new() for _ in range(4)])
    _add_table(plan)
    table = [each for each in plan.targets if only is None or each.fqdn.partition(".")[0] in only]
    plan.targets = table[:count]
    for number in range(count - len(plan.targets)):
        _add_random(plan, rng, f"r{number}")
    used = {each.fqdn for each in plan.targets}
    zones = {kind: [each for each in its if each.name in used] for kind, its in plan.zones.items()}
    return _world(zones, plan.targets)


def _world(zones: dict[str, list[Zone]], targets: list[Target]) -> tuple[World, list[Target], ZoneKey]:
    signing = {name: ZoneKey.new() for name in ("", DOMAIN, "hosts.test")}
    hosts = tuple(f"{host} A {address}" for host, address in HOSTS.items() if address is not None)
    nameservers = (("ns", PARENT), ("ns2", PARENT_TOO))
    below = [
        line
        for each in ("reg", "hosts")
        for line in (
            *(f"{each} NS {host}.{each}" for host, _ in nameservers),
            *(f"{host}.{each} A {address}" for host, address in nameservers),
            f"{each} DS {ds_text(signing[f'{each}.test'].ds(f'{each}.test'))}",
        )
    ]
    own = tuple(line for host, address in nameservers for line in (f"@ NS {host}", f"{host} A {address}"))
    parent = Zone(DOMAIN, (*own, *delegation_lines(targets)), signing[DOMAIN])
    hosts_zone = Zone("hosts.test", (*own, *hosts), signing["hosts.test"])
    parents = (parent, hosts_zone)
    servers = [
        *root_and_test(TLD, below, signing[""]),
        Server("knot", (PARENT,), parents),
        Server("nsd", (PARENT_TOO,), parents),
    ]
    for kind, network in KINDS.items():
        addresses = tuple(f"{network}.{number}" for number in range(1, ADDRESSES_EACH + 1))
        servers.append(Server(kind, addresses, tuple(zones[kind])))
    servers.append(Server("nsd", (EMPTY,), ()))
    named = {each for target in targets for each in target.delegation.nameservers}
    proxies = tuple(
        proxy for host, proxy in PROXIED.items() if any(each.startswith(f"{host}.") for each in named)
    )
    return World(tuple(servers), proxies=proxies, silent=(*DEAD, UNBOUND, BIND)), targets, signing[""]


ADDRESSES = tuple(
    dict.fromkeys(
        (ROOT_ADDRESS, TLD, PARENT, PARENT_TOO, UNBOUND, BIND, *(each for each in HOSTS.values() if each))
    )
)
"""The addresses of all these worlds."""


def _add_table(plan: _Plan) -> None:
    key, other, *_ = plan.keys
    signed: dict[str, dict[str, Any]] = {
        "plain": {},
        "nsec": {"key": key},
        "nsec3": {"key": key, "nsec3": True},
    }
    for number, fault in enumerate(FAULTS):
        for signing, options in signed.items():
            if fault == "alias-at-apex" and signing != "plain":
                continue  # The proxy's alias would have no signature.
            ds = () if signing == "plain" else (key,)
            faulty = [f"{fault}-{signing}-knot", f"{fault}-{signing}-nsd"]
            address = () if signing == "nsec3" else ("@ A 192.0.2.1",)
            plan.add(f"{fault}-{signing}-all", faulty, options=[options], ds=ds, records=address)
            mixed = [faulty[0], f"bind{number % ADDRESSES_EACH + 1}"]
            plan.add(f"{fault}-{signing}-some", mixed, options=[options], ds=ds, records=address)
    # BIND, but not unbound, needs the keys of a signed zone without DS records.
    for each in ("nsec", "nsec3"):
        hosts = [f"dnskey-dropped-{each}-{kind}" for kind in ("knot", "nsd")]
        plan.add(f"keys-dropped-{each}", hosts, options=[signed[each]], records=["@ A 192.0.2.1"])
    _add_contents(plan, key, other)
    _add_listed(plan, key)


def _add_contents(plan: _Plan, key: ZoneKey, other: ZoneKey) -> None:
    """Add zones whose signatures or records are wrong, with and without an address at the apex."""
    contents: dict[str, tuple[dict[str, Any], ZoneKey]] = {
        "good": ({"key": key}, key),
        "good-nsec3": ({"key": key, "nsec3": True}, key),
        "expired": ({"key": key, **EXPIRED}, key),
        "expired-but-soa": ({"key": key, **EXPIRED, "fresh": ("SOA", "DNSKEY")}, key),
        "expired-but-answers": ({"key": key, **EXPIRED, "fresh": ("A", "DNSKEY")}, key),
        "expired-denials": ({"key": key, **EXPIRED, "fresh": ("A", "DNSKEY", "SOA", "NS")}, key),
        "expired-dnskey": ({"key": key, **EXPIRED, "fresh": ("A", "SOA", "NS", "NSEC")}, key),
        "expired-soa": ({"key": key, **EXPIRED, "fresh": ("A", "DNSKEY", "NS", "NSEC")}, key),
        "expired-ns": ({"key": key, **EXPIRED, "fresh": ("A", "DNSKEY", "SOA", "NSEC")}, key),
        "forged-soa": ({"key": key, **FORGED}, key),
        "forged-address": ({"key": key, "mutilated": ("192.0.2.1", "192.0.2.2")}, key),
        "forged-denial": ({"key": key, "mutilated": (" RRSIG NSEC DNSKEY", " RRSIG DNSKEY")}, key),
        "wrong-ds": ({"key": key}, other),
        "unsigned": ({}, key),
        "other-signer": ({"key": other, "published": (key,)}, key),
    }
    for number, (name, (options, ds)) in enumerate(contents.items(), 1):
        hosts = [f"knot{number}", f"bind{number}"]
        plan.add(f"{name}-address", hosts, options=[options], ds=[ds], records=["@ A 192.0.2.1"])
        if "mutilated" not in options or options is contents["forged-soa"][0]:
            plan.add(f"{name}-empty", hosts, options=[options], ds=[ds])
        wildcard = ["@ A 192.0.2.1", "* A 192.0.2.1"]
        plan.add(f"{name}-wildcard", hosts, options=[options], ds=[ds], records=wildcard)
        plan.add(f"{name}-some", hosts, options=[options, {"key": key}], ds=[ds], records=["@ A 192.0.2.1"])


def _add_listed(plan: _Plan, key: ZoneKey) -> None:
    """Add zones that name other nameservers than the parent."""
    for name, listed in {
        "dead": ("dead0", "dead1"),
        "lame": ("empty",),
        "gone": ("gone",),
        "private": ("private",),
        "servfail": ("servfail-plain-knot",),
        "some": ("knot1", "dead0"),
        "more": ("knot1", "bind1", "nsd1"),
        "moved": ("nsd1", "bind1"),
        "fewer": ("knot1",),
    }.items():
        served = ["knot1", "bind1"]
        for signing, options in (("plain", {}), ("signed", {"key": key})):
            ds = [key] if signing == "signed" else []
            label = f"listed-{name}-{signing}"
            plan.add(label, served, options=[options], ds=ds, listed=listed, records=["@ A 192.0.2.1"])
            if "nsd1" in listed:  # The other nameserver serves the zone, too.
                plan.zones["nsd"].append(
                    next(each for each in plan.zones["knot"] if each.name.startswith(label))
                )


def _add_random(plan: _Plan, rng: Random, label: str) -> None:
    key, other = rng.sample(plan.keys, 2)
    options = _zone_options(rng, key, other)
    if rng.random() < 0.4:
        fault, signing = rng.choice(list(FAULTS)), rng.choice(SIGNINGS)
        faulty = [f"{fault}-{signing}-{kind}" for kind in ("knot", "nsd")]
        hosts = rng.choice([faulty, faulty[:1], [faulty[0], rng.choice(list(SERVED))]])
    else:
        hosts = [
            rng.choice(list(SERVED)) if rng.random() < 0.7 else rng.choice(BAD_HOSTS)
            for _ in range(rng.randint(1, 3))
        ]
    ds = rng.choice([(key,), (key,), (other,), (other, key), ()])
    records = rng.choice(
        [(), ("@ A 192.0.2.1",), ("@ A 192.0.2.1", "* A 192.0.2.1"), ("* AAAA 2001:db8::1",)]
    )
    own = [
        None if rng.random() < 0.1 else options if rng.random() < 0.8 else _zone_options(rng, key, other)
        for _ in KINDS
    ]
    listed = rng.sample(list(SERVED), 2) if rng.random() < 0.05 else None
    hosts = list(dict.fromkeys(hosts))
    glued = rng.random() < 0.2
    plan.add(label, hosts, options=own, ds=ds, listed=listed, records=records, glued=glued)


def _zone_options(rng: Random, key: ZoneKey, other: ZoneKey) -> dict[str, object]:
    return rng.choice(
        [
            {},
            {"key": key},
            {"key": key},
            {"key": key},
            {"key": key, "nsec3": True},
            {"key": other},
            {"key": other, "published": (key,)},
            {"key": key, **EXPIRED},
            {"key": key, **EXPIRED, "fresh": ("SOA", "DNSKEY")},
            {"key": key, **FORGED},
        ]
    )
