"""The zones of the built-in name server, as they are read to answer queries; on both databases."""

import random
from collections.abc import Callable
from typing import Any

import dns.message
import dns.rcode
import pytest

from sublet.db import Tx
from sublet.dns.answer import answer
from sublet.dns.names import ancestors, is_at_or_below
from sublet.dns.query import read_query
from sublet.dns.types import GlueEntry, Record, RecordSetInput, Secondary
from sublet.platform_domains import zone_store
from sublet.primaries.publisher_transactions import begin_publication
from sublet.subdomains import published_owner_store, store
from sublet.subdomains.delete import delete
from sublet.subdomains.edit_zone_settings import edit_zone_settings
from sublet.subdomains.lifecycle import derive_status
from sublet.subdomains.model import UpdateNameservers
from sublet.subdomains.suspend import suspend
from sublet.subdomains.update_nameservers import update_nameservers
from sublet.subdomains.view_zone import view_zones
from support.registry import OPERATOR, Registry

ZONE, NESTED, ELSEWHERE = "example.test", "nested.example.test", "deep.child.example.test"
RECORDS = [
    Record("blog.example.test", "NS", 300, "ns1.blog.example.test."),
    Record("blog.example.test", "NS", 300, "ns.shop.example.test."),
    Record("ns1.blog.example.test", "A", 300, "192.0.2.1"),
    Record("ns.shop.example.test", "A", 300, "192.0.2.2"),
    Record("a.b.c.d.example.test", "TXT", 300, '"deep"'),
    Record("a-b.example.test", "TXT", 300, '"beside"'),
    Record("a-b.c-d.example.test", "TXT", 300, '"beside"'),
    Record("*.wild.example.test", "TXT", 300, '"any"'),
    Record("z.example.test", "TXT", 300, '"last"'),
    Record("ns2.example.test", "A", 300, "192.0.2.3"),
]
LABELS = [*"abcdx0", "a-b", "c-d", "ns1", "blog", "wild", "shop", "nested", "child", "deep"]


@pytest.fixture
def zones(registry: Registry) -> Registry:
    """Return a zone with records, a nested zone, and a nested zone on a primary whose secondary is a host of
    the upper zone.
    """
    registry.add_domain(NESTED)
    registry.add_domain(
        ELSEWHERE,
        primary="main",
        apex_nameservers=("ns2.example.test",),
        secondaries=(Secondary("ns2.example.test", "192.0.2.54", 53),),
    )

    def fill(tx: Tx) -> None:
        zone_store.insert_records(tx, registry.domains[ZONE], RECORDS)
        nested = Record("x.y.nested.example.test", "TXT", 300, '"below"')
        zone_store.insert_records(tx, registry.domains[NESTED], [nested])

    registry.write(fill)
    return registry


def test_the_names_that_exist_in_a_zone(zones: Registry) -> None:
    """Names with records, and the names above them, exist.

    Names at delegations are left out, because no query is for them.
    """
    draws = random.Random(7)  # noqa: S311 - the same names each time
    names = [
        ".".join([*draws.choices(LABELS, k=draws.randrange(1, 5)), draws.choice((ZONE, NESTED))])
        for _ in range(200)
    ]
    owners = {
        ZONE: [*(record.owner for record in RECORDS), NESTED, ELSEWHERE],
        NESTED: ["x.y.nested.example.test"],
    }
    views = zones.read(view_zones, names)
    for name in names:
        if is_at_or_below(name, ELSEWHERE) or is_at_or_below(name, "blog.example.test"):
            continue
        view = views[name]
        for each in (name, *ancestors(name)):
            if is_at_or_below(each, view.apex.zone):
                there = any(is_at_or_below(owner, each) for owner in owners[view.apex.zone])
                assert (each in view.existing) == (there or each == view.apex.zone), (name, each)


