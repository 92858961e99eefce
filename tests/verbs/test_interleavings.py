"""Interleavings that only several processes make, step by step in one: two publishers, an operator beside a registrant."""

from datetime import timedelta

import pytest

from sublet.credits.model import Payable
from sublet.dns.types import GlueInput
from sublet.errors import RenewalNotAvailable
from sublet.platform_domains import zone_store
from sublet.subdomains import store
from sublet.subdomains.change_zone import change_zone
from sublet.subdomains.delete import delete
from sublet.subdomains.model import UpdateNameservers
from sublet.subdomains.publishing import Batch, Result, begin_publication, record_publication
from sublet.subdomains.purge import purge
from sublet.subdomains.renew import renew
from sublet.subdomains.suspend import suspend
from sublet.subdomains.sweep.stop import stop_sweep
from sublet.subdomains.update_nameservers import update_nameservers
from support.registry import OPERATOR, Registry

SHOP = "shop.example.test"
HOST = f"ns1.{SHOP}"
OUTSIDE = "ns.example.org"
GLUE = (GlueInput(HOST, "9.9.9.9", None),)


def _change_zone(registry: Registry) -> tuple[Batch, int]:
    batch = registry.write(begin_publication, registry.domains["example.test"])
    assert batch is not None
    return batch, registry.write(change_zone, batch).serial


def _record(registry: Registry, sent: tuple[Batch, int]) -> None:
    batch, serial = sent
    registry.write(
        record_publication, {item.subdomain_id: Result(item, serial=serial) for item in batch.items}
    )


def test_a_late_record_of_one_publisher_forgets_nothing_of_another(registry: Registry) -> None:
    held = registry.register(SHOP, nameservers=(HOST, OUTSIDE), glue=GLUE)
    registry.publish()
    registry.write(update_nameservers, registry.actor(), SHOP, UpdateNameservers((OUTSIDE,)))
    first = _change_zone(registry)
    registry.write(update_nameservers, registry.actor(), SHOP, UpdateNameservers((HOST, OUTSIDE), GLUE))
    second = _change_zone(registry)
    _record(registry, first)
    _record(registry, second)
    assert registry.read(store.list_published_owners, held.id) == {SHOP, HOST}
    registry.write(update_nameservers, registry.actor(), SHOP, UpdateNameservers((OUTSIDE,)))
    registry.publish()
    records = registry.read(zone_store.list_zone_records, registry.domains["example.test"])
    assert {record.owner for record in records} == {SHOP}
    assert registry.doctor() == []


def test_a_change_from_an_old_row_is_a_generation_of_its_own(registry: Registry) -> None:
    held = registry.register(SHOP, nameservers=(OUTSIDE,))
    registry.write(update_nameservers, registry.actor(), SHOP, UpdateNameservers((f"b.{OUTSIDE}",)))
    registry.publish()
    # Whoever read the row before that change: what it now stores must not count as published.
    registry.write(
        lambda tx: store.update_subdomain(
            tx, held.id, suspended_at=tx.now, **store.followed_by_dns(held, tx.now)
        )
    )
    found = registry.subdomain(held.id)
    assert found.generation > found.published_generation
    registry.publish()
    assert registry.read(zone_store.list_zone_records, registry.domains["example.test"]) == []


def test_an_operators_verb_sees_what_it_changes(registry: Registry) -> None:
    registry.register(SHOP, nameservers=(OUTSIDE,))
    registry.publish()
    suspended = registry.write(suspend, OPERATOR, SHOP)
    assert (suspended.generation, suspended.published_generation) == (2, 1)


def test_a_lapsed_name_is_renewed_from_now_and_once(registry: Registry) -> None:
    held = registry.register(SHOP)
    registry.advance(days=400)
    registry.write(stop_sweep, OPERATOR)  # an audit event: the registry was not off all the time
    registry.advance(days=400)
    registry.write(renew, registry.actor(), SHOP, Payable())
    assert registry.subdomain(held.id).expires_at == registry.now + timedelta(days=365)
    with pytest.raises(RenewalNotAvailable):
        registry.write(renew, registry.actor(), SHOP, Payable())
    assert registry.doctor() == []


def test_a_name_in_grace_is_renewed_from_its_old_expiry(registry: Registry) -> None:
    held = registry.register(SHOP)
    registry.advance(days=380)
    registry.write(renew, registry.actor(), SHOP, Payable())
    assert registry.subdomain(held.id).expires_at == held.expires_at + timedelta(days=365)
    assert registry.doctor() == []


def test_a_late_removal_does_not_take_out_the_next_holder(registry: Registry) -> None:
    """One publisher is away while another publishes the removal, the name is released, and somebody else registers it."""
    name = "blog.example.test"
    registry.register(name, nameservers=("ns1.provider.example",))
    registry.publish()
    registry.write(delete, registry.actor(), name)
    late = registry.write(begin_publication, registry.domains["example.test"])
    assert late is not None
    registry.publish()
    registry.write(purge, OPERATOR, name, release=True)
    registry.register(name, "ben", nameservers=("ns1.elsewhere.example",))
    registry.publish()
    changed = registry.write(change_zone, late)
    assert changed.stale_ids == {item.subdomain_id for item in late.items}
    assert registry.doctor() == []
