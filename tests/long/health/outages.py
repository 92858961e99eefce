"""Outages of the registry itself while its names work: no name is called broken, no mail is sent, and no name
leaves the DNS.
"""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from long.health.judges import run_in_network
from long.scenario import SOAK, SQLITE, Outcome, Scenario, Trial
from sublet.dns.types import Delegation, GlueEntry
from sublet.health.due_checks import CLAIM_DURATION
from sublet.health.model import Target
from support.dns_world import (
    DAY,
    ROOT_ADDRESS,
    Server,
    World,
    Zone,
    ZoneKey,
    root_and_test,
    unbound_running,
    world_running,
)
from support.faulty_name_server import FaultyNameServer
from support.running_service import MovableClock, RunningService, running_service
from support.waiting import wait_until

DOMAIN = "reg.test"
TLD, HOSTS = "192.5.6.30", "8.8.1.1"
ROOT_SIX = "2001:500:2f::f"
RESOLVER, PORT, SLOW_PORT = "17.1.1.1", 5335, 5336
VICTIM_ADDRESS = "16.1.1.1"
NAMES: dict[str, tuple[str, ...]] = {
    "four": ("9.9.1.1", "9.9.2.1"),
    "both": ("9.9.3.1", "2620:9:3::1"),
    "six": ("2620:9:4::1", "2620:9:5::1"),
    "signed": ("9.9.6.1", "2620:9:6::1"),
    "elsewhere": ("9.9.7.1", "9.9.8.1"),
    "victim": (VICTIM_ADDRESS,),
}
"""The addresses of the nameservers of each name. Those of `elsewhere` have no glue, so the resolver finds
them.
"""
DAYS = 3
SIGNED_FOR = 120 * DAY
"""The validity of all signatures, in seconds. While the root zone's are invalid, the
clock counts as wrong.
"""
STEP_HOURS = 6


@dataclass(frozen=True)
class OutageWorld:
    """The servers of all names, and the server of the name that really breaks."""

    world: World
    root_key: ZoneKey
    victim: FaultyNameServer


def outage_world() -> OutageWorld:
    """Return a small Internet with a root server for each family."""
    root_key, signed_key = ZoneKey.new(), ZoneKey.new()
    zones = []
    for label, addresses in NAMES.items():
        hosts = _hosts(label)
        glue = [f"ns{n} {_type(each)} {each}" for n, each in enumerate(addresses) if label != "elsewhere"]
        records = (*(f"@ NS {host}." for host in hosts), "@ A 192.0.2.1", *glue)
        key = signed_key if label == "signed" else None
        zones.append((addresses, Zone(f"{label}.{DOMAIN}", records, key, signed_until=SIGNED_FOR)))
    served = tuple(zone for addresses, zone in zones if VICTIM_ADDRESS not in addresses)
    addresses = tuple(a for addresses, _ in zones for a in addresses if a != VICTIM_ADDRESS)
    hosts_lines = tuple(f"ns{n} A {each}" for n, each in enumerate(NAMES["elsewhere"]))
    hosts_zone = Zone("hosts.test", ("@ NS ns", f"ns A {HOSTS}", *hosts_lines))
    tld = ("hosts NS ns.hosts", f"ns.hosts A {HOSTS}")
    fqdn = f"victim.{DOMAIN}"
    lines = (
        f"{fqdn}. 300 IN SOA ns.{fqdn}. hostmaster.{fqdn}. 1 3600 900 86400 60",
        f"{fqdn}. 300 IN NS ns0.{fqdn}.",
        f"ns0.{fqdn}. 300 IN A {VICTIM_ADDRESS}",
    )
    victim = FaultyNameServer(VICTIM_ADDRESS, lines)
    servers = (
        *root_and_test(TLD, tld, root_key, root_addresses=(ROOT_ADDRESS, ROOT_SIX), signed_until=SIGNED_FOR),
        Server("knot", (HOSTS,), (hosts_zone,)),
        Server("knot", addresses, served),
    )
    return OutageWorld(World(servers, (victim,), (RESOLVER,)), root_key, victim)


def targets() -> list[Target]:
    """Return the delegations of all names."""
    return [
        Target(
            f"{label}.{DOMAIN}", DOMAIN, Delegation(tuple(_hosts(label)), _glue(label)), parent_signed=True
        )
        for label in NAMES
    ]


def _glue(label: str) -> tuple[GlueEntry, ...]:
    if label == "elsewhere":
        return ()
    return tuple(
        GlueEntry(host, **{"ipv6" if ":" in each else "ipv4": each})
        for host, each in zip(_hosts(label), NAMES[label], strict=True)
    )


def _hosts(label: str) -> list[str]:
    zone = "hosts.test" if label == "elsewhere" else f"{label}.{DOMAIN}"
    return [f"ns{number}.{zone}" for number in range(len(NAMES[label]))]


def _type(address: str) -> str:
    return "AAAA" if ":" in address else "A"