def test_a_name_read_with_others_equals_the_name_read_alone(zones: Registry) -> None:
    names = [
        *(record.owner for record in RECORDS),
        *(
            ZONE,
            NESTED,
            ELSEWHERE,
            f"x.{ELSEWHERE}",
            "x.child.example.test",
            "no.x.wild.example.test",
            "test",
            "",
        ),
    ]
    together = zones.read(view_zones, names, ("192.0.2.99",))
    for name in names:
        alone = zones.read(view_zones, [name], ("192.0.2.99",))
        assert (name in alone) == (name in together) == is_at_or_below(name, ZONE)
        if name not in alone:
            continue
        view, whole = alone[name], together[name]
        assert whole.apex == view.apex
        assert whole.existing >= view.existing
        for owner, records in view.records.items():
            assert sorted(whole.records[owner]) == sorted(records)
        path = {name, *ancestors(name)}
        wanted = {*path, *(f"*.{each}" for each in path)}
        assert wanted & whole.records.keys() == wanted & view.records.keys()


def test_a_secondary_of_a_zone_on_a_primary_is_only_in_its_referral(zones: Registry) -> None:
    views = zones.read(view_zones, [f"x.{ELSEWHERE}", "ns2.example.test"])
    assert [each.rdata for each in views[f"x.{ELSEWHERE}"].records["ns2.example.test"]] == ["192.0.2.54"]
    assert [each.rdata for each in views["ns2.example.test"].records["ns2.example.test"]] == ["192.0.2.3"]


def test_a_wildcard_above_other_names_exists(registry: Registry) -> None:
    """Such a wildcard answers without data, so the queried name isn't missing (RFC 4592, section 4.9)."""
    beside = Record("sub.*.star.example.test", "TXT", 300, '"below an asterisk"')
    registry.write(zone_store.insert_records, registry.domains[ZONE], [*RECORDS, beside])
    for name, expected in (
        ("x.star.example.test", True),
        ("x.y.star.example.test", True),
        ("x.sub.*.star.example.test", False),
        ("x.example.test", False),
    ):
        view = registry.read(view_zones, [name])[name]
        assert ("*.star.example.test" in view.existing) == (expected or "*" in name), name
        query = read_query(dns.message.make_query(name, "TXT").to_wire())
        rcode = dns.rcode.NOERROR if expected else dns.rcode.NXDOMAIN
        assert answer(query, {name: view}).rcode == rcode, name


# Delegations of the registry

SHOP, BLOG = f"shop.{ZONE}", f"blog.{ZONE}"
HOST = f"ns1.{SHOP}"
GLUE = (GlueEntry(HOST, "9.9.9.9", None),)
OUTSIDE = ("ns1.example.org",)


def _served(registry: Registry, name: str) -> dict[str, list[tuple[str, str]]]:
    view = registry.read(view_zones, [name])[name]
    return {
        owner: [(each.type, each.rdata) for each in records]
        for owner, records in view.records.items()
        if records
    }


def _serial(registry: Registry) -> int:
    return registry.read(view_zones, [ZONE])[ZONE].apex.serial


def test_a_registration_and_a_change_are_served_with_their_commits(registry: Registry) -> None:
    before = _serial(registry)
    registry.advance(seconds=1)
    held = registry.register(SHOP, nameservers=(HOST,), glue=GLUE)
    assert derive_status(held, registry.now) == "active"
    published = (held.published_generation, held.published_at, held.published_serial)
    assert published == (1, registry.now, _serial(registry))
    assert _serial(registry) > before
    assert _served(registry, f"www.{SHOP}") == {SHOP: [("NS", f"{HOST}.")], HOST: [("A", "9.9.9.9")]}
    registry.register(BLOG, "ben", nameservers=(HOST,))
    by_hand = Record(HOST, "A", 300, "192.0.2.66")
    registry.write(zone_store.insert_records, registry.domains[ZONE], [by_hand])
    assert _served(registry, BLOG)[HOST] == [("A", "9.9.9.9")]
    before = _serial(registry)
    registry.advance(seconds=1)
    registry.write(update_nameservers, registry.actor(), SHOP, UpdateNameservers(OUTSIDE))
    found = registry.subdomain(held.id)
    assert (found.generation, found.published_generation) == (2, 2)
    assert found.published_serial == _serial(registry) > before
    assert _served(registry, SHOP) == {SHOP: [("NS", "ns1.example.org.")]}
    registry.write(suspend, OPERATOR, SHOP)
    assert _served(registry, BLOG)[HOST] == [("A", "192.0.2.66")], "the one of the operator"
    assert registry.doctor() == []


@pytest.mark.parametrize("verb", [suspend, delete])
def test_a_name_that_is_not_delegated_is_not_served(registry: Registry, verb: Callable[..., Any]) -> None:
    registry.register(SHOP, nameservers=OUTSIDE)
    registry.write(verb, OPERATOR if verb is suspend else registry.actor(), SHOP)
    assert _served(registry, SHOP) == {}


