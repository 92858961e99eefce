"""The operator's own records in a zone: which owners, types and values, and what they change; on both
databases.
"""

from collections.abc import Sequence

import pytest

from sublet.audit import list_events
from sublet.dns.types import Record, RecordSet
from sublet.errors import Conflict, NotFound, SubdomainUnavailable, ValidationFailed
from sublet.platform_domains import zone_store
from sublet.platform_domains.platform_domain import find_platform_domain
from sublet.subdomains.delete import delete
from sublet.subdomains.view_zone import export_zone, serial_of
from sublet.subdomains.zone_records import list_zone_record_sets, remove_zone_record, set_zone_record
from support.registry import OPERATOR, Registry

ZONE = "example.test"


def set_(registry: Registry, owner: str, type_name: str, *values: str, ttl_seconds: int = 3600) -> RecordSet:
    return registry.write(set_zone_record, OPERATOR, ZONE, owner, type_name, values, ttl_seconds=ttl_seconds)


def serial(registry: Registry) -> int:
    return registry.read(lambda tx: serial_of(tx, find_platform_domain(tx, ZONE)))


def exported(registry: Registry) -> list[tuple[str, str, int, str]]:
    """Return the records of the zone, without those at the apex that each zone has."""
    records = registry.read(lambda tx: list(export_zone(tx, find_platform_domain(tx, ZONE), ["192.0.2.53"])))
    return [
        (each.owner, each.type, each.ttl_seconds, each.rdata)
        for each in records
        if each.type not in ("SOA", "NS")
    ]


def insert(registry: Registry, *records: Record) -> None:
    """Store records as `sublet domain add --zone-file` adopts them."""
    registry.write(lambda tx: zone_store.insert_records(tx, find_platform_domain(tx, ZONE).id, records))


SETS: list[tuple[str, str, Sequence[str], RecordSet]] = [
    ("@", "caa", ["0 issue letsencrypt.org"], RecordSet("@", "CAA", 3600, ('0 issue "letsencrypt.org"',))),
    (ZONE, "MX", ["10 mail.example.net", "20 @"], RecordSet("@", "MX", 3600, ("10 mail.example.net.", "20 example.test."))),  # noqa: E501
    ("@", "A", ["10.0.0.1"], RecordSet("@", "A", 3600, ("10.0.0.1",))),
    ("_psl", "TXT", ["https://github.com/publicsuffix/list/pull/1"], RecordSet("_psl", "TXT", 3600, ('"https://github.com/publicsuffix/list/pull/1"',))),
    ("WWW.example.test.", "CNAME", ["@"], RecordSet("www", "CNAME", 3600, ("example.test.",))),
    ("*", "AAAA", ["2a00::1"], RecordSet("*", "AAAA", 3600, ("2a00::1",))),
    ("a.b", "HTTPS", ["1 . alpn=h2"], RecordSet("a.b", "HTTPS", 3600, ('1 . alpn="h2"',))),
]  # fmt: skip


def test_records_are_set_and_served_and_raise_the_serial(registry: Registry) -> None:
    for owner, type_name, values, rrset in SETS:
        before = serial(registry)
        assert set_(registry, owner, type_name, *values) == rrset
        assert rrset in registry.read(list_zone_record_sets, ZONE)
        full = ZONE if rrset.name == "@" else f"{rrset.name}.{ZONE}"
        for value in rrset.values:
            assert (full, rrset.type, 3600, value) in exported(registry)
        assert serial(registry) == before + 1
    assert registry.doctor() == []


def test_a_record_is_replaced_and_removed(registry: Registry) -> None:
    set_(registry, "www", "A", "8.8.8.8", "8.8.4.4")
    set_(registry, "www", "TXT", "a")
    before = serial(registry)
    for _ in range(2):  # the second time changes nothing
        set_(registry, "WWW", "A", "9.9.9.9", ttl_seconds=60)
    assert registry.read(list_zone_record_sets, ZONE) == [
        RecordSet("www", "A", 60, ("9.9.9.9",)),
        RecordSet("www", "TXT", 3600, ('"a"',)),
    ]
    removed = registry.write(remove_zone_record, OPERATOR, ZONE, "WWW.example.test", "a")
    assert removed == RecordSet("www", "A", 60, ("9.9.9.9",))
    assert [each.type for each in registry.read(list_zone_record_sets, ZONE)] == ["TXT"]
    assert serial(registry) == before + 2
    of, actions = [registry.domains[ZONE]], ["zone_record.set", "zone_record.remove"]
    changes = [
        ((each.before or {}).get("values"), (each.after or {}).get("values"))
        for each in registry.read(list_events, "platform_domain", of, actions)
    ]
    both = ["8.8.4.4", "8.8.8.8"]
    assert changes == [(None, both), (None, ['"a"']), (both, ["9.9.9.9"]), (["9.9.9.9"], None)]
    registry.refused(NotFound, remove_zone_record, OPERATOR, ZONE, "www", "A")


