"""The form of an UPDATE message by RFC 2136: prerequisites (2.4), then deletions and additions in order
(2.5).
"""

import dns.exception
import dns.message
import dns.name
import dns.opcode
import dns.rdataclass
import dns.rdatatype
import dns.update
import pytest

from sublet.dns.types import DELEGATION_TYPES, Record
from sublet.primaries.update import (
    build_aliases,
    build_update,
    fence_name,
    is_fence,
    new_fence,
    plan_changes,
    split_changes,
)

ZONE = "example.test"
BLOG = f"blog.{ZONE}"
GONE = f"gone.{ZONE}"
A, B = "a" * 32, "b" * 32
NS = Record(BLOG, "NS", 3600, "ns1.provider.example.")


def lines(section: "list[dns.rrset.RRset]") -> list[tuple[str, str, str, int, list[str]]]:
    """Each RRset of a section: owner, class, type, TTL, values."""
    return [
        (
            rrset.name.to_text(omit_final_dot=True),
            # RFC 2136: the class shows deletions and prerequisites.
            dns.rdataclass.to_text(rrset.deleting or rrset.rdclass),
            dns.rdatatype.to_text(rrset.rdtype),
            rrset.ttl,
            [rdata.to_text() for rdata in rrset],
        )
        for rrset in section
    ]


def built(fence: str | None = A, unused: tuple[str, ...] = ()) -> dns.update.UpdateMessage:
    """The message as a server reads it from the wire."""
    changes = plan_changes(ZONE, [BLOG, GONE], [NS])
    message = build_update(changes, fence=fence, next_fence=B, unused=unused)
    read = dns.message.from_wire(message.to_wire())
    assert isinstance(read, dns.update.UpdateMessage)
    return read


def test_the_zone_section_names_the_zone() -> None:
    message = built()
    assert message.opcode() == dns.opcode.UPDATE
    assert [(rrset.name, rrset.rdtype) for rrset in message.zone] == [
        (dns.name.from_text(ZONE), dns.rdatatype.SOA)
    ]
    assert message.additional == []


def test_the_fence_must_have_its_former_value() -> None:
    assert lines(built(A).prerequisite) == [(fence_name(ZONE), "IN", "TXT", 0, [f'"{A}"'])]  # 2.4.2


def test_a_first_update_requires_a_zone_without_a_fence() -> None:
    assert lines(built(None).prerequisite) == [(fence_name(ZONE), "NONE", "TXT", 0, [])]  # 2.4.3


def test_new_owners_must_not_be_in_use() -> None:
    message = built(A, (GONE, BLOG, BLOG))
    assert lines(message.prerequisite)[1:] == [(BLOG, "NONE", "ANY", 0, []), (GONE, "NONE", "ANY", 0, [])]


def test_deletions_by_type_then_additions_then_the_fence() -> None:
    deletions: list[tuple[str, str, str, int, list[str]]] = [
        (owner, "ANY", rdtype, 0, []) for rdtype in sorted(DELEGATION_TYPES) for owner in (BLOG, GONE)
    ]
    assert lines(built().update) == [
        *deletions,
        (BLOG, "IN", "NS", 3600, ["ns1.provider.example."]),
        (fence_name(ZONE), "ANY", "TXT", 0, []),
        (fence_name(ZONE), "IN", "TXT", 0, [f'"{B}"']),
    ]


def test_aliases_are_added_again_where_other_records_may_have_been() -> None:
    aliases = [Record(owner, "CNAME", 300, "host.example.") for owner in (BLOG, f"new.{BLOG}")]
    message = build_aliases(plan_changes(ZONE, [BLOG, GONE], aliases), fence=B)
    assert message is not None
    assert lines(message.prerequisite) == [(fence_name(ZONE), "IN", "TXT", 0, [f'"{B}"'])]
    assert lines(message.update) == [(BLOG, "IN", "CNAME", 300, ["host.example."])]
    assert build_aliases(plan_changes(ZONE, [GONE], aliases), fence=B) is None


def test_a_probe_updates_the_fence_only() -> None:
    message = build_update(plan_changes(ZONE, [], []), fence=A, next_fence=B)
    assert {each[0] for each in lines(message.update)} == {fence_name(ZONE)}


@pytest.mark.uncovered
def test_one_largest_delegation_fits_into_a_message_and_a_batch_of_them_does_not() -> None:
    """With 13 nameservers, both addresses of each, and 8 DS records."""
    label = "x" * 63
    records, owners = [], []
    for number in range(100):
        name = f"{number:03}{label[3:]}.{ZONE}"
        hosts = [f"{index:02}{label[2:]}.{name}" for index in range(13)]
        owners += [name, *hosts]
        records += [Record(name, "NS", 3600, f"{host}.") for host in hosts]
        records += [Record(host, "A", 3600, "9.9.9.9") for host in hosts]
        records += [Record(host, "AAAA", 3600, "2620:fe::9") for host in hosts]
        records += [Record(name, "DS", 3600, f"{tag} 13 4 {'ab' * 48}") for tag in range(8)]
    message = build_update(plan_changes(ZONE, owners, records), fence=A, next_fence=B, unused=owners)
    with pytest.raises(dns.exception.TooBig):
        message.to_wire()
    one = [record for record in records if record.owner.endswith(owners[0])]
    message = build_update(plan_changes(ZONE, owners[:14], one), fence=A, next_fence=B, unused=owners[:14])
    assert len(message.to_wire()) < 10_000


def test_the_removal_of_many_records_fits_into_a_message() -> None:
    owners = [f"{number:060}.{BLOG}" for number in range(200)]
    message = build_update(plan_changes(ZONE, owners, [], owners), fence=A, next_fence=B)
    assert len(message.to_wire()) < 50_000


def test_changes_that_are_too_long_for_a_message_are_sent_in_parts() -> None:
    owners = [f"{f'{number:060}.' * 3}{BLOG}" for number in range(500)]
    old, new = owners[:300], owners[200:]
    changes = plan_changes(ZONE, old, [Record(each, "A", 300, "8.8.4.4") for each in new], old)
    parts = split_changes(changes)
    assert [each for part in parts for each in part.delete_owners] == old
    assert [record.owner for part in parts for record in part.adds] == new
    for part in parts:
        assert part.with_records == set(part.delete_owners)
        build_update(part, fence=A, next_fence=B, unused={each.owner for each in part.adds}).to_wire()
    assert split_changes(parts[0]) == parts[:1]


def test_too_many_records_of_one_owner_are_refused() -> None:
    records = [Record(BLOG, "TXT", 300, f'"{number}{"x" * 240}"') for number in range(300)]
    with pytest.raises(dns.exception.TooBig):
        split_changes(plan_changes(ZONE, [BLOG], records))


@pytest.mark.parametrize("text", ["", "hand", "A" * 32, "a" * 31, "a" * 33, "a" * 32 + "\n", "\u0661" * 32])
def test_other_texts_are_not_fences(text: str) -> None:
    assert not is_fence(text)


def test_each_new_fence_is_unique() -> None:
    found = {new_fence() for _ in range(100)}
    assert len(found) == 100
    assert all(map(is_fence, found))
