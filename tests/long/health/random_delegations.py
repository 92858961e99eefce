"""Random delegations, good and broken: what nameservers they have, what those serve, and which DS records the parent has."""

from dataclasses import dataclass, field
from random import Random

from sublet.dns.types import Delegation, DsRecord, GlueEntry
from sublet.health.model import Target
from support.dns_world import DAY, ROOT_ADDRESS, Server, World, Zone, ZoneKey

DOMAIN = "reg.test"
TLD, PARENT = "192.5.6.30", "8.8.1.1"
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
HOSTS: dict[str, str | None] = {
    **SERVED,
    **{f"dead{number}": address for number, address in enumerate(DEAD)},
    "empty": EMPTY,
    "private": "10.0.0.1",
    "gone": None,
}
"""The addresses of the nameservers HOST.hosts.test; None: it doesn't exist."""
BAD_HOSTS = ("dead0", "dead1", "dead2", "empty", "private", "gone")


@dataclass
class _Plan:
    zones: dict[str, list[Zone]] = field(default_factory=lambda: {each: [] for each in KINDS})
    targets: list[Target] = field(default_factory=list)


def random_world(rng: Random, count: int) -> tuple[World, list[Target], ZoneKey]:
    """Return a world with `count` random delegations below `DOMAIN`, and the key of its root."""
    plan = _Plan()
    keys = [ZoneKey.new() for _ in range(4)]
    for number in range(count):
        _add(plan, rng, f"n{number}", keys)
    signing = {name: ZoneKey.new() for name in ("", "test", DOMAIN, "hosts.test")}

    def ds_of(name: str) -> str:
        return _text(signing[name].ds(name))

    hosts = tuple(f"{host} A {address}" for host, address in HOSTS.items() if address is not None)
    lines = [line for each in plan.targets for line in _lines(each)]
    root = Zone(
        ".",
        (
            "@ NS root",
            f"root A {ROOT_ADDRESS}",
            "test NS ns.test",
            f"ns.test A {TLD}",
            f"test DS {ds_of('test')}",
        ),
        signing[""],
    )
    below = [
        line
        for each in ("reg", "hosts")
        for line in (f"{each} NS ns.{each}", f"ns.{each} A {PARENT}", f"{each} DS {ds_of(f'{each}.test')}")
    ]
    tld = Zone("test", ("@ NS ns", f"ns A {TLD}", *below), signing["test"])
    parent = Zone(DOMAIN, ("@ NS ns", f"ns A {PARENT}", *lines), signing[DOMAIN])
    hosts_zone = Zone("hosts.test", ("@ NS ns", f"ns A {PARENT}", *hosts), signing["hosts.test"])
    servers = [
        Server("knot", (ROOT_ADDRESS,), (root,)),
        Server("knot", (TLD,), (tld,)),
        Server("knot", (PARENT,), (parent, hosts_zone)),
    ]
    for kind, network in KINDS.items():
        addresses = tuple(f"{network}.{number}" for number in range(1, ADDRESSES_EACH + 1))
        servers.append(Server(kind, addresses, tuple(plan.zones[kind])))
    servers.append(Server("nsd", (EMPTY,), ()))
    return World(tuple(servers), silent=(*DEAD, UNBOUND, BIND)), plan.targets, signing[""]


def _add(plan: _Plan, rng: Random, label: str, keys: list[ZoneKey]) -> None:
    fqdn = f"{label}.{DOMAIN}"
    chosen = [
        rng.choice(list(SERVED)) if rng.random() < 0.7 else rng.choice(BAD_HOSTS)
        for _ in range(rng.randint(1, 3))
    ]
    chosen = list(dict.fromkeys(chosen))
    glued = rng.random() < 0.2
    names = {
        host: f"{host}.{fqdn}" if glued and HOSTS[host] and host != "private" else f"{host}.hosts.test"
        for host in chosen
    }
    glue = tuple(GlueEntry(name, HOSTS[host]) for host, name in names.items() if name.endswith(fqdn))
    key, other = rng.sample(keys, 2)
    ds: tuple[DsRecord, ...] = ()
    if rng.random() < 0.7:
        ds = rng.choice([(key.ds(fqdn),), (key.ds(fqdn),), (other.ds(fqdn),), (other.ds(fqdn), key.ds(fqdn))])
    records = (
        *(f"@ NS {name}." for name in names.values()),
        *(f"{entry.host}. A {entry.ipv4}" for entry in glue),
    )
    options = _zone_options(rng, key, other)
    for kind in dict.fromkeys(host.rstrip("0123456789") for host in chosen if host in SERVED):
        own = options if rng.random() < 0.8 else _zone_options(rng, key, other)
        if rng.random() < 0.9:
            plan.zones[kind].append(Zone(fqdn, records, **own))  # type: ignore[arg-type] # by name
    plan.targets.append(Target(fqdn, DOMAIN, Delegation(tuple(names.values()), glue, ds), parent_signed=True))


def _zone_options(rng: Random, key: ZoneKey, other: ZoneKey) -> dict[str, object]:
    return rng.choice(
        [
            {},
            {"key": key},
            {"key": key},
            {"key": key},
            {"key": other},
            {"key": other, "published": (key,)},
            # unbound tolerates a day (val-sig-skew-max)
            {"key": key, "signed_from": -20 * DAY, "signed_until": -2 * DAY},
            {"key": key, "mutilated": (" 1 3600 900 ", " 1 3600 901 ")},
        ]
    )


def _lines(target: Target) -> list[str]:
    label = target.fqdn.partition(".")[0]
    return [
        *(f"{label} NS {each}." for each in target.delegation.nameservers),
        *(f"{entry.host}. A {entry.ipv4}" for entry in target.delegation.glue),
        *(f"{label} DS {_text(each)}" for each in target.delegation.ds_records),
    ]


def _text(record: DsRecord) -> str:
    return f"{record.key_tag} {record.algorithm} {record.digest_type} {record.digest}"
