"""What the publisher records inside its transactions, and what checks and repairs find; on both engines."""

from collections.abc import Mapping
from datetime import timedelta

import pytest
from sqlalchemy import select

from sublet.audit import audit_events
from sublet.db import Tx
from sublet.dns.types import GlueInput, Record
from sublet.errors import Conflict
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_store
from sublet.platform_domains.model import PlatformDomain
from sublet.subdomains import publish_store, store
from sublet.subdomains.change_zone import change_zone
from sublet.subdomains.check_zone import ZoneCheck, check_built_in_zone
from sublet.subdomains.delete import delete
from sublet.subdomains.lifecycle import derive_status
from sublet.subdomains.model import UpdateNameservers
from sublet.subdomains.publishing import (
    BACK_OFF_MAX_SECONDS,
    Batch,
    Result,
    back_off,
    begin_publication,
    record_publication,
)
from sublet.subdomains.repair_zone import repair_built_in_zone
from sublet.subdomains.update_nameservers import update_nameservers
from support.registry import OPERATOR, Registry

SHOP = "shop.example.test"
NS = ("ns1.example.org",)


def _begin(registry: Registry) -> Batch:
    batch = registry.write(begin_publication, registry.domains["example.test"])
    assert batch is not None
    return batch


def _record(registry: Registry, results: Mapping[int, Result]) -> None:
    registry.write(record_publication, results)


def _change(registry: Registry, *nameservers: str) -> None:
    registry.write(update_nameservers, registry.actor(), SHOP, UpdateNameservers(nameservers))


def _owners(registry: Registry, subdomain_id: int) -> frozenset[str]:
    return registry.read(store.list_published_owners, subdomain_id)


def _zone(registry: Registry) -> list[tuple[str, str, str]]:
    records = registry.read(zone_store.list_zone_records, registry.domains["example.test"])
    return [(each.owner, each.type, each.rdata) for each in records]


def _actions(registry: Registry) -> list[str]:
    query = (
        select(audit_events.c.action).where(audit_events.c.actor_kind == "system").order_by(audit_events.c.id)
    )
    return registry.read(lambda tx: list(tx.connection.execute(query).scalars()))


def test_what_may_get_into_the_zone_is_written_ahead(registry: Registry) -> None:
    glue = (GlueInput("ns.shop.example.test", "203.0.114.5", None),)
    held = registry.register(SHOP, nameservers=("ns.shop.example.test",), glue=glue)
    batch = _begin(registry)
    (item,) = batch.items
    assert (item.generation, item.owners) == (1, frozenset({SHOP, "ns.shop.example.test"}))
    assert _owners(registry, held.id) == item.owners
    # A crash here, and again: the second attempt knows what the first may have sent.
    (again,) = _begin(registry).items
    assert (again.owners, again.desired) == (item.owners, item.desired)


def test_nothing_waits_where_nothing_changed(registry: Registry) -> None:
    registry.register(SHOP)
    assert registry.write(begin_publication, registry.domains["example.test"]) is None
    assert registry.write(begin_publication, 99) is None
    assert registry.read(publish_store.list_waiting_platform_domain_ids) == []


def test_a_published_name_is_active_with_its_serial(registry: Registry) -> None:
    held = registry.register(SHOP, nameservers=NS)
    registry.advance(seconds=1)
    registry.publish()
    found = registry.subdomain(held.id)
    assert derive_status(found, registry.now) == "active"
    assert (found.published_generation, found.published_at, found.published_serial) == (1, registry.now, 2)
    assert _zone(registry) == [(SHOP, "NS", "ns1.example.org.")]
    assert _actions(registry) == ["subdomain.publish"]
    assert registry.publish() == []


def test_only_the_generation_that_was_sent_is_published(registry: Registry) -> None:
    held = registry.register(SHOP, nameservers=NS)
    batch = _begin(registry)
    changed = registry.write(change_zone, batch)
    _change(registry, "ns2.example.org")  # while the batch is under way
    _record(registry, {held.id: Result(batch.items[0], serial=changed.serial)})
    found = registry.subdomain(held.id)
    assert (found.generation, found.published_generation) == (2, 1)
    assert derive_status(found, registry.now) == "provisioning"
    registry.publish()
    assert _zone(registry) == [(SHOP, "NS", "ns2.example.org.")]
    assert derive_status(registry.subdomain(held.id), registry.now) == "active"


