"""The published state of the built-in name server: what it answers with is what stands in `zone_records`.

It is a zone like any other server's: it does not know which records are the registry's. Apex SOA and NS are not in it; they
are made from the platform domain's settings and serial. Of a zone on a primary of one's own it has what the last check found there
that is not ours: such names can't be registered. It also has the DNSKEY records of that zone's apex, which tell that the zone is signed.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable

from sqlalchemy import (
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from sublet.db import Prepared, Tx
from sublet.dns.names import owner_key
from sublet.dns.plan import RECORD_TYPES, ZoneChanges
from sublet.dns.types import Record
from sublet.platform_domains.store import platform_domains
from sublet.schema import BIG_ID, OWNER_KEY, STREAMED, metadata

DELEGATION_TYPES: tuple[str, ...] = RECORD_TYPES

zone_records = Table(
    "zone_records",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("platform_domain_id", ForeignKey("platform_domains.id"), nullable=False),
    Column("owner", String, nullable=False),
    Column("owner_key", OWNER_KEY, nullable=False),
    Column("type", String(16), nullable=False),
    Column("ttl_seconds", Integer, nullable=False),
    Column("rdata", Text, nullable=False),
    Index("ix_zone_records_owner_key", "platform_domain_id", "owner_key"),
)


# What is asked at every registration, or of every batch, is built once: building a statement takes longer than running it.
_OF_ZONE = zone_records.c.platform_domain_id == bindparam("of")
_AT_OWNERS = zone_records.c.owner_key.in_(bindparam("keys", expanding=True))
_RECORDS = Prepared(
    select(zone_records.c.owner, zone_records.c.type, zone_records.c.ttl_seconds, zone_records.c.rdata).where(
        _OF_ZONE & _AT_OWNERS
    )
)


def find_records(tx: Tx, platform_domain_id: int, owners: Collection[str]) -> dict[str, tuple[Record, ...]]:
    """Which records stand at these owners? By owner; owners without any are left out."""
    keys = [owner_key(owner) for owner in owners]
    rows = _RECORDS.all(tx, of=platform_domain_id, keys=keys)
    found: dict[str, list[Record]] = defaultdict(list)
    for row in rows:
        found[row[0]].append(Record(*row))
    return {owner: tuple(records) for owner, records in found.items()}


# One range, which the index answers; siblings such as "name-2" sort into it and are left out by the last line.
_AT_OR_BELOW = (
    _OF_ZONE
    & (zone_records.c.owner_key >= bindparam("at"))
    & (zone_records.c.owner_key < bindparam("end"))
    & ((zone_records.c.owner_key == bindparam("at")) | (zone_records.c.owner_key > bindparam("below")))
)
AT_OR_BELOW = select(zone_records.c.id).where(_AT_OR_BELOW)
"""The records of a zone at or below the name whose `owner_key` is given; for the stores above."""
_ANY_AT_OR_BELOW = Prepared(AT_OR_BELOW.limit(1))
_ANY_OTHER_AT_OR_BELOW = Prepared(
    select(zone_records.c.id)
    .where(_AT_OR_BELOW & zone_records.c.owner.not_in(bindparam("besides", expanding=True)))
    .limit(1)
)


def has_names_at_or_below(
    tx: Tx, platform_domain_id: int, name: str, *, besides: Collection[str] = ()
) -> bool:
    """Does any record stand at this name or below it, other than at the owners `besides`?"""
    key = owner_key(name)
    meant = {"of": platform_domain_id, "at": key, "end": key + "/", "below": key + "."}
    if besides:
        return _ANY_OTHER_AT_OR_BELOW.one_or_none(tx, **meant, besides=list(besides)) is not None
    return _ANY_AT_OR_BELOW.one_or_none(tx, **meant) is not None


def find_apex_keys(tx: Tx, platform_domain_id: int, zone: str) -> tuple[Record, ...]:
    """Which DNSKEY records did the last check find at the apex of a zone on a primary?"""
    at_apex = find_records(tx, platform_domain_id, [zone]).get(zone, ())
    return tuple(record for record in at_apex if record.type == "DNSKEY")


def replace_apex_keys(tx: Tx, platform_domain_id: int, zone: str, keys: Collection[Record]) -> None:
    """Store which DNSKEY records a check found at the apex of a zone on a primary."""
    before = find_apex_keys(tx, platform_domain_id, zone)
    delete_these_records(tx, platform_domain_id, set(before) - set(keys))
    insert_records(tx, platform_domain_id, sorted(set(keys) - set(before)))


_key = zone_records.c.owner_key
_NEXT_KEYS = Prepared(
    select(
        select(func.max(_key)).where(_OF_ZONE & (_key < bindparam("below"))).scalar_subquery(),
        select(func.min(_key)).where(_OF_ZONE & (_key >= bindparam("below"))).scalar_subquery(),
    )
)


def next_owner_keys(tx: Tx, platform_domain_id: int, name: str) -> list[str]:
    """Which owner keys stand right before and right behind where everything below this name begins?

    All that is below a name is one range of keys, and the place asked for is in that of each name above (`owner_key`). So where anything
    is below one of these, one of both keys is in its range.
    """
    row = _NEXT_KEYS.one_or_none(tx, of=platform_domain_id, below=owner_key(name) + ".")
    return [key for key in row or () if key is not None]


def list_zone_records(tx: Tx, platform_domain_id: int) -> list[Record]:
    """Which records stand in the whole zone, apex SOA and NS aside?"""
    rows = tx.connection.execute(
        select(zone_records.c.owner, zone_records.c.type, zone_records.c.ttl_seconds, zone_records.c.rdata)
        .where(zone_records.c.platform_domain_id == platform_domain_id)
        .order_by(zone_records.c.owner_key, zone_records.c.type, zone_records.c.rdata)
        .execution_options(**STREAMED)
    )
    return [Record(*row) for row in rows]


def delete_records(tx: Tx, platform_domain_id: int) -> None:
    """Take all records out of the zone."""
    tx.connection.execute(delete(zone_records).where(zone_records.c.platform_domain_id == platform_domain_id))


def delete_these_records(tx: Tx, platform_domain_id: int, records: Iterable[Record]) -> None:
    """Take these records out of the zone."""
    rows = [{"at": owner_key(each.owner), "of": each.type, "value": each.rdata} for each in records]
    if rows:
        tx.connection.execute(
            delete(zone_records).where(
                (zone_records.c.platform_domain_id == platform_domain_id)
                & (zone_records.c.owner_key == bindparam("at"))
                & (zone_records.c.type == bindparam("of"))
                & (zone_records.c.rdata == bindparam("value"))
            ),
            rows,
        )


_ADDED = Prepared(insert(zone_records))


def insert_records(tx: Tx, platform_domain_id: int, records: Iterable[Record]) -> None:
    """Add records to the zone."""
    rows = [
        {
            "platform_domain_id": platform_domain_id,
            "owner": record.owner,
            "owner_key": owner_key(record.owner),
            "type": record.type,
            "ttl_seconds": record.ttl_seconds,
            "rdata": record.rdata,
        }
        for record in records
    ]
    _ADDED.run_many(tx, rows)


_LOCKED = Prepared(
    select(platform_domains.c.id)
    .where(platform_domains.c.id == bindparam("platform_domain_id"))
    .with_for_update(key_share=True)
)


def lock_zone(tx: Tx, platform_domain_id: int) -> None:
    """Let changes of this zone follow one another, until the transaction ends; registrations go on meanwhile."""
    _LOCKED.lock(tx, platform_domain_id=platform_domain_id)


_REPLACED = Prepared(
    delete(zone_records).where(
        _OF_ZONE & _AT_OWNERS & or_(*(zone_records.c.type == each for each in DELEGATION_TYPES))
    )
)
_NEXT_SERIAL = Prepared(
    update(platform_domains)
    .where(platform_domains.c.id == bindparam("platform_domain_id"))
    .values(serial=platform_domains.c.serial % 4294967295 + 1)
    .returning(platform_domains.c.serial)
)


def apply_changes(tx: Tx, platform_domain_id: int, changes: ZoneChanges) -> int:
    """Apply the changes of one update to the locked zone at once, and return the new serial (RFC 1982 arithmetic)."""
    keys = [owner_key(owner) for owner in changes.delete_owners]
    _REPLACED.run(tx, of=platform_domain_id, keys=keys)
    insert_records(tx, platform_domain_id, changes.adds)
    return int(_NEXT_SERIAL.value(tx, platform_domain_id=platform_domain_id))
