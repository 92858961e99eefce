"""Compare the records of a zone with the records that the registry wants in the zone (rules; no SQL, no
network).
"""

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from sublet.dns.difference import matches
from sublet.dns.names import ancestors
from sublet.dns.types import DELEGATION_TYPES, PUBLISHED_TYPES, Record

ADDRESSES = frozenset({"A", "AAAA"})
_SIGNER_TYPES = frozenset({"RRSIG", "NSEC", "NSEC3"})


class NameDifference(Struct, frozen=True):
    """A name with other records than the `desired` ones.

    `live` are the records at the owners of `desired`. Both are sorted.
    """

    name: str
    live: tuple[Record, ...]
    desired: tuple[Record, ...]


class ZoneDifferences(Struct, frozen=True):
    """How a live zone differs from the desired zone. All fields are sorted.

    `missing`: desired names without any record. `different`: desired names with other records. `orphaned`:
    our records that belong to no desired name, which the repair deletes. `foreign`: records that we never
    wrote, which the repair leaves alone. `own_servers`: the addresses of the zone's own name servers, which
    are part of the zone's setup.
    """

    missing: tuple[str, ...] = ()
    different: tuple[NameDifference, ...] = ()
    orphaned: tuple[Record, ...] = ()
    foreign: tuple[Record, ...] = ()
    own_servers: tuple[Record, ...] = ()

    @property
    def needs_no_repair(self) -> bool:
        """True if no record of ours is missing, different or orphaned. Foreign records don't count."""
        return not (self.missing or self.different or self.orphaned)


def compare_zone(
    live: Iterable[Record],
    desired: Mapping[str, tuple[Record, ...]],
    ours: Collection[str],
    *,
    with_records: Collection[str] = (),
    ignored: Collection[str] = (),
    skipped: Collection[str] = (),
) -> ZoneDifferences:
    """Compare a whole transferred zone with the desired records.

    `desired` maps each name to its records: a delegation, or records at and below the name. `ours` are the
    owners that we published or may have published; those in `with_records` may have records of other types
    than those of a delegation. `ignored` are owners whose records are left out, such as the fence. `skipped`
    are names that are being changed: all records at or below them are left out.

    A live record of a type in `DELEGATION_TYPES`, or in `PUBLISHED_TYPES` at an owner in `with_records`,
    belongs to the desired names that have a record at its owner. A record that belongs to no desired name is
    orphaned if its owner is in `ours`, for example glue of a former nameserver; otherwise it is foreign. All
    records of other types are foreign, except at the apex, and except the types of a signing server (RRSIG,
    NSEC, NSEC3). The addresses (A, AAAA) of hosts that the NS records at the apex name are not foreign, but
    `own_servers`.

    Raises:
        ValueError: `live` has no SOA record, so it isn't a whole zone.
    """
    apexes, by_owner, others = _split(live, with_records)
    if not apexes:
        raise ValueError("the live records have no SOA record, so they are not a whole zone")
    excluded = apexes | set(ignored)

    def is_compared(owner: str) -> bool:
        return owner not in excluded and (
            not skipped or not any(name in skipped for name in (owner, *ancestors(owner)))
        )

    missing: list[str] = []
    different: list[NameDifference] = []
    claimed: set[str] = set()
    for name in sorted(desired):
        owners = {record.owner for record in desired[name]}
        claimed |= owners
        at_owners = [record for owner in owners for record in by_owner.get(owner, ())]
        if owners and not at_owners:
            missing.append(name)
        elif not matches(desired[name], at_owners):
            different.append(NameDifference(name, tuple(sorted(at_owners)), tuple(sorted(desired[name]))))
    unclaimed = {
        record
        for owner, at_owner in by_owner.items()
        if owner not in claimed and is_compared(owner)
        for record in at_owner
    }
    orphaned = {record for record in unclaimed if record.owner in ours}
    apex_ns = (record for apex in apexes for record in by_owner.get(apex, ()) if record.type == "NS")
    servers = {record.rdata.removesuffix(".").lower() for record in apex_ns}
    own_servers = {each for each in unclaimed - orphaned if each.owner in servers and each.type in ADDRESSES}
    foreign = unclaimed - orphaned - own_servers | {each for each in others if is_compared(each.owner)}
    return ZoneDifferences(
        tuple(missing),
        tuple(different),
        tuple(sorted(orphaned)),
        tuple(sorted(foreign)),
        tuple(sorted(own_servers)),
    )


def _split(
    live: Iterable[Record], with_records: Collection[str]
) -> tuple[set[str], dict[str, list[Record]], list[Record]]:
    """Return the owners of SOA records, the records of types that names may have, by owner, and the others,
    without those of a signer.
    """
    apexes: set[str] = set()
    by_owner: dict[str, list[Record]] = {}
    others: list[Record] = []
    for record in live:
        if record.type == "SOA":
            apexes.add(record.owner)
        elif record.type in (PUBLISHED_TYPES if record.owner in with_records else DELEGATION_TYPES):
            by_owner.setdefault(record.owner, []).append(record)
        elif record.type not in _SIGNER_TYPES:
            others.append(record)
    return apexes, by_owner, others