@contextmanager
def filtered(*selectors: str) -> Iterator[None]:
    """Drop the packets to port 53 that these selectors of `ip rule` match."""
    commands = [
        f"ip {each.split()[0]} rule {{}} pref 5 {' '.join(each.split()[1:])} dport 53 blackhole"
        for each in selectors
    ]
    for family in ("-4", "-6"):
        # The table of local addresses comes after the filter, so that it covers loopback. The second filter
        # finds it there.
        subprocess.run(f"ip {family} rule add pref 10 lookup local", shell=True, check=False)  # noqa: S602
        subprocess.run(f"ip {family} rule del pref 0", shell=True, check=False)  # noqa: S602 - moved before
    try:
        for each in commands:
            subprocess.run(each.format("add"), shell=True, check=True)  # noqa: S602
        yield
    finally:
        for each in commands:
            subprocess.run(each.format("del"), shell=True, check=True)  # noqa: S602


@contextmanager
def _slow_resolver(delay_seconds: float) -> Iterator[None]:
    """Forward queries from `PORT` to the resolver at `SLOW_PORT`, after a delay."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind((RESOLVER, PORT))

    def forward(wire: bytes, client: Any) -> None:
        threading.Event().wait(delay_seconds)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as upstream, suppress(OSError):
            upstream.settimeout(10)
            upstream.sendto(wire, (RESOLVER, SLOW_PORT))
            listening.sendto(upstream.recv(65535), client)

    def serve() -> None:
        with suppress(OSError):
            while True:
                wire, client = listening.recvfrom(65535)
                threading.Thread(target=forward, args=(wire, client), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield
    finally:
        listening.close()


class Resolvers:
    """The registry's resolver, which the test replaces by one with a fault."""

    def __init__(self, folder: Path, world: OutageWorld) -> None:
        self._folder, self._world = folder, world
        self._stack = ExitStack()
        self._started = 0

    def become(self, kind: str) -> None:
        """Stop the present resolver, and run one of this kind: good, unvalidating, misanchored, slow, or
        none.
        """
        self._stack.close()
        if kind == "none":
            return
        port = SLOW_PORT if kind == "slow" else PORT
        key = ZoneKey.new() if kind == "misanchored" else self._world.root_key
        self._started += 1
        folder = self._folder / f"unbound{self._started}"
        running = unbound_running(
            folder, RESOLVER, (ROOT_ADDRESS, key), port=port, is_validating=kind != "unvalidating"
        )
        self._stack.enter_context(running)
        if kind == "slow":
            self._stack.enter_context(_slow_resolver(4.0))

    @contextmanager
    def fails_as(self, kind: str) -> Iterator[None]:
        """Have a resolver of this kind during the block."""
        self.become(kind)
        try:
            yield
        finally:
            self.become("good")


@contextmanager
def _jump(clock: MovableClock, **by: float) -> Iterator[None]:
    """Set the clock to another time during the block."""
    clock.advance(**by)
    try:
        yield
    finally:
        clock.advance(**{name: -value for name, value in by.items()})


OUTAGES = (
    "udp",
    "tcp",
    "ipv6",
    "all",
    "elsewhere",
    "none",
    "unvalidating",
    "misanchored",
    "slow",
    "ahead",
    "behind",
)
"""Filtered packets by kind (`elsewhere`: only those to the names' own servers), resolvers by fault, and a
clock that is wrong.
"""
FILTERS = {
    "udp": ("-4 ipproto udp", "-6 ipproto udp"),
    "tcp": ("-4 ipproto tcp", "-6 ipproto tcp"),
    "ipv6": ("-6 ipproto udp", "-6 ipproto tcp"),
    "elsewhere": (
        "-4 ipproto udp to 9.9.0.0/16",
        "-4 ipproto udp to 16.1.1.1",
        "-6 ipproto udp to 2620:9::/32",
    ),
    "all": ("-4 ipproto udp", "-4 ipproto tcp", "-6 ipproto udp", "-6 ipproto tcp"),
}


def begin(outage: str, resolvers: Resolvers, clock: MovableClock) -> AbstractContextManager[None]:
    """Return one of `OUTAGES`, which lasts during the block."""
    if outage in FILTERS:
        return filtered(*FILTERS[outage])
    if outage in ("ahead", "behind"):
        return _jump(clock, days=DAYS if outage == "ahead" else -DAYS)
    return resolvers.fails_as(outage)


def live_through(folder: Path, outages: Sequence[str], steps: int) -> list[str]:
    """Run a registry through these outages, each of `steps` times `STEP_HOURS`, and
    return a line about each.
    """
    place = outage_world()
    settings = {
        "health_checks": True,
        "health_root_hints": f"{ROOT_ADDRESS},{ROOT_SIX}",
        "health_resolver": f"{RESOLVER}:{PORT}",
    }
    told = []
    resolver = Resolvers(folder, place)
    with world_running(folder / "world", place.world), ExitStack() as stack:
        resolver.become("good")
        stack.callback(resolver.become, "none")
        service = stack.enter_context(running_service(f"sqlite:///{folder}/registry.db", **settings))
        _register_all(service)
        _wait_for_states(service, dict.fromkeys(NAMES, "healthy"))
        for outage in outages:
            fault = begin(outage, resolver, service.clock)
            told.append(f"{outage}: {_live_through_one(service, place, fault, steps)}")
            print(told[-1], file=sys.stderr)
        assert service.doctor() == []
    return told


