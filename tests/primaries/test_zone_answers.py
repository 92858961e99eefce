"""What resolvers get of our zones: each fault at the parent, in the signatures or on a secondary is found,
and no other.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from typer.testing import CliRunner

from sublet.cli.main import app
from sublet.config import PrimarySettings, Settings
from sublet.db import Tx
from sublet.dns.parent_servers import ParentServer, ServedWaiter
from sublet.dns.types import Record, Secondary
from sublet.health import query_limits
from sublet.mail.store import operator_notices
from sublet.primaries import answer_check
from sublet.primaries.answer_check import AnswerCheck, AnswerWatch
from sublet.primaries.zone_answers import ANSWER_CAUSES
from sublet.primaries.zone_notices import FAILURES_BEFORE_NOTICE
from sublet.subdomains.delete import delete
from support.dns_world import (
    DAY,
    ROOT_ADDRESS,
    Server,
    World,
    Zone,
    ZoneKey,
    ds_text,
    root_and_test,
    unbound_running,
    world_running,
)
from support.network_namespace import runs_outside
from support.registry import Registry, open_registry, prepare
from support.running_service import running_service
from support.service_on_primary import settings_file
from support.waiting import wait_until

TLD, PRIMARY, SECONDARY, RESOLVER = "192.5.6.30", "8.8.1.1", "9.8.1.1", "17.1.1.1"
HOSTS = ("ns1.hosts.test", "ns2.hosts.test")
NAMESERVERS = ("ns1.provider.example", "ns2.provider.example")
NAMES = ("blog", "shop", "wiki")
SERIAL = 2
SIGNED_LONG_AGO: dict[str, Any] = {"signed_from": -29 * DAY}
EXPIRED = SIGNED_LONG_AGO | {"signed_until": -2 * DAY}
"""unbound accepts signatures that expired less than a day ago."""


@dataclass(frozen=True)
class Case:
    """A platform domain with a fault: changes of its zone on both servers, and of the secondary's copy, and
    what the parent has.
    """

    label: str
    causes: frozenset[str] = frozenset()
    key: ZoneKey | None = field(default_factory=ZoneKey.new)
    zone: dict[str, Any] = field(default_factory=dict)
    copy: dict[str, Any] = field(default_factory=dict)
    ds: ZoneKey | None = None
    has_ds: bool = True
    parent_hosts: tuple[str, ...] = HOSTS
    trashed: str = ""
    built_in: bool = False
    names_of_copy: tuple[str, ...] = NAMES

    @property
    def domain(self) -> str:
        """The platform domain."""
        return f"{self.label}.test"

    def served(self, names: tuple[str, ...], **changes: Any) -> Zone:
        """Return the zone with the delegations of these names."""
        lines = [f"@ NS {host}." for host in HOSTS]
        lines += [f"{name} 3600 NS {host}." for name in names for host in NAMESERVERS]
        return Zone(self.domain, tuple(lines), **{"serial": SERIAL, "key": self.key, **self.zone, **changes})

    def delegation(self) -> list[str]:
        """Return the parent's records of the zone."""
        key = self.ds or self.key
        lines = [f"{self.label} NS {host}." for host in self.parent_hosts]
        return lines + ([f"{self.label} DS {ds_text(key.ds(self.domain))}"] if key and self.has_ds else [])


def _case(label: str, *causes: str, **options: Any) -> Case:
    return Case(label, frozenset(causes), **options)


CASES = (
    _case("good"),
    _case("unsigned", key=None),
    _case("wrongds", "bogus", "parent_ds", ds=ZoneKey.new()),
    _case("stripped", "bogus", "parent_ds", zone={"key": None}),
    _case("islandofsecurity", "parent_ds", has_ds=False),
    _case("oneserver", "parent_ns", parent_hosts=HOSTS[:1]),
    _case("nowhere", "unresolved", key=None, parent_hosts=()),
    _case("expired", "bogus", "signatures", zone=EXPIRED),
    _case("expiring", "signatures", zone=SIGNED_LONG_AGO | {"signed_until": DAY}),
    _case("expiredcopy", "signatures", copy=EXPIRED),
    _case("unsignedcopy", "signatures", copy={"key": None}),
    _case("lacking", "content", names_of_copy=NAMES[1:]),
    _case("removed", "content", trashed=NAMES[0]),
    # The servers of the world stand for the built-in name server here, which the check doesn't ask.
    _case("builtin", key=None, built_in=True),
    _case("builtinds", "bogus", "parent_ds", zone={"key": None}, built_in=True),
    _case("builtinns", "parent_ns", key=None, parent_hosts=HOSTS[:1], built_in=True),
    _case("older", names_of_copy=NAMES[1:], copy={"serial": SERIAL - 1}),
)
OF_ONE_SERVER = {"expiredcopy", "unsignedcopy"}
"""Whether the resolver notices the fault of one server depends on the server that it asks."""


def _world(root_key: ZoneKey) -> World:
    addresses = zip(HOSTS, (PRIMARY, SECONDARY), strict=True)
    hosts = [f"{host}. A {address}" for host, address in addresses]
    tld = (*hosts, *(line for each in CASES for line in each.delegation()))
    firsts = tuple(each.served(tuple(name for name in NAMES if name != each.trashed)) for each in CASES)
    copies = tuple(each.served(each.names_of_copy, **each.copy) for each in CASES)
    servers = (
        *root_and_test(TLD, tld, root_key),
        Server("knot", (PRIMARY,), firsts),
        Server("nsd", (SECONDARY,), copies),
    )
    return World(servers, silent=(RESOLVER,))