def test_a_delegation_hides_adopted_records(registry: Registry) -> None:
    registry.register(SHOP, nameservers=OUTSIDE)
    adopted = [
        Record(owner, "TXT", 300, '"adopted"') for owner in (SHOP, f"*.{SHOP}", f"mail.{SHOP}", f"*.{ZONE}")
    ]
    registry.write(zone_store.insert_records, registry.domains[ZONE], adopted)
    for name in (SHOP, f"mail.{SHOP}", f"x.{SHOP}"):
        assert _served(registry, name) == {
            SHOP: [("NS", "ns1.example.org.")],
            f"*.{ZONE}": [("TXT", '"adopted"')],
        }
    assert _served(registry, f"other.{ZONE}") == {f"*.{ZONE}": [("TXT", '"adopted"')]}


def test_a_zone_that_moves_to_the_built_in_name_server_is_published_with_the_move(registry: Registry) -> None:
    registry.move()
    shop = registry.register(SHOP, nameservers=OUTSIDE)
    registry.publish()
    blog = registry.register(BLOG, "ben", nameservers=OUTSIDE)
    registry.publish(error="refused")
    gone = registry.register(f"gone.{ZONE}", registration_mode="plus", nameservers=OUTSIDE)
    registry.write(delete, registry.actor(), gone.fqdn)  # its removal waits
    registry.write(edit_zone_settings, OPERATOR, ZONE, {"primary": ""})
    for each in (shop, blog, gone):
        found = registry.subdomain(each.id)
        assert found.generation == found.published_generation
        assert (found.provision_error, found.published_serial) == (None, _serial(registry))
    assert registry.read(published_owner_store.list_published_owners_of_zone, registry.domains[ZONE]) == {}
    assert SHOP in _served(registry, SHOP)
    assert registry.doctor() == []


def test_a_zone_that_moves_away_is_provisioning_until_its_primary_serves_it(registry: Registry) -> None:
    registry.write(edit_zone_settings, OPERATOR, ZONE, {"records": "on"})
    held = registry.register(SHOP, nameservers=(HOST,), glue=GLUE)
    registry.register(BLOG, "ben", nameservers=OUTSIDE)
    site, www = f"site.{ZONE}", f"www.site.{ZONE}"
    registry.register(site, "ben", records=(RecordSetInput("www", "A", ("9.9.9.9",)),))
    gone = registry.register(f"gone.{ZONE}", registration_mode="plus", nameservers=OUTSIDE)
    registry.write(delete, registry.actor(), gone.fqdn)
    registry.write(edit_zone_settings, OPERATOR, ZONE, {"primary": "main"})
    assert derive_status(registry.subdomain(held.id), registry.now) == "provisioning"
    batch = registry.write(begin_publication, registry.domains[ZONE])
    assert batch is not None
    found = {item.fqdn: (item.owners, item.owners_with_records, item.new_owners) for item in batch.items}
    none = frozenset[str]()
    assert found == {
        SHOP: (frozenset({SHOP, HOST}), none, none),
        BLOG: (frozenset({BLOG}), none, none),
        site: (frozenset({www}), frozenset({www}), none),
    }, "a copy of the zone is ours"
    registry.publish()
    assert derive_status(registry.subdomain(held.id), registry.now) == "active"


def test_a_change_beside_a_move_is_published_by_the_publisher(registry: Registry) -> None:
    """On PostgreSQL neither transaction sees the other, so the publisher must publish a name on the built-in
    name server.
    """
    held = registry.register(SHOP, nameservers=OUTSIDE)
    registry.write(
        lambda tx: tx.connection.execute(
            store.subdomains.update().values(generation=5, published_generation=4)
        )
    )
    assert registry.publish() == []
    found = registry.subdomain(held.id)
    assert (found.generation, found.published_generation) == (6, 6)


def test_a_dot_inside_a_label_matches_no_delegation(zones: Registry) -> None:
    name = r"x\.blog.example.test"
    below = Record(rf"a.{name}", "TXT", 300, '"below"')
    zones.write(zone_store.insert_records, zones.domains[ZONE], [below])
    assert name in zones.read(view_zones, [name])[name].existing
