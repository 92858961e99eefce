"""What is read for queries: the zone as it is stored, whatever else is asked for with it."""

import random

import dns.message
import dns.rcode
import pytest

from sublet.db import Tx
from sublet.dns.answer import answer
from sublet.dns.names import ancestors, is_at_or_below
from sublet.dns.query import read_query
from sublet.dns.types import Record, Secondary
from sublet.platform_domains import zone_store
from sublet.platform_domains.view_zone import view_zones
from support.registry import Registry

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
LABELS = [
    "a",
    "b",
    "c",
    "d",
    "a-b",
    "c-d",
    "ns1",
    "blog",
    "wild",
    "shop",
    "x",
    "0",
    "nested",
    "child",
    "deep",
]


@pytest.fixture
def zones(registry: Registry) -> Registry:
    """A zone with records, one below it, and one below it on a primary of its own, whose secondary is a host of the upper zone."""
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


def test_which_names_exist(zones: Registry) -> None:
    """Those with records and those above them, held against a look at each record; names at delegations, which nobody asks for, aside."""
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


def test_what_is_asked_for_with_others_is_read_as_alone(zones: Registry) -> None:
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


def test_a_secondary_of_a_zone_elsewhere_is_known_to_its_referral_alone(zones: Registry) -> None:
    views = zones.read(view_zones, [f"x.{ELSEWHERE}", "ns2.example.test"])
    assert [each.rdata for each in views[f"x.{ELSEWHERE}"].records["ns2.example.test"]] == ["192.0.2.54"]
    assert [each.rdata for each in views["ns2.example.test"].records["ns2.example.test"]] == ["192.0.2.3"]


def test_a_dot_inside_a_label_makes_nothing_of_a_delegation(zones: Registry) -> None:
    name = r"x\.blog.example.test"
    below = Record(rf"a.{name}", "TXT", 300, '"below"')
    zones.write(zone_store.insert_records, zones.domains[ZONE], [below])
    assert name in zones.read(view_zones, [name])[name].existing


def test_a_wildcard_above_other_names_exists(registry: Registry) -> None:
    """RFC 4592, section 4.9: it answers without data, so the name it is asked for is no missing one."""
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
