"""The publisher's transactions: write-ahead and outcomes; on both databases."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from sublet.audit import audit_events
from sublet.db import Tx
from sublet.dns.types import GlueEntry, RecordSet
from sublet.primaries import store as publish_store
from sublet.primaries.primary_zone import build_messages
from sublet.primaries.publisher_transactions import (
    BACK_OFF_MAX_SECONDS,
    Batch,
    Result,
    backoff_delay,
    begin_publication,
    record_publication,
)
from sublet.subdomains import published_owner_store, store
from sublet.subdomains.delete import delete
from sublet.subdomains.lifecycle import derive_status
from sublet.subdomains.model import UpdateNameservers
from sublet.subdomains.update_nameservers import update_nameservers
from support.registry import Registry

SHOP = "shop.example.test"
NS = ("ns1.example.org",)


@pytest.fixture(autouse=True)
def _on_primary(registry: Registry) -> None:
    registry.move()


def _begin(registry: Registry) -> Batch:
    batch = registry.write(begin_publication, registry.domains["example.test"])
    assert batch is not None
    return batch


def _record(registry: Registry, batch: Batch, result: Result) -> None:
    registry.write(record_publication, {result.item.subdomain_id: result}, batch)


def _change(registry: Registry, *nameservers: str) -> None:
    registry.write(update_nameservers, registry.actor(), SHOP, UpdateNameservers(nameservers))


def _owners(registry: Registry, subdomain_id: int) -> frozenset[str]:
    return registry.read(published_owner_store.list_published_owners, subdomain_id)


def _zone(registry: Registry) -> list[tuple[str, str, str]]:
    return sorted((each.owner, each.type, each.rdata) for each in registry.sent["example.test"])


def _actions(registry: Registry) -> list[str]:
    query = (
        select(audit_events.c.action).where(audit_events.c.actor_kind == "system").order_by(audit_events.c.id)
    )
    return registry.read(lambda tx: list(tx.connection.execute(query).scalars()))


def test_possibly_published_owners_are_written_ahead(registry: Registry) -> None:
    glue = (GlueEntry("ns.shop.example.test", "203.0.114.5", None),)
    held = registry.register(SHOP, nameservers=("ns.shop.example.test",), glue=glue)
    batch = _begin(registry)
    (item,) = batch.items
    assert (item.generation, item.owners) == (1, frozenset({SHOP, "ns.shop.example.test"}))
    assert _owners(registry, held.id) == item.owners
    assert registry.write(begin_publication, 99) is None
    # After a crash here, the second attempt knows the records that the first may have sent.
    (again,) = _begin(registry).items
    assert (again.owners, again.desired) == (item.owners, item.desired)


def test_a_batch_of_many_records_fits_into_a_message(registry: Registry) -> None:
    """First the records are added, then changed, which deletes each type at each owner."""
    sets = [RecordSet(f"h{number}", "TXT", 300, ('"v=spf1 mx -all"',)) for number in range(45)]
    changes = {**store.records_columns(sets), **store.NEXT_GENERATION}
    registry.add_user("carl", free_quota=40)
    ids = [registry.register(f"n{number}.example.test", "carl").id for number in range(40)]

    def give_records(tx: Tx) -> None:
        for each in ids:
            store.update_subdomain(tx, each, **changes)

    registry.write(give_records)
    counts = []
    for _ in range(2):
        batch = _begin(registry)
        (message,) = build_messages(batch)
        assert len(message.to_wire(max_size=65_000)) > 40_000
        counts.append(len(batch.items))
        registry.publish()
        registry.write(store.republish, ids)
    assert 40 > counts[0] > counts[1] > 1


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
    registry.send(batch)
    _change(registry, "ns2.example.org")  # While the batch is being sent.
    _record(registry, batch, Result(batch.items[0], serial=2))
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
    _record(registry, batch, Result(batch.items[0], error="refused"))
    found = registry.subdomain(held.id)
    assert (found.provision_error, found.attempts, found.next_attempt_at) == (None, 0, None)
    assert derive_status(found, registry.now) == "provisioning"


def test_a_late_outcome_does_not_undo_a_newer_one(registry: Registry) -> None:
    held = registry.register(SHOP, nameservers=NS)
    late = _begin(registry)
    _change(registry, "ns2.example.org")
    registry.publish()
    before = registry.subdomain(held.id)
    for result in (Result(late.items[0], serial=1), Result(late.items[0], error="refused")):
        _record(registry, late, result)
        assert registry.subdomain(held.id) == before


def test_failures_back_off_and_are_audited_once(registry: Registry) -> None:
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


@pytest.mark.parametrize(("attempts", "most"), [(0, 1), (1, 2), (5, 32), (6, 60), (10_000, 60)])
def test_the_back_off_doubles_up_to_a_minute(attempts: int, most: float) -> None:
    waits = [backoff_delay(attempts).total_seconds() for _ in range(200)]
    assert most / 2 <= min(waits) <= max(waits) <= most <= BACK_OFF_MAX_SECONDS
    assert max(waits) - min(waits) > most / 10, "without jitter all come back at once"


def test_a_batch_is_bounded_and_has_the_oldest_and_the_newest_changes(registry: Registry) -> None:
    """A new change doesn't wait until all names of a large zone are published again."""
    of = registry.domains["example.test"]
    held = []
    for index in range(5):
        registry.advance(seconds=1)
        held.append(registry.register(f"n{index}.example.test", nameservers=NS).id)
    ends, next_ends = [held[0], held[4]], [held[1], held[3]]
    for at_most, besides, expected in (
        (1, [], held[:1]),
        (2, [], ends),
        (2, ends, next_ends),
        (3, [], [*ends, held[1]]),
        (6, [], held),
    ):
        batch = registry.write(begin_publication, of, {"main": at_most}, besides=besides)
        assert batch is not None
        assert [item.subdomain_id for item in batch.items] == expected


def test_glue_of_removed_hosts_is_removed_from_the_zone(registry: Registry) -> None:
    glue = (GlueEntry("ns.shop.example.test", "203.0.114.5", None),)
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


def test_changes_outside_a_batch_wait(registry: Registry) -> None:
    of = registry.domains["example.test"]
    first = registry.register("first.example.test", nameservers=("ns1.example.org",))
    assert registry.read(publish_store.is_any_waiting, of, [])
    assert not registry.read(publish_store.is_any_waiting, of, [first.id])
    second = registry.register("second.example.test", nameservers=("ns1.example.org",))
    registry.register("third.example.test")
    assert registry.read(publish_store.is_any_waiting, of, [first.id])
    registry.publish(error="away")
    assert not registry.read(publish_store.is_any_waiting, of, [second.id]), "they are to be tried later"
