"""All SQL of zones: the records that the registry didn't write (`zone_records`), and the state of zones on
primaries (the fence, updates with unknown outcome, problems, the last check).

Names at or above the owners of `zone_records` can't be registered. For a zone on the built-in name server
these are the adopted records. For a zone on a primary they are the foreign records of the last check, and the
DNSKEY records at the apex, which show that the zone is signed.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import chain

from msgspec import Struct
from sqlalchemy import (
    JSON,
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
    update,
)

from sublet.db import Prepared, Tx
from sublet.dns.names import owner_key
from sublet.dns.types import Record
from sublet.platform_domains.store import platform_domains
from sublet.schema import (
    BIG_ID,
    OWNER_KEY,
    STREAMED,
    Instant,
    at_or_below,
    key_range,
    metadata,
    select_adjacent_keys,
)

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


STALE_AFTER = timedelta(days=7)
"""How long an update with an unknown outcome is kept. A server that hangs may apply the update later.

There are few such updates: a server that hangs soon accepts no connections, and unsent updates are deleted at
once.
"""

BACK_OFF_MAX = timedelta(minutes=1)
"""The maximum back-off of a zone or name. An attempt that is scheduled later was scheduled while the clock
was wrong, so it is due now.
"""

zone_states = Table(
    "zone_states",
    metadata,
    Column("platform_domain_id", ForeignKey("platform_domains.id"), primary_key=True, autoincrement=False),
    Column("fence", String(64)),
    Column("rebuilt_at", Instant),
    Column("problem", String(32)),
    Column("problem_detail", Text),
    Column("problem_at", Instant),
    Column("attempts", Integer, nullable=False),
    Column("next_attempt_at", Instant),
    Column("checked_at", Instant),
    Column("checked_serial", BIG_ID),
    Column("missing", Integer, nullable=False),
    Column("different", Integer, nullable=False),
    Column("orphaned", Integer, nullable=False),
    Column("foreign_records", Integer, nullable=False),
    Column("repair_stopped_at", Instant),
    Column("repair_stopped_reason", Text),
    Column("seen_at", Instant),
    Column("watch_problem", String(32)),
    Column("watch_problem_detail", Text),
)

zone_updates = Table(
    "zone_updates",
    metadata,
    Column("fence", String(64), primary_key=True),
    Column("platform_domain_id", ForeignKey("platform_domains.id"), nullable=False),
    Column("owners", JSON, nullable=False),
    Column("sent_at", Instant, nullable=False),
    Index("ix_zone_updates_platform_domain_id", "platform_domain_id"),
)
"""Updates that a server may have applied or may still apply, by the fence that an update sets. The `owners`
are new in the zone.
"""

Owners = tuple[tuple[int, str], ...]
"""Pairs of a subdomain's id and an owner name."""


class ZoneState(Struct, frozen=True):
    """The state of a zone on a primary.

    - `fence` is the last known fence of the zone; None if the zone has no fence of ours.
    - `rebuilt_at` is set from a rebuild by another program until the next complete check.
    - `problem` (one of `primaries.primary.CAUSES`) is why the zone can't be changed since `problem_at`, after
      `attempts` failed attempts.
    - `missing`, `different`, `orphaned` and `foreign_records` are the counts of the last check. If
      `checked_serial` is None, the zone is checked again even at the same serial.
    - `repair_stopped_at` is set while the repair waits for the operator.
    - `seen_at` is when the server last answered with the zone's serial, to about a minute.
    - `watch_problem` (one of `CAUSES`, or `check`) is why the zone can't be queried or checked.
    """

    platform_domain_id: int
    fence: str | None = None
    rebuilt_at: datetime | None = None
    problem: str | None = None
    problem_detail: str | None = None
    problem_at: datetime | None = None
    attempts: int = 0
    next_attempt_at: datetime | None = None
    checked_at: datetime | None = None
    checked_serial: int | None = None
    missing: int = 0
    different: int = 0
    orphaned: int = 0
    foreign_records: int = 0
    repair_stopped_at: datetime | None = None
    repair_stopped_reason: str | None = None
    seen_at: datetime | None = None
    watch_problem: str | None = None
    watch_problem_detail: str | None = None


# Statements that run often are built once, because building a statement takes longer than running it.
_STATE = select(*(zone_states.c[name] for name in ZoneState.__struct_fields__))
_STATE_OF = Prepared(_STATE.where(zone_states.c.platform_domain_id == bindparam("of")))


def find_zone_state(tx: Tx, platform_domain_id: int) -> ZoneState:
    """Return the state of a zone. Without a stored state, return the state of a new zone."""
    row = _STATE_OF.one_or_none(tx, of=platform_domain_id)
    return ZoneState(platform_domain_id) if row is None else ZoneState(*row)


def update_zone_state(tx: Tx, platform_domain_id: int, **values: object) -> None:
    """Update columns of a zone's state. If its row is missing, lock the zone and insert the row first."""
    change = (
        update(zone_states).where(zone_states.c.platform_domain_id == platform_domain_id).values(**values)
    )
    if tx.connection.execute(change).rowcount > 0:
        return
    lock_zone(tx, platform_domain_id)
    if tx.connection.execute(change).rowcount == 0:
        first = {"attempts": 0, "missing": 0, "different": 0, "orphaned": 0, "foreign_records": 0}
        tx.connection.execute(
            insert(zone_states).values(platform_domain_id=platform_domain_id, **{**first, **values})
        )


