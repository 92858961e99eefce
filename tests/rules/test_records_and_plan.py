import dns.rdata
import pytest

from sublet.dns.delegation import check_delegation
from sublet.dns.records import delegation_records
from sublet.dns.types import DELEGATION_TYPES, Delegation, GlueEntry, Record
from sublet.primaries.repair_zone import implausible_deletions
from sublet.primaries.update import ImplausiblePlan, ZoneChanges, plan_changes

ZONE = "example.test"
OWNER = "foo.example.test"
NS1 = "ns1.foo.example.test"


def delegation() -> Delegation:
    made, errors = check_delegation(
        OWNER,
        ("ns.dns.example", NS1, OWNER),
        (
            GlueEntry(NS1, "8.8.8.8", "2A00:1::0:1"),
            GlueEntry(NS1, "8.8.4.4"),
            GlueEntry(OWNER, None, "64:ff9b::8.8.8.8"),
        ),
        (f"2371 13 2 {'AB' * 32}", f"2371 13 4 {'CD' * 48}"),
        nameservers_min=1,
        nameservers_max=13,
    )
    assert errors == ()
    return made


def test_the_exact_records() -> None:
    records = delegation_records(OWNER, delegation(), 3600)
    assert records == (
        Record(OWNER, "AAAA", 3600, "64:ff9b::808:808"),
        Record(OWNER, "DS", 3600, "2371 13 2 " + "ab" * 32),
        Record(OWNER, "DS", 3600, "2371 13 4 " + "cd" * 48),
        Record(OWNER, "NS", 3600, "foo.example.test."),
        Record(OWNER, "NS", 3600, "ns.dns.example."),
        Record(OWNER, "NS", 3600, "ns1.foo.example.test."),
        Record(NS1, "A", 3600, "8.8.4.4"),
        Record(NS1, "A", 3600, "8.8.8.8"),
        Record(NS1, "AAAA", 3600, "2a00:1::1"),
    )
    for record in records:
        assert dns.rdata.from_text("IN", record.type, record.rdata).to_text() == record.rdata
    assert delegation_records(OWNER, Delegation(), 3600) == ()


def test_a_plan_deletes_possible_records_and_adds_desired_ones() -> None:
    records = delegation_records(OWNER, delegation(), 300)
    changes = plan_changes(
        ZONE, ["old.foo.example.test", OWNER, "old.foo.example.test"], [*reversed(records), records[0]]
    )
    assert changes == ZoneChanges(ZONE, (OWNER, "old.foo.example.test"), records)
    assert plan_changes(ZONE, [], []) == ZoneChanges(ZONE, (), ())
    assert DELEGATION_TYPES == ("NS", "DS", "A", "AAAA")


NO_OWNERS = [
    *(ZONE, "test", "", "elsewhere.example", "fooexample.test", "Foo.example.test", "foo.example.test."),
    *("*.example.test", "_sublet.example.test", "a\n.example.test", r"a\.example.test", "-a.example.test"),
    *(
        "a..example.test",
        "a" * 64 + ".example.test",
        ".".join(["a" * 60] * 4) + ".example.test",
        "é.example.test",
    ),
]


def test_a_plan_with_an_implausible_owner_is_refused() -> None:
    for owner in NO_OWNERS:
        with pytest.raises(ImplausiblePlan):
            plan_changes(ZONE, [OWNER, owner], [])
        with pytest.raises(ImplausiblePlan):
            plan_changes(ZONE, [], [Record(owner, "NS", 300, "ns.dns.example.")])


NS = Record(OWNER, "NS", 300, "ns.dns.example.")


@pytest.mark.parametrize(
    "desired",
    [
        *(
            [NS, Record(OWNER, type_, 300, "x")]
            for type_ in ("TXT", "SOA", "CNAME", "DNAME", "ANY", "RRSIG", "ns", "")
        ),
        [NS, Record(f"www.{OWNER}", "TXT", 300, '"x"')],
        *([Record(OWNER, type_, 300, "x")] for type_ in ("SOA", "DNAME", "RRSIG")),
        [NS, Record(OWNER, "NS", 301, "ns2.dns.example.")],
        [Record(OWNER, "DS", 300, "2371 13 2 " + "ab" * 32)],
        [NS, Record("bar.example.test", "DS", 300, "2371 13 2 " + "ab" * 32)],
    ],
)
def test_a_plan_with_records_that_no_name_has_is_refused(desired: list[Record]) -> None:
    with pytest.raises(ImplausiblePlan):
        plan_changes(ZONE, [OWNER], desired)


@pytest.mark.parametrize(
    ("deleting", "total", "implausible"),
    [
        (0, 0, False),
        (20, 20, False),
        (20, 0, False),
        (21, 21, True),
        (21, 2000, True),
        (21, 2100, False),
        (21, 2099, True),
        (100, 10_000, False),
        (101, 10_000, True),
        (3000, 300_000, False),
        (3001, 300_000, True),
    ],
)
def test_the_brake(deleting: int, total: int, implausible: bool) -> None:
    assert implausible_deletions(deleting, total) is implausible