def _fill(registry: Registry) -> None:
    """Add the platform domains with their names, which were published a day ago."""
    registry.now = datetime.now(UTC)
    registry.advance(days=-1)
    for case in CASES:
        secondary = Secondary(HOSTS[1], SECONDARY, 53)
        registry.add_domain(
            case.domain,
            primary="" if case.built_in else "main",
            secondaries=() if case.built_in else (secondary,),
            apex_nameservers=HOSTS,
            dnssec_signed=case.key is not None and not case.built_in,
        )
        for name in NAMES:
            registry.register_by_operator(f"{name}.{case.domain}", nameservers=NAMESERVERS)
        registry.publish(case.domain)
        if case.trashed:
            registry.write(delete, registry.actor(), f"{case.trashed}.{case.domain}")
            registry.publish(case.domain)
    registry.advance(days=1)


def test_each_fault_of_a_zone_is_found_and_no_other(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root_key = ZoneKey.new()
    world = _world(root_key)
    if runs_outside(request, world.addresses):
        return
    monkeypatch.setattr(answer_check, "CONFIRM_SECONDS", 0)
    monkeypatch.setattr(query_limits, "QUERIES_PER_SECOND", 1000)  # all zones have the same parent
    key_file = tmp_path / "key"
    key_file.write_text("c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0\n", encoding="ascii")
    section = PrimarySettings("main", PRIMARY, "key.test", key_file=str(key_file))
    prepared = prepare(f"sqlite:///{tmp_path}/registry.db")
    settings = Settings(database_url=prepared.url, primaries=(section,), health_resolver=f"{RESOLVER}:53")
    with world_running(tmp_path / "world", world), open_registry(prepared.url, prepared) as registry:
        _fill(registry)
        with unbound_running(tmp_path / "unbound", RESOLVER, (ROOT_ADDRESS, root_key)):
            watch = AnswerWatch(registry.db, AnswerCheck(settings, registry.db))
            _compare(_find_causes(registry, watch), lambda case: set(case.causes))
            _check_reports(tmp_path, settings, section)
            for case, lacks in (("good", []), ("lacking", [HOSTS[1]]), ("removed", [])):
                assert registry.run(_wait_until_served(f"{case}.test")) == lacks
            assert not registry.read(_list_notices)
            for _ in range(FAILURES_BEFORE_NOTICE):
                registry.run(watch.poll())
            told = registry.read(_list_notices)
            assert sum("The zone wrongds.test has a problem: the DS records" in each for each in told) == 1
            assert not any("good.test" in each for each in told)
        # The resolver has ended. Only what needs no resolver is found, and no zone is blamed.
        watch = AnswerWatch(registry.db, AnswerCheck(settings, registry.db))
        alone = {"content", "signatures"}
        _compare(
            _find_causes(registry, watch),
            lambda case: {"resolver"} | (case.causes & alone if case.label != "unsignedcopy" else set()),
        )
    assert {cause for case in CASES for cause in case.causes} | {"resolver"} == set(ANSWER_CAUSES)


def _compare(found: dict[str, set[str]], expected: Callable[[Case], set[str]]) -> None:
    for case in CASES:
        causes = found.get(case.domain, set())
        if case.label in OF_ONE_SERVER:
            causes -= {"bogus"}
        assert causes == expected(case), (case.label, found)


def _find_causes(registry: Registry, watch: AnswerWatch) -> dict[str, set[str]]:
    """Check all zones, and return the causes by zone."""
    registry.run(watch.poll())
    found: dict[str, set[str]] = {}
    for zone, problem in watch.problems:
        found.setdefault(zone, set()).add(problem.cause)
    return found


async def _wait_until_served(zone: str) -> list[str]:
    """Return the servers that lack the delegation of a name, although their serial is current."""
    servers = [
        ParentServer(HOSTS[0], "primary", (PRIMARY, 53)),
        ParentServer(HOSTS[1], "secondary", (SECONDARY, 53)),
    ]
    desired = tuple(Record(f"blog.{zone}", "NS", 3600, f"{host}.") for host in NAMESERVERS)
    waiter = ServedWaiter()
    lacking = await waiter.wait(servers, zone, f"blog.{zone}", desired, 1.0)
    return [each.server for each in lacking]


def _list_notices(tx: Tx) -> list[str]:
    return list(tx.connection.execute(select(operator_notices.c.text)).scalars())


def _check_reports(folder: Path, settings: Settings, section: PrimarySettings) -> None:
    """The worker's metrics, `zone status` and the doctor report the problems."""
    environment = {
        "SUBLET_CONFIG": str(settings_file(folder, [section])),
        "SUBLET_DATABASE_URL": settings.database_url,
        "SUBLET_HEALTH_RESOLVER": settings.health_resolver,
    }

    def run(*words: str) -> Any:
        done = CliRunner().invoke(app, [*words, "--json"], env=environment)
        return json.loads(done.stdout)

    chosen = {"primaries": (section,), "health_resolver": settings.health_resolver}
    with running_service(settings.database_url, **chosen) as service:
        metric = 'sublet_zone_answers_wrong{{cause="parent_ds",zone="{}.test"}}'
        wait_until(lambda: service.metrics().get(metric.format("wrongds")) == 1)
        assert metric.format("good") not in service.metrics()
    (zone,) = run("zone", "status", "wrongds.test")["zones"]
    assert {"bogus", "parent_ds"} <= {each["what"] for each in zone["wrong"]}, zone
    (zone,) = run("zone", "status", "lacking.test")["zones"]
    assert [each["standing"] for each in zone["secondaries"]] == ["different"]
    notices = [each for each in run("doctor")["notices"] if each["notice"] == "zone_answers_wrong"]
    told = {each["object_id"]: each["message"] for each in notices}
    assert "good.test" not in told
    assert "blog.lacking.test" in told["lacking.test"]
