"""Two publishers share the zones of one registry: each zone has one publisher at a time, and the other
doesn't write to it.
"""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from sublet.db import Tx
from sublet.primaries import publisher
from sublet.primaries.primary_zone import PrimaryZone, ReadBack
from sublet.primaries.publisher_transactions import Batch
from sublet.primaries.update import fence_name
from sublet.processes import leases
from sublet.processes.leases import publish_lease, take_lease
from sublet.processes.model import Lease
from sublet.structs import replace
from sublet.subdomains.model import UpdateNameservers
from sublet.subdomains.published_owner_store import published_owners
from sublet.subdomains.store import select_subdomains
from sublet.subdomains.update_nameservers import update_nameservers
from support.leases import find, run_out
from support.name_servers import NameServerProcess, primary
from support.registry import Registry, open_registry, prepare
from support.two_publishers import Worker, two_publishers, until, until_published

pytestmark = pytest.mark.slow

NAMES = 12
NS = ("ns1.provider.example",)
SHOP = "shop.example.test"


@pytest.fixture
def shared(database_url: str) -> Iterator[tuple[Registry, str]]:
    """A registry whose user may have any number of names, and its address."""
    with open_registry(database_url, prepare(database_url)) as registry:
        registry.add_user("eve", free_quota=10_000)
        yield registry, database_url


def _is_at_work(worker: Worker) -> bool:
    return any(each.is_running for each in worker.publisher._work.values())


@pytest.mark.whole_on_postgresql
def test_a_zone_on_a_primary_has_one_publisher_at_a_time(
    shared: tuple[Registry, str], tmp_path: Path
) -> None:
    registry, url = shared
    zone = "zone.test"
    with primary("knot", tmp_path / "knot", zone) as server:
        first = server.records()
        registry.add_domain(zone, primary="main")
        for number in range(NAMES):
            registry.register(f"n{number}.{zone}", "eve", nameservers=NS)

        async def run() -> tuple[Worker, Worker]:
            primaries = {"main": server.as_primary("main")}
            async with two_publishers(registry, url, primaries, batch_max=3) as (one, other):
                one.start()
                other.start()
                for wave in range(5):
                    for number in range(NAMES):
                        command = UpdateNameservers((f"ns{wave}.other.example",))
                        fqdn = f"n{number}.{zone}"
                        await registry.db.write(update_nameservers, registry.actor("eve"), fqdn, command)
                    await until_published(registry.db)
                return one, other

        workers = registry.run(run())
        ours = {each for each in server.records() - first if each.owner != fence_name(zone)}
        assert {(each.owner, each.type, each.rdata) for each in ours} == {
            (f"n{number}.{zone}", "NS", "ns4.other.example.") for number in range(NAMES)
        }
    assert [worker.stale for worker in workers] == [0, 0]
    assert [worker.publisher.outcomes["failed"] for worker in workers] == [0, 0]
    assert registry.doctor() == []


@pytest.mark.whole
def test_two_publishers_without_leases_fail_the_test(
    shared: tuple[Registry, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: every request for a lease is granted, and its loss isn't noticed."""
    _without_leases(monkeypatch)
    with pytest.raises(AssertionError):
        test_a_zone_on_a_primary_has_one_publisher_at_a_time(shared, tmp_path)


def _without_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "hold_lease", lambda _tx, _lease: None)
    monkeypatch.setattr(publisher, "list_held_by_others", lambda *_: frozenset())

    def take(tx: Tx, name: str, holder: str, lasts: timedelta) -> Lease:
        return take_lease(tx, name, holder, lasts) or replace(find(tx, name), holder=holder)

    monkeypatch.setattr(publisher, "take_lease", take)


@dataclass(frozen=True, slots=True)
class Shop:
    """A registry, its address, and the primary of example.test."""

    registry: Registry
    url: str
    server: NameServerProcess

    @property
    def lease(self) -> str:
        """The name of the zone's lease."""
        return publish_lease(self.registry.domains["example.test"])

    def two_publishers(self) -> AbstractAsyncContextManager[tuple[Worker, Worker]]:
        return two_publishers(self.registry, self.url, {"main": self.server.as_primary("main")})

    def pause_before_the_record(self, worker: Worker, go_on: asyncio.Event | None = None) -> asyncio.Event:
        """Have a publisher pause after it has changed the zone, until `go_on`; return the event that it
        pauses.
        """
        paused = asyncio.Event()
        publisher = worker.publisher
        zone = PrimaryZone(worker.db, publisher._find_primary)
        publisher._zone_work(self.registry.domains["example.test"]).zone = zone
        change = zone.change

        async def changed(batch: Batch) -> ReadBack:
            read_back = await change(batch)
            paused.set()
            await (go_on or asyncio.Event()).wait()
            return read_back

        zone.change = changed  # type: ignore[method-assign]
        return paused


@pytest.fixture
def shop(shared: tuple[Registry, str], tmp_path: Path) -> Iterator[Shop]:
    """A registry with `SHOP` to be published on a Knot."""
    registry, url = shared
    registry.move()
    registry.register(SHOP, "eve", nameservers=NS)
    with primary("knot", tmp_path / "knot", "example.test") as server:
        yield Shop(registry, url, server)


def test_the_zones_of_a_killed_publisher_are_taken_over(shop: Shop) -> None:
    registry = shop.registry

    async def run() -> None:
        async with shop.two_publishers() as (one, other):
            paused = shop.pause_before_the_record(one)
            one.start()
            await paused.wait()
            await one.kill()
            other.start()
            # Nothing is done while the dead one's lease lasts.
            await other.publisher.publish_waiting()
            assert (await registry.db.read(find, shop.lease)).holder == "a"
            assert other.took == {}
            await registry.db.write(run_out, shop.lease)
            await until_published(registry.db)
            assert other.took == {"example.test": 1}

    registry.run(run())
    lease = registry.read(find, shop.lease)
    assert (lease.holder, lease.epoch) == ("b", 2)
    at_shop = {(each.type, each.rdata) for each in shop.server.records() if each.owner == SHOP}
    assert at_shop == {("NS", f"{NS[0]}.")}
    assert registry.doctor() == []


async def _late_failure(shop: Shop) -> None:
    """One publisher pauses for longer than its lease, and another takes the zone; then the first can't read
    back.
    """
    registry = shop.registry
    async with shop.two_publishers() as (one, other):
        go_on = asyncio.Event()
        paused = shop.pause_before_the_record(one, go_on)
        one.start()
        await paused.wait()
        await registry.db.write(run_out, shop.lease)
        begun = shop.pause_before_the_record(other)
        other.start()
        await begun.wait()
        shop.server.kill()
        # No other writer: one publisher has lost the zone, the other pauses.
        before = await registry.db.read(_published)
        go_on.set()
        await until(lambda: not _is_at_work(one))
        assert await registry.db.read(_published) == before


def _published(tx: Tx) -> list[object]:
    queries = (select_subdomains(), published_owners.select())
    return [tuple(row) for query in queries for row in tx.connection.execute(query)]


@pytest.mark.whole_on_postgresql
def test_a_publisher_without_the_lease_records_nothing(shop: Shop) -> None:
    shop.registry.run(_late_failure(shop))


@pytest.mark.whole
def test_a_late_publisher_without_the_epoch_check_fails_the_test(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: no epoch is compared inside any transaction."""
    _without_leases(monkeypatch)
    with pytest.raises(AssertionError):
        shop.registry.run(_late_failure(shop))