def _register_all(service: RunningService) -> None:
    ada = service.add_user()
    service.operator("user", "edit", ada.email, "--free-quota", "100")
    service.add_domain(DOMAIN)
    service.operator("domain", "edit", DOMAIN, "--broken-days", "1")
    for label in NAMES:
        glue = [
            {name: value for name, value in asdict(each).items() if value is not None}
            for each in _glue(label)
        ]
        service.register(ada, f"{label}.{DOMAIN}", nameservers=_hosts(label), glue=glue)
    service.clock.pass_time(minutes=1)  # The worker searches new names.


def _live_through_one(
    service: RunningService, place: OutageWorld, fault: AbstractContextManager[None], steps: int
) -> str:
    """Live through an outage in which the victim really breaks, and through its end; return what the names
    were meanwhile.
    """
    seen: set[str] = set()
    before = _subjects(service)  # of the name that really broke in an earlier outage
    with fault:
        for step in range(steps):
            service.clock.pass_time(hours=STEP_HOURS)
            _wait_for_checks(service)
            seen |= set(_states(service).values())
            if step == steps // 2:
                place.victim.faults = frozenset({"silent"})
        assert seen <= {"healthy", "unknown"}, seen
        assert set(_states(service).values()) == {"unknown"}, _health(service)
    assert _subjects(service) == before
    assert all(each["nameservers"] for each in service.operator("subdomain", "list"))
    expected = {**dict.fromkeys(NAMES, "healthy"), "victim": "broken"}
    minutes = _wait_for_states(service, expected)
    place.victim.faults = frozenset()
    _wait_for_states(service, dict.fromkeys(NAMES, "healthy"), minutes_max=24 * 60)
    assert minutes <= 60, minutes
    return f"{', '.join(sorted(seen))}; the truth {minutes} minutes after"


def _subjects(service: RunningService) -> list[str]:
    return [each["subject"] for each in service.operator("mail", "list")]


def _health(service: RunningService) -> dict[str, dict[str, Any]]:
    return {each["fqdn"].partition(".")[0]: each for each in service.operator("health", "list")}


def _states(service: RunningService) -> dict[str, str]:
    return {label: each["state"] for label, each in _health(service).items()}


def _wait_for_checks(service: RunningService) -> None:
    """Wait until the worker has checked the names that are due now."""
    since = service.clock() - timedelta(seconds=1)  # The output of commands has whole seconds.
    wait_until(lambda: _health(service).keys() == NAMES.keys())
    due = {
        label
        for label, each in _health(service).items()
        if _instant(each["due_at"]) <= service.clock() + CLAIM_DURATION or _is_ahead(each, service.clock())
    }

    def is_done() -> bool:
        found = _health(service)
        return all(_is_checked(found[label], since, service.clock()) for label in due)

    wait_until(is_done)


def _is_checked(health: dict[str, Any], since: datetime, now: datetime) -> bool:
    """True if a name was checked since an instant, or its check is not due soon."""
    checked_at = health["checked_at"]
    if _is_ahead(health, now):
        return False
    if checked_at is not None and _instant(checked_at) >= since:
        return True
    return _instant(health["due_at"]) > now + CLAIM_DURATION  # A check that is due earlier may be claimed.


def _is_ahead(health: dict[str, Any], now: datetime) -> bool:
    """True if the last check is from before the clock was set back, which the worker hasn't noticed yet."""
    checked_at = health["checked_at"]
    return checked_at is not None and _instant(checked_at) > now + timedelta(hours=1)


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _wait_for_states(service: RunningService, expected: dict[str, str], *, minutes_max: int = 120) -> int:
    """Let time pass until the names have these states; return the minutes."""
    for minutes in range(0, minutes_max, 5):
        _wait_for_checks(service)
        if _states(service) == expected:
            return minutes
        service.clock.pass_time(minutes=5)
    raise AssertionError(_health(service))


def run(trial: Trial) -> Outcome:
    """Live through all outages in a network of its own."""
    world = outage_world().world
    told = run_in_network(world.addresses, "long.health.outages", trial)
    return Outcome("\n".join(told["told"]))


OUTAGES_OF_THE_REGISTRY = Scenario(
    "health-outages",
    "Three days without UDP, TCP, IPv6 or all of them, without a resolver, with one that doesn't validate, "
    "has a wrong trust anchor or is slow, and with a wrong clock, while names leave the DNS after a day: "
    "no mail, no removal, no state but `unknown`; the truth within an hour after, and a name that really "
    "broke meanwhile. Counts steps of six hours.",
    run,
    {SOAK: {SQLITE: DAYS * 24 // STEP_HOURS}},
)


if __name__ == "__main__":
    print(json.dumps({"told": live_through(Path(sys.argv[1]), OUTAGES, int(sys.argv[3]))}))