def test_names_at_and_above_a_record_can_not_be_registered_until_it_is_removed(registry: Registry) -> None:
    set_(registry, "a.shop", "A", "8.8.8.8")
    with registry.refuses(SubdomainUnavailable):
        registry.register(f"shop.{ZONE}")
    registry.write(remove_zone_record, OPERATOR, ZONE, "a.shop", "A")
    registry.register(f"shop.{ZONE}")


@pytest.mark.parametrize("is_deleted", [False, True])
def test_records_of_registered_names_are_their_holders(registry: Registry, is_deleted: bool) -> None:
    held = registry.register(f"shop.{ZONE}")
    if is_deleted:
        registry.write(delete, registry.actor(), str(held.id))
    for owner in ("shop", "*.shop", "_acme-challenge.a.shop"):
        with registry.refuses(Conflict) as caught:
            set_(registry, owner, "TXT", "a")
        assert f"shop.{ZONE} is registered" in caught[0].message


def test_records_of_other_zones_and_of_the_registry_are_refused(registry: Registry) -> None:
    registry.add_domain(f"child.{ZONE}")
    insert(registry, Record(f"old.{ZONE}", "NS", 3600, "ns.provider.example."))
    for owner, says in (
        ("child", "zone of its own"),
        ("a.child", "zone of its own"),
        ("_sublet", "The registry sets"),
        ("*._dsync", "The registry sets"),
        ("_dsync", "The registry sets"),
        ("old", "adopted NS record"),
        ("a.old", "adopted NS record"),
    ):
        with registry.refuses(Conflict) as caught:
            set_(registry, owner, "TXT", "a")
        assert says in caught[0].message


def test_a_cname_is_alone(registry: Registry) -> None:
    set_(registry, "www", "A", "8.8.8.8")
    set_(registry, "ftp", "CNAME", "www.example.test.")
    for owner, type_name, value in (
        ("www", "CNAME", "a.example"),
        ("ftp", "A", "8.8.8.8"),
        ("ns1", "CNAME", "a.example"),
    ):
        with registry.refuses(Conflict):
            set_(registry, owner, type_name, value)
    set_(registry, "ftp", "CNAME", "a.example")


def test_wrong_records_are_refused(registry: Registry) -> None:
    for owner, type_name, values, errors in (
        ("@", "CNAME", ["a.example"], [("type", "cname_not_alone")]),
        ("@", "NS", ["ns.a.example"], [("type", "value_invalid")]),
        ("a", "PTR", ["a.example"], [("type", "value_invalid")]),
        ("other.test.", "A", ["8.8.8.8", "8"], [("name", "record_invalid"), ("values[1]", "record_invalid")]),
        ("a", "A", [], [("values", "required")]),
    ):
        with registry.refuses(ValidationFailed) as caught:
            set_(registry, owner, type_name, *values)
        assert [(each.field, each.code) for each in caught[0].errors] == errors
    with registry.refuses(ValidationFailed) as caught:
        set_(registry, "a", "A", "8.8.8.8", ttl_seconds=5)
    assert [each.field for each in caught[0].errors] == ["ttl"]


def test_a_zone_on_a_primary_is_edited_there(registry: Registry) -> None:
    registry.add_domain("moved.test", primary="main")
    for domain, refusal in (("moved.test", Conflict), ("nowhere.test", NotFound)):
        registry.refused(refusal, set_zone_record, OPERATOR, domain, "@", "A", ["8.8.8.8"])
        registry.refused(refusal, remove_zone_record, OPERATOR, domain, "@", "A")
        with pytest.raises(refusal):
            registry.read(list_zone_record_sets, domain)


def test_adopted_records_are_listed_and_removed(registry: Registry) -> None:
    insert(
        registry,
        Record(ZONE, "MX", 600, "10 mail.example.test."),
        Record(f"a.*.b.{ZONE}", "TXT", 600, '"a"'),
        Record(f"old.{ZONE}", "NS", 600, "ns.provider.example."),
    )
    assert [(each.name, each.type) for each in registry.read(list_zone_record_sets, ZONE)] == [
        *(("@", "MX"), ("a.*.b", "TXT"), ("old", "NS")),
    ]
    for owner, type_name in (("@", "mx"), ("A.*.b", "TXT"), ("old", "NS")):
        registry.write(remove_zone_record, OPERATOR, ZONE, owner, type_name)
    assert registry.read(list_zone_record_sets, ZONE) == []
