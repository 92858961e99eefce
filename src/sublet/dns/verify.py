"""What a server serves against what is desired: single delegations, and a whole zone. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import dns.exception
import dns.rdata
import dns.rdataclass

from sublet.dns.names import ancestors
from sublet.dns.types import Record
from sublet.primaries.plan import RECORD_TYPES

DELEGATION_TYPES = frozenset(RECORD_TYPES)
"""The types that a delegation is made of, so all that is ever published at a name."""

_SIGNER_TYPES = frozenset({"RRSIG", "NSEC", "NSEC3"})


def matches(desired: Iterable[Record], served: Iterable[Record]) -> bool:
    """Whether two sets of records say the same: owners, types, TTLs and values; in any order, repeated or not.

    Values are compared as they go over the wire, so another spelling (of an IPv6 address, of a digest) is no difference.
    """
    desired_set, served_set = set(desired), set(served)
    if desired_set == served_set:
        return True
    return {_canonical(record) for record in desired_set} == {_canonical(record) for record in served_set}


def same_value(record: Record) -> tuple[str, str, bytes]:
    """A record without its TTL, as it is compared: two records with equal ones are the same record."""
    return record.owner.lower(), record.type, _wire(record.type, record.rdata)


def _canonical(record: Record) -> tuple[tuple[str, str, bytes], int]:
    return same_value(record), record.ttl_seconds


@lru_cache(maxsize=4096)
def _wire(rdtype: str, text: str) -> bytes:
    try:
        return dns.rdata.from_text(dns.rdataclass.IN, rdtype, text).to_digestable()
    except dns.exception.DNSException:
        return text.encode()  # what nobody can read equals only itself


@dataclass(frozen=True, slots=True)
class DifferentName:
    """A name that is in the zone otherwise than desired; `live` are the records at the owners of `desired`, both sorted."""

    name: str
    live: tuple[Record, ...]
    desired: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class ZoneDifferences:
    """How a live zone differs from what is desired; everything sorted.

    `missing`: desired names of which nothing is there. `different`: those that are there otherwise. `orphaned`: records
    of ours that no desired name accounts for; to be deleted. `foreign`: records that we never wrote; to be left alone.
    """

    missing: tuple[str, ...] = ()
    different: tuple[DifferentName, ...] = ()
    orphaned: tuple[Record, ...] = ()
    foreign: tuple[Record, ...] = ()

    @property
    def ours_is_right(self) -> bool:
        """Whether nothing is to be repaired; foreign records don't count."""
        return not (self.missing or self.different or self.orphaned)


def compare_zone(
    live: Iterable[Record],
    desired: Mapping[str, tuple[Record, ...]],
    ours: Collection[str],
    *,
    ignored: Collection[str] = (),
    unjudged: Collection[str] = (),
) -> ZoneDifferences:
    """Compare a whole zone, as a transfer gives it, with what should be in it.

    `desired` has by name the records of its delegation (NS and DS at the name, A and AAAA at or below it); a name with no records is
    not desired. `ours` are the owners that we published or may have published. `ignored` are owners that are neither (the fence's).
    `unjudged` are names that are being changed: nothing at or below them is looked at.

    A live record of a type that delegations are made of belongs to the desired names that have its owner among their
    records' owners. One that belongs to none is orphaned when its owner is of `ours`, also below a desired name (glue of a former
    nameserver), and else foreign, as is every record of another type. Records at the apex are passed over, and so is what
    a signing server makes by itself (RRSIG, NSEC, NSEC3).

    Raises ValueError when `live` has no SOA record: then it is no whole zone, and nothing may be concluded from what it lacks.
    """
    apexes: set[str] = set()
    by_owner: dict[str, list[Record]] = {}
    others: list[Record] = []
    for record in live:
        if record.type == "SOA":
            apexes.add(record.owner)
        elif record.type in DELEGATION_TYPES:
            by_owner.setdefault(record.owner, []).append(record)
        elif record.type not in _SIGNER_TYPES:
            others.append(record)
    if not apexes:
        raise ValueError("the live records have no SOA record, so they are no whole zone")
    passed_over = apexes | set(ignored)

    def is_judged(owner: str) -> bool:
        return owner not in passed_over and (
            not unjudged or not any(name in unjudged for name in (owner, *ancestors(owner)))
        )

    missing: list[str] = []
    different: list[DifferentName] = []
    claimed: set[str] = set()
    for name in sorted(desired):
        owners = {record.owner for record in desired[name]}
        claimed |= owners
        there = [record for owner in owners for record in by_owner.get(owner, ())]
        if owners and not there:
            missing.append(name)
        elif not matches(desired[name], there):
            different.append(DifferentName(name, tuple(sorted(there)), tuple(sorted(desired[name]))))
    unclaimed = {
        record
        for owner, at_owner in by_owner.items()
        if owner not in claimed and is_judged(owner)
        for record in at_owner
    }
    orphaned = {record for record in unclaimed if record.owner in ours}
    foreign = unclaimed - orphaned | {record for record in others if is_judged(record.owner)}
    return ZoneDifferences(tuple(missing), tuple(different), tuple(sorted(orphaned)), tuple(sorted(foreign)))
