"""The registry's knowledge of a zone's fence, and of the records that it published
itself; on both databases.
"""

import pytest

from sublet.dns.types import Record
from sublet.errors import Conflict, SubdomainUnavailable
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_store
from sublet.primaries.publisher_transactions import (
    Batch,
    Result,
    begin_publication,
    record_publication,
    record_refusal,
    settle_fence,
)
from sublet.subdomains import published_owner_store
from sublet.subdomains.edit_zone_settings import edit_zone_settings
from sublet.subdomains.model import UpdateNameservers
from sublet.subdomains.update_nameservers import update_nameservers
from support.registry import OPERATOR, Registry

ZONE = "example.test"
SHOP = f"shop.{ZONE}"


@pytest.fixture
def on_primary(registry: Registry) -> Registry:
    """Return a registry whose zone is marked as on a primary, with a name that waits to be published."""
    domain_id = registry.domains[ZONE]
    registry.write(lambda tx: platform_domain_store.update_platform_domain(tx, domain_id, primary="main"))
    registry.register(SHOP, nameservers=("ns1.example.org",))
    return registry


def _begin(registry: Registry) -> Batch:
    batch = registry.write(begin_publication, registry.domains[ZONE])
    assert batch is not None
    return batch


def _record(registry: Registry, batch: Batch) -> None:
    results = {each.subdomain_id: Result(each, serial=7) for each in batch.items}
    registry.write(record_publication, results, batch)


def _settle(registry: Registry, expected: str | None, found: str | None) -> str:
    return registry.write(settle_fence, registry.domains[ZONE], expected, found)


def _change(registry: Registry, nameserver: str) -> None:
    registry.write(update_nameservers, registry.actor(), SHOP, UpdateNameservers((nameserver,)))


def test_a_late_record_of_a_slow_publisher_does_not_move_the_fence_back(on_primary: Registry) -> None:
    slow = _begin(on_primary)
    # The first publisher's update is applied. Before it records the outcome, another publisher finds the
    # update, and continues.
    assert _settle(on_primary, slow.fence, slow.next_fence) == "applied"
    _change(on_primary, "ns2.example.org")
    quick = _begin(on_primary)
    _record(on_primary, quick)
    _record(on_primary, slow)
    state = on_primary.read(zone_store.find_zone_state, on_primary.domains[ZONE])
    assert (state.fence, state.rebuilt_at) == (quick.next_fence, None)


def test_a_fence_read_before_another_publisher_continued_is_ignored(on_primary: Registry) -> None:
    first = _begin(on_primary)
    _record(on_primary, first)
    _change(on_primary, "ns2.example.org")
    slow = _begin(on_primary)  # and reads the fence: it is what `first` set
    quick = _begin(on_primary)
    _record(on_primary, quick)
    assert _settle(on_primary, slow.fence, first.next_fence) == "moved"
    state = on_primary.read(zone_store.find_zone_state, on_primary.domains[ZONE])
    assert (state.fence, state.rebuilt_at) == (quick.next_fence, None)


def test_an_update_applied_after_its_name_was_refused_is_known_to_be_ours(on_primary: Registry) -> None:
    lost = _begin(on_primary)  # sent, and no answer
    refused = _begin(on_primary)  # the name is in use, by another hand
    (item,) = refused.items
    result = Result(item, error="in use", cause="in_use", nothing_applied=True)
    on_primary.write(record_refusal, on_primary.domains[ZONE], result)
    # The other publisher removes the records, and then the lost update is applied after all.
    assert _settle(on_primary, lost.fence, lost.next_fence) == "applied"
    owners = on_primary.read(published_owner_store.list_published_owners_by_subdomain, [item.subdomain_id])
    assert owners == {item.subdomain_id: {SHOP: (True, False)}}
    on_primary.advance(minutes=2)
    assert _begin(on_primary).items[0].new_owners == frozenset()


def test_adopted_records_are_not_lost_by_leaving_the_built_in_name_server(registry: Registry) -> None:
    domain_id = registry.domains[ZONE]
    adopted = [
        Record(f"mail.{ZONE}", "A", 300, "192.0.2.25"),
        Record(f"mail.{ZONE}", "TXT", 300, '"v=spf1 a"'),
    ]
    registry.write(zone_store.insert_records, domain_id, adopted)
    registry.register(SHOP, nameservers=("ns1.example.org",))
    registry.publish()
    to_primary = {"primary": "main"}
    caught = registry.refused(Conflict, edit_zone_settings, OPERATOR, ZONE, to_primary)
    assert "2 adopted records" in caught.message
    registry.write(edit_zone_settings, OPERATOR, ZONE, to_primary, force=True)
    assert registry.read(zone_store.list_zone_records, domain_id) == adopted, "until the first check"
    with registry.refuses(SubdomainUnavailable):
        registry.register(f"mail.{ZONE}")
    registry.write(edit_zone_settings, OPERATOR, ZONE, {"primary": ""})
    assert registry.read(zone_store.list_zone_records, domain_id) == []