def test_a_failure_of_an_older_generation_is_no_failure_of_the_new_one(registry: Registry) -> None:
    held = registry.register(SHOP, nameservers=NS)
    batch = _begin(registry)
    _change(registry, "ns2.example.org")
    _record(registry, {held.id: Result(batch.items[0], error="refused")})
    found = registry.subdomain(held.id)
    assert (found.provision_error, found.attempts, found.next_attempt_at) == (None, 0, None)
    assert derive_status(found, registry.now) == "provisioning"


def test_an_answer_that_comes_late_takes_nothing_back(registry: Registry) -> None:
    held = registry.register(SHOP, nameservers=NS)
    late = _begin(registry)
    _change(registry, "ns2.example.org")
    registry.publish()
    before = registry.subdomain(held.id)
    for result in (Result(late.items[0], serial=1), Result(late.items[0], error="refused")):
        _record(registry, {held.id: result})
        assert registry.subdomain(held.id) == before


def test_failures_back_off_and_are_told_once(registry: Registry) -> None:
    held = registry.register(SHOP, nameservers=NS)
    for attempts in range(1, 5):
        assert registry.publish(error="refused") == [held.id]
        found = registry.subdomain(held.id)
        assert (found.attempts, found.provision_error) == (attempts, "refused")
        assert derive_status(found, registry.now) == "failed"
        assert found.next_attempt_at is not None
        wait = found.next_attempt_at - registry.now
        assert timedelta(seconds=2 ** (attempts - 1) / 2) <= wait <= timedelta(seconds=2 ** (attempts - 1))
        registry.now = found.next_attempt_at - timedelta(microseconds=1)
        assert registry.publish() == []
        registry.now = found.next_attempt_at
    assert _actions(registry) == ["subdomain.publish_failed"]
    registry.publish()
    found = registry.subdomain(held.id)
    assert (found.attempts, found.provision_error, found.next_attempt_at) == (0, None, None)


@pytest.mark.parametrize(("attempts", "most"), [(0, 1), (1, 2), (5, 32), (6, 60), (10, 60), (10_000, 60)])
def test_the_back_off_doubles_up_to_a_minute(attempts: int, most: float) -> None:
    waits = [back_off(attempts).total_seconds() for _ in range(200)]
    assert most / 2 <= min(waits) <= max(waits) <= most <= BACK_OFF_MAX_SECONDS
    assert max(waits) - min(waits) > most / 10, "without jitter all come back at once"


def test_a_batch_is_bounded_and_those_longest_unchanged_come_first(registry: Registry) -> None:
    held = []
    for index in range(3):
        registry.advance(seconds=1)
        held.append(registry.register(f"n{index}.example.test", nameservers=NS).id)
    batch = registry.write(begin_publication, registry.domains["example.test"], {"": 2})
    assert batch is not None
    assert [item.subdomain_id for item in batch.items] == held[:2]


def test_hosts_that_are_gone_are_taken_out_of_the_zone(registry: Registry) -> None:
    glue = (GlueInput("ns.shop.example.test", "203.0.114.5", None),)
    held = registry.register(SHOP, nameservers=("ns.shop.example.test",), glue=glue)
    registry.publish()
    assert ("ns.shop.example.test", "A", "203.0.114.5") in _zone(registry)
    _change(registry, *NS)
    registry.publish()
    assert _zone(registry) == [(SHOP, "NS", "ns1.example.org.")]
    assert _owners(registry, held.id) == {SHOP}
    registry.write(delete, registry.actor(), SHOP)
    registry.publish()
    assert (_zone(registry), _owners(registry, held.id)) == ([], frozenset())


def test_a_name_in_use_by_someone_else_is_never_overwritten(registry: Registry) -> None:
    held = registry.register(SHOP, nameservers=NS)
    foreign = Record(SHOP, "A", 300, "192.0.2.1")
    registry.write(zone_store.insert_records, registry.domains["example.test"], [foreign])
    registry.publish()
    assert derive_status(registry.subdomain(held.id), registry.now) == "failed"
    assert _zone(registry) == [(SHOP, "A", "192.0.2.1")]
    assert _owners(registry, held.id) == frozenset()
    registry.write(delete, registry.actor(), SHOP)
    registry.publish()
    assert _zone(registry) == [(SHOP, "A", "192.0.2.1")]


# Checking a zone and repairing it


def _domain(registry: Registry) -> PlatformDomain:
    found = registry.read(platform_domain_store.find_platform_domain, registry.domains["example.test"])
    assert found is not None
    return found


def _check(registry: Registry) -> ZoneCheck:
    return registry.read(check_built_in_zone, _domain(registry))


