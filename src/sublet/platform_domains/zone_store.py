"""All SQL of `zone_records`: the records of a zone that the registry didn't write.

Names at or above their owners can't be registered.

For a zone on the built-in name server these are the adopted records. For a zone on a primary they are the
foreign records of the last check, and the DNSKEY records at the apex, which show that the zone is signed.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import chain

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
    insert,
    select,
)

from sublet.db import Prepared, Tx
from sublet.dns.names import owner_key
from sublet.dns.types import Record
from sublet.platform_domains.store import platform_domains
from sublet.schema import BIG_ID, OWNER_KEY, STREAMED, at_or_below, key_range, metadata, select_adjacent_keys

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


_OF_ZONE = zone_records.c.platform_domain_id == bindparam("of")
_AT_OWNERS = zone_records.c.owner_key.in_(bindparam("keys", expanding=True))
_RECORDS = Prepared(
    select(zone_records.c.owner, zone_records.c.type, zone_records.c.ttl_seconds, zone_records.c.rdata).where(
        _OF_ZONE & _AT_OWNERS
    )
)


def find_records(tx: Tx, platform_domain_id: int, owners: Collection[str]) -> dict[str, tuple[Record, ...]]:
    """Return the records at these owners, by owner, without owners that have no records."""
    keys = [owner_key(owner) for owner in owners]
    rows = _RECORDS.all(tx, of=platform_domain_id, keys=keys)
    found: dict[str, list[Record]] = defaultdict(list)
    for row in rows:
        found[row[0]].append(Record(*row))
    return {owner: tuple(records) for owner, records in found.items()}


AT_OR_BELOW = select(zone_records.c.id).where(_OF_ZONE & at_or_below(zone_records.c.owner_key))
"""A query of a zone's records at or below the name of a `key_range`, for the stores of other tables."""
_ANY_AT_OR_BELOW = Prepared(AT_OR_BELOW.limit(1))


def has_records_at_or_below(tx: Tx, platform_domain_id: int, name: str) -> bool:
    """True if the zone has a record at this name or below it."""
    found = _ANY_AT_OR_BELOW.one_or_none(tx, of=platform_domain_id, **key_range(owner_key(name)))
    return found is not None


def find_apex_dnskeys(tx: Tx, platform_domain_id: int, zone: str) -> tuple[Record, ...]:
    """Return the DNSKEY records that the last check found at the apex of a zone on a primary."""
    at_apex = find_records(tx, platform_domain_id, [zone]).get(zone, ())
    return tuple(record for record in at_apex if record.type == "DNSKEY")


def replace_apex_dnskeys(tx: Tx, platform_domain_id: int, zone: str, keys: Collection[Record]) -> None:
    """Store the DNSKEY records that a check found at the apex of a zone on a primary."""
    before = find_apex_dnskeys(tx, platform_domain_id, zone)
    delete_these_records(tx, platform_domain_id, set(before) - set(keys))
    insert_records(tx, platform_domain_id, sorted(set(keys) - set(before)))


_NEXT_KEYS = Prepared(select_adjacent_keys(zone_records.c.owner_key, _OF_ZONE))


def next_owner_keys(tx: Tx, platform_domain_id: int, name: str) -> list[str]:
    """Return the stored owner keys directly before and after the key `owner_key(name) + "."`; fewer at an end
    of the zone.

    They show if `name`, or a name above it, has records below it: then one of the two keys starts with the
    key of that name and a dot.
    """
    row = _NEXT_KEYS.one_or_none(tx, of=platform_domain_id, **key_range(owner_key(name)))
    return [key for key in row or () if key is not None]


def stream_zone_records(tx: Tx, platform_domain_id: int) -> Iterator[list[Record]]:
    """Yield all stored records of a zone in small batches.

    The SOA and NS records of the apex are not stored.
    """
    rows = tx.connection.execute(
        select(zone_records.c.owner, zone_records.c.type, zone_records.c.ttl_seconds, zone_records.c.rdata)
        .where(zone_records.c.platform_domain_id == platform_domain_id)
        .order_by(zone_records.c.owner_key, zone_records.c.type, zone_records.c.rdata)
        .execution_options(**STREAMED)
    )
    for batch in rows.partitions():
        yield [Record(*row) for row in batch]


def list_zone_records(tx: Tx, platform_domain_id: int) -> list[Record]:
    """Return all stored records of a zone as a list."""
    return list(chain.from_iterable(stream_zone_records(tx, platform_domain_id)))


def delete_records(tx: Tx, platform_domain_id: int) -> None:
    """Delete all stored records of a zone."""
    tx.connection.execute(delete(zone_records).where(zone_records.c.platform_domain_id == platform_domain_id))


def delete_these_records(tx: Tx, platform_domain_id: int, records: Iterable[Record]) -> None:
    """Delete these stored records of a zone."""
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
    """Store records of a zone."""
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
    """Lock a zone against other publications and edits until the transaction ends.

    Registrations don't wait for this lock.
    """
    _LOCKED.lock(tx, platform_domain_id=platform_domain_id)
