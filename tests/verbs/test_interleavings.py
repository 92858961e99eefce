"""Interleavings of two publishers, or of an operator and a registrant, step by step in one process."""

from datetime import timedelta

import pytest

from sublet.credits.model import Payable
from sublet.dns.types import GlueEntry
from sublet.errors import RenewalNotAvailable
from sublet.primaries.publisher_transactions import Batch, Result, begin_publication, record_publication
from sublet.subdomains import published_owner_store
from sublet.subdomains.model import UpdateNameservers
from sublet.subdomains.renew import renew
from sublet.subdomains.sweep.brake import stop_sweep
from sublet.subdomains.update_nameservers import update_nameservers
from support.registry import OPERATOR, Registry

SHOP = "shop.example.test"
HOST = f"ns1.{SHOP}"
OUTSIDE = "ns.example.org"
GLUE = (GlueEntry(HOST, "9.9.9.9", None),)


def _send(registry: Registry) -> Batch:
    batch = registry.write(begin_publication, registry.domains["example.test"])
    assert batch is not None
    registry.send(batch)
    return batch


def _record(registry: Registry, batch: Batch) -> None:
    results = {item.subdomain_id: Result(item, serial=2) for item in batch.items}
    registry.write(record_publication, results, batch)


def test_a_late_record_of_a_publisher_deletes_nothing_of_another_publisher(registry: Registry) -> None:
    registry.move()
    held = registry.register(SHOP, nameservers=(HOST, OUTSIDE), glue=GLUE)
    registry.publish()
    registry.write(update_nameservers, registry.actor(), SHOP, UpdateNameservers((OUTSIDE,)))
    first = _send(registry)
    registry.write(update_nameservers, registry.actor(), SHOP, UpdateNameservers((HOST, OUTSIDE), GLUE))
    second = _send(registry)
    _record(registry, first)
    _record(registry, second)
    assert registry.read(published_owner_store.list_published_owners, held.id) == {SHOP, HOST}
    registry.write(update_nameservers, registry.actor(), SHOP, UpdateNameservers((OUTSIDE,)))
    registry.publish()
    assert {record.owner for record in registry.sent["example.test"]} == {SHOP}
    assert registry.doctor() == []


def test_an_expired_name_is_renewed_once_and_from_now(registry: Registry) -> None:
    held = registry.register(SHOP)
    registry.advance(days=400)
    registry.write(stop_sweep, OPERATOR)  # The audit event shows that the registry was not off all the time.
    registry.advance(days=400)
    registry.write(renew, registry.actor(), SHOP, Payable())
    assert registry.subdomain(held.id).expires_at == registry.now + timedelta(days=365)
    with pytest.raises(RenewalNotAvailable):
        registry.write(renew, registry.actor(), SHOP, Payable())
    assert registry.doctor() == []