def delete_zone_state(tx: Tx, platform_domain_id: int) -> None:
    """Delete the state and the updates of a zone that moves to another server."""
    for table in (zone_updates, zone_states):
        tx.connection.execute(delete(table).where(table.c.platform_domain_id == platform_domain_id))


_AT_APEX = (zone_records.c.platform_domain_id == platform_domains.c.id) & (
    zone_records.c.owner_key == platform_domains.c.owner_key
)
_SIGNATURE = Prepared(
    select(
        platform_domains.c.primary,
        platform_domains.c.dnssec_signed,
        zone_states.c.checked_at,
        select(zone_records.c.id).where(_AT_APEX & (zone_records.c.type == "DNSKEY")).exists(),
    )
    .select_from(
        platform_domains.outerjoin(zone_states, zone_states.c.platform_domain_id == platform_domains.c.id)
    )
    .where((platform_domains.c.id == bindparam("of")) & platform_domains.c.removed_at.is_(None))
)


def is_zone_signed(tx: Tx, platform_domain_id: int) -> bool | None:
    """True if a zone is signed, False if it isn't, None before the first check of a zone on a primary.

    No server is queried.

    The built-in name server never signs. A zone on a primary is signed if the operator set `--dnssec-signed`
    (another server may sign behind the primary), or if the last check found a DNSKEY at the apex.
    """
    row = _SIGNATURE.one_or_none(tx, of=platform_domain_id)
    if row is None:
        return False
    primary, is_set_as_signed, checked_at, has_dnskey = row
    if not primary:
        return False
    if is_set_as_signed:
        return True
    return None if checked_at is None else bool(has_dnskey)


def list_zone_states(tx: Tx) -> dict[int, ZoneState]:
    """Return the stored states of zones on primaries, by platform domain."""
    return {row[0]: ZoneState(*row) for row in tx.connection.execute(_STATE)}


IN_BACK_OFF = select(zone_states.c.platform_domain_id).where(
    (zone_states.c.next_attempt_at > bindparam("now"))
    & (zone_states.c.next_attempt_at <= bindparam("now_and_longest"))
)
"""A query of the zones in back-off after a problem, for the stores of other tables. `now_and_longest` is
`now` + `BACK_OFF_MAX`.
"""


def end_zone_back_off(tx: Tx, platform_domain_id: int) -> None:
    """End the back-off of a zone, so that the publisher tries it at once."""
    tx.connection.execute(
        update(zone_states)
        .where(
            (zone_states.c.platform_domain_id == platform_domain_id)
            & zone_states.c.next_attempt_at.is_not(None)
        )
        .values(next_attempt_at=None)
    )


_STALE = Prepared(
    delete(zone_updates).where(
        (zone_updates.c.platform_domain_id == bindparam("of"))
        & (zone_updates.c.sent_at < bindparam("long_ago"))
    )
)
_ADDED_STATE = Prepared(insert(zone_updates))


def insert_zone_update(tx: Tx, platform_domain_id: int, fence: str, owners: Owners) -> None:
    """Write ahead an update that sets this fence, and delete updates that are older than `STALE_AFTER`."""
    _STALE.run(tx, of=platform_domain_id, long_ago=tx.now - STALE_AFTER)
    _ADDED_STATE.run(
        tx,
        fence=fence,
        platform_domain_id=platform_domain_id,
        owners=[list(each) for each in owners],
        sent_at=tx.now,
    )


_OWNERS = Prepared(
    select(zone_updates.c.owners).where(
        (zone_updates.c.platform_domain_id == bindparam("of")) & (zone_updates.c.fence == bindparam("set_to"))
    )
)


def find_zone_update(tx: Tx, platform_domain_id: int, fence: str) -> Owners | None:
    """Return the new owners of the update that sets this fence; None if there is no such update."""
    row = _OWNERS.one_or_none(tx, of=platform_domain_id, set_to=fence)
    return None if row is None else tuple((int(each[0]), str(each[1])) for each in row[0])


def list_possible_fences(tx: Tx, platform_domain_id: int) -> frozenset[str | None]:
    """Return the values that the fence of a zone may have from our updates: the last known value, and the
    values of updates in progress.
    """
    rows = tx.connection.execute(
        select(zone_updates.c.fence).where(zone_updates.c.platform_domain_id == platform_domain_id)
    )
    return frozenset({find_zone_state(tx, platform_domain_id).fence, *(row[0] for row in rows)})


def delete_zone_update(tx: Tx, fence: str) -> None:
    """Delete the update that sets this fence, because it was not sent."""
    tx.connection.execute(delete(zone_updates).where(zone_updates.c.fence == fence))


_STATE_OF_ZONE = Prepared(delete(zone_updates).where(zone_updates.c.platform_domain_id == bindparam("of")))


def delete_zone_updates(tx: Tx, platform_domain_id: int) -> None:
    """Delete the updates of a zone after its fence has changed, because the server
    can't apply them any more.
    """
    _STATE_OF_ZONE.run(tx, of=platform_domain_id)


def list_zones_on_primaries(tx: Tx) -> list[tuple[int, str, str]]:
    """Return the id, domain and primary's name of each platform domain on a primary."""
    rows = tx.connection.execute(
        select(platform_domains.c.id, platform_domains.c.domain, platform_domains.c.primary)
        .where((platform_domains.c.primary != "") & platform_domains.c.removed_at.is_(None))
        .order_by(platform_domains.c.id)
    )
    return [(row[0], row[1], row[2]) for row in rows]