def _spoil(registry: Registry, owner: str, *records: Record) -> None:
    """Replace what stands at an owner, past the registry."""

    def spoil(tx: Tx) -> None:
        table = zone_store.zone_records
        tx.connection.execute(table.delete().where(table.c.owner == owner))
        zone_store.insert_records(tx, registry.domains["example.test"], records)

    registry.write(spoil)


def test_a_zone_as_published_has_no_differences(registry: Registry) -> None:
    registry.register(SHOP, nameservers=NS)
    assert _check(registry).waiting == (SHOP,)
    registry.publish()
    found = _check(registry)
    assert (found.zone, found.waiting) == ("example.test", ())
    assert (found.differences.missing, found.differences.different, found.differences.orphaned) == (
        (),
        (),
        (),
    )


def test_what_was_spoiled_is_found_and_repaired(registry: Registry) -> None:
    registry.register(SHOP, nameservers=NS)
    registry.register("two.example.test", nameservers=NS)
    gone = registry.register("gone.example.test", registration_mode="plus", nameservers=NS)
    registry.publish()
    good = _zone(registry)
    _spoil(registry, SHOP)
    _spoil(registry, "two.example.test", Record("two.example.test", "NS", 3600, "ns.evil.example."))
    foreign = Record("office.example.test", "A", 300, "192.0.2.1")
    registry.write(zone_store.insert_records, registry.domains["example.test"], [foreign])
    differences = _check(registry).differences
    assert differences.missing == (SHOP,)
    assert [each.name for each in differences.different] == ["two.example.test"]
    assert differences.orphaned == ()
    assert {violation.invariant for violation in registry.doctor()} == {"zone_is_registry"}
    registry.write(repair_built_in_zone, OPERATOR, _domain(registry))
    registry.publish()
    assert sorted(_zone(registry)) == sorted([*good, ("office.example.test", "A", "192.0.2.1")])
    assert registry.doctor() == []
    assert registry.subdomain(gone.id).generation == 1, "what was right is not touched"


def _leave_behind(registry: Registry, count: int) -> None:
    """Put records into the zone at owners that are ours by the books, of names that want nothing there."""
    held = registry.register(SHOP, nameservers=NS)
    registry.publish()
    owners = [f"h{index}.example.test" for index in range(count)]
    registry.write(store.insert_published_owners, [(held.id, owner) for owner in owners])
    registry.write(
        zone_store.insert_records,
        registry.domains["example.test"],
        [Record(owner, "A", 300, "203.0.114.5") for owner in owners],
    )


def test_what_is_left_over_is_found_and_taken_out(registry: Registry) -> None:
    _leave_behind(registry, 3)
    assert len(_check(registry).differences.orphaned) == 3
    assert [violation.invariant for violation in registry.doctor()] == ["zone_is_registry"] * 3
    registry.write(repair_built_in_zone, OPERATOR, _domain(registry))
    registry.publish()
    assert _zone(registry) == [(SHOP, "NS", "ns1.example.org.")]
    assert registry.doctor() == []


def test_a_repair_that_would_take_out_very_much_asks_first(registry: Registry) -> None:
    _leave_behind(registry, 21)
    with registry.refuses(Conflict) as caught:
        registry.write(repair_built_in_zone, OPERATOR, _domain(registry))
    assert "--force" in caught[0].message
    registry.write(repair_built_in_zone, OPERATOR, _domain(registry), force=True)
    registry.publish()
    assert registry.doctor() == []


def test_a_repair_of_a_good_zone_changes_nothing(registry: Registry) -> None:
    registry.register(SHOP, nameservers=NS)
    registry.publish()
    before = registry.dump()
    registry.write(repair_built_in_zone, OPERATOR, _domain(registry))
    assert registry.dump() == before


def test_a_zone_of_any_size_is_published_anew(registry: Registry) -> None:
    found = registry.register("shop.example.test", nameservers=("ns1.example.org",))
    registry.write(publish_store.republish, [*range(found.id, found.id + 70_000)])
    assert registry.subdomain(found.id).generation == found.generation + 1


def test_what_waits_besides_a_batch(registry: Registry) -> None:
    of = registry.domains["example.test"]
    first = registry.register("first.example.test", nameservers=("ns1.example.org",))
    assert registry.read(publish_store.is_any_waiting, of, [])
    assert not registry.read(publish_store.is_any_waiting, of, [first.id])
    second = registry.register("second.example.test", nameservers=("ns1.example.org",))
    registry.register("third.example.test")
    assert registry.read(publish_store.is_any_waiting, of, [first.id])
    registry.publish(error="away")
    assert not registry.read(publish_store.is_any_waiting, of, [second.id]), "they are to be tried later"
