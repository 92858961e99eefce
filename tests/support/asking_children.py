"""Child zones on real servers whose CDS records request DS records, with right and wrong requests and their
expected outcomes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sublet.dns.types import DsRecord
from support.dns_world import DAY, Server, World, Zone, ZoneKey, ds_text
from support.faulty_name_server import FaultyNameServer

PARENT = "example.test"
OPERATOR = "op.test"
INSECURE = "insecure.test"
OPERATOR_ADDRESS = "8.8.2.2"
KEYS = {name: ZoneKey.new() for name in ("operator", "old", "new", "absent")}


@dataclass(frozen=True)
class AskingChild:
    """A child with its own nameservers ns-NUMBER.op.test at `addresses`, its DS records, and the expected
    outcome.
    """

    label: str
    addresses: tuple[str, ...]
    outcome: str
    refusal: str | None = None
    ds: tuple[DsRecord, ...] = ()
    operator: str = OPERATOR

    @property
    def fqdn(self) -> str:
        """The child's name."""
        return f"{self.label}.{PARENT}"

    @property
    def nameservers(self) -> tuple[str, ...]:
        """The child's nameservers."""
        return tuple(f"ns-{each.replace('.', '-')}.{self.operator}" for each in self.addresses)


def _ds(label: str, key: str) -> DsRecord:
    return KEYS[key].ds(f"{label}.{PARENT}")


def _cds(label: str, *keys: str) -> tuple[str, ...]:
    made = [_ds(label, each) for each in keys]
    return tuple(f"@ CDS {ds_text(each)}" for each in made)


def _zone(label: str, hosts: Sequence[str], *records: str, key: str = "old", **changes: object) -> Zone:
    lines = ("ns A 192.0.2.1", *(f"@ NS {each}." for each in hosts), *records)
    return Zone(f"{label}.{PARENT}", lines, KEYS[key], **changes)  # type: ignore[arg-type] # by name


def asking_world() -> tuple[World, list[AskingChild]]:
    """Return the servers, and the children in the order in which they are checked."""
    children: list[AskingChild] = []
    zones: list[tuple[str, Zone]] = []
    signals: list[str] = []

    def add(label: str, outcome: str, refusal: str | None = None, **more: object) -> AskingChild:
        count = int(more.pop("servers", 1))  # type: ignore[call-overload]
        number = 10 * len(children)
        addresses = tuple(f"9.9.{number + each}.1" for each in range(count))
        child = AskingChild(label, addresses, outcome, refusal, **more)  # type: ignore[arg-type] # by name
        children.append(child)
        return child

    def serve(child: AskingChild, *records: str, signal: str | None = None, **changes: object) -> None:
        zone = _zone(child.label, child.nameservers, *records, **changes)  # type: ignore[arg-type] # by name
        zones.extend((each, zone) for each in child.addresses)
        for host in child.nameservers:
            if signal is not None:
                line = _cds(child.label, signal)[0].removeprefix("@ ")
                signals.append(f"_dsboot.{child.fqdn}._signal.{host}. {line}")

    two_keys: Any = {"published": (KEYS["new"],)}
    good = add("good", "replaced", servers=2)
    serve(good, *_cds("good", "old"), signal="old")
    forged = add("forged", "refused", "udp_differs", ds=(_ds("forged", "old"),))
    lines = (
        f"{forged.fqdn}. 60 IN SOA ns.op.test. h.op.test. 1 60 60 3600 60",
        f"{forged.fqdn}. 60 IN CDS {_cds('forged', 'new')[0].removeprefix('@ CDS ')}",
    )
    faulty_server = FaultyNameServer(forged.addresses[0], lines, frozenset({"forged_over_udp"}))

    wrong = add("wrongsignal", "refused", "not_bootstrapped")
    serve(wrong, *_cds("wrongsignal", "old"), signal="new")
    silent = add("nosignal", "refused", "not_bootstrapped")
    serve(silent, *_cds("nosignal", "old"))
    insecure = add("insecuresignal", "refused", "not_bootstrapped", operator=INSECURE)
    serve(insecure, *_cds("insecuresignal", "old"), signal="old")
    differing = add("differing", "refused", "servers_differ", ds=(_ds("differing", "old"),), servers=2)
    for address, keys in zip(differing.addresses, (("old", "new"), ("old",)), strict=True):
        zones.append(
            (address, _zone("differing", differing.nameservers, *_cds("differing", *keys), **two_keys))
        )
    breaking = add("breaking", "refused", "would_break", ds=(_ds("breaking", "old"),))
    serve(breaking, *_cds("breaking", "absent"))
    stranger = add("stranger", "refused", "chain_broken", ds=(_ds("stranger", "old"),))
    serve(stranger, *_cds("stranger", "new"), key="new")
    replayed = add("replayed", "refused", "replayed", ds=(_ds("replayed", "old"),))
    serve(replayed, *_cds("replayed", "old", "new"), signed_from=-20 * DAY, **two_keys)
    dead = add("dead", "refused", "servers_silent", ds=(_ds("dead", "old"),), servers=2)
    zones.append((dead.addresses[0], _zone("dead", dead.nameservers, *_cds("dead", "old", "new"))))

    # One child's nameservers give different answers, so each runs on a server of its own.
    apart = [each for each in zones if each[1].name == differing.fqdn]
    together = [each for each in zones if each not in apart]
    servers = [
        Server("knot", tuple(address for address, _ in together), _once(together)),
        *(Server("bind", (address,), (zone,)) for address, zone in apart),
    ]
    servers.append(_operators(children, signals))
    return World(tuple(servers), (faulty_server,), (dead.addresses[1],)), children


def _once(served: Sequence[tuple[str, Zone]]) -> tuple[Zone, ...]:
    return tuple({zone.name: zone for _, zone in served}.values())


def _operators(children: Sequence[AskingChild], signals: Sequence[str]) -> Server:
    """Return the server of the nameservers' zones. One of these zones isn't signed."""
    zones = []
    for name, key in ((OPERATOR, KEYS["operator"]), (INSECURE, None)):
        lines = ["ns A 8.8.2.2", "@ NS ns"]
        for child in children:
            pairs = zip(child.nameservers, child.addresses, strict=True)
            lines += [f"{host}. A {address}" for host, address in pairs if child.operator == name]
        lines += [each for each in signals if each.partition(". ")[0].endswith(name)]
        zones.append(Zone(name, tuple(lines), key))
    return Server("knot", (OPERATOR_ADDRESS,), tuple(zones))
