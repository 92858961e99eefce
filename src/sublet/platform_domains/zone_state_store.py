"""All SQL of what is known of zones on primary servers: the fence, updates that may be under way, problems, the last check."""

from dataclasses import dataclass
from datetime import datetime, timedelta

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
from sublet.platform_domains.store import platform_domains
from sublet.platform_domains.zone_store import lock_zone
from sublet.schema import BIG_ID, Instant, metadata

STALE_AFTER = timedelta(days=7)
"""For how long an update whose outcome is unknown is remembered: none waits longer in the queue of a server that hangs.

They are few: a server that hangs takes no more connections soon, and what could not be sent is forgotten at once.
"""

REST_MAX = timedelta(minutes=1)
"""No back-off is longer: a next attempt that is further away was set by a clock that was wrong and has been put right since."""

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
"""Updates that may be applied or not, by the fence that they set; `owners` are those that they put to use first."""

Owners = tuple[tuple[int, str], ...]
"""Owner names, each with the id of the subdomain that it belongs to."""


@dataclass(frozen=True, slots=True)
class ZoneState:
    """What is known of a zone on a primary.

    `fence` is what stands at its fence by our last knowledge; None: nothing of ours. `rebuilt_at` is set while the zone is known
    to be another than we left it, until a whole check. `problem` is one of `primaries.primary.CAUSES` since `problem_at`, after so many
    `attempts`. `checked_serial` and the counts are those of the last whole check (None: there is to be another at the same serial).
    `repair_stopped_at` is set while the repair waits for the operator's word. `seen_at` is when the zone was last asked for its serial,
    to some minutes; `watch_problem` (of `primaries.primary.CAUSES`, or `check`) is why it can't be asked, or transferred, now.
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


# What is asked of every batch, or several times a second, is built once: building a statement takes longer than running it.
_STATE = select(*(zone_states.c[name] for name in ZoneState.__slots__))
_STATE_OF = Prepared(_STATE.where(zone_states.c.platform_domain_id == bindparam("of")))


def find_zone_state(tx: Tx, platform_domain_id: int) -> ZoneState:
    """What is known of this zone?"""
    row = _STATE_OF.one_or_none(tx, of=platform_domain_id)
    return ZoneState(platform_domain_id) if row is None else ZoneState(*row)


def update_zone_state(tx: Tx, platform_domain_id: int, **values: object) -> None:
    """Store what became known of a zone; its row is made when there is first something to store.

    That is done with the zone locked: two may have something to store first.
    """
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


def forget_zone_state(tx: Tx, platform_domain_id: int) -> None:
    """Forget what is known of a zone: it is on another server from now on."""
    for table in (zone_updates, zone_states):
        tx.connection.execute(delete(table).where(table.c.platform_domain_id == platform_domain_id))


def list_zone_states(tx: Tx) -> dict[int, ZoneState]:
    """What is known of all zones on primaries, by platform domain?"""
    return {row[0]: ZoneState(*row) for row in tx.connection.execute(_STATE)}


RESTING = select(zone_states.c.platform_domain_id).where(
    (zone_states.c.next_attempt_at > bindparam("now"))
    & (zone_states.c.next_attempt_at <= bindparam("now_and_longest"))
)
"""Which zones had a problem, and are not to be tried again yet; for the stores above. `now_and_longest` is `REST_MAX` later than `now`."""


def try_zone_now(tx: Tx, platform_domain_id: int) -> None:
    """Have a zone with a problem tried again at once."""
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
_ADDED = Prepared(insert(zone_updates))


def insert_zone_update(tx: Tx, platform_domain_id: int, fence: str, owners: Owners) -> None:
    """Write ahead that an update that sets this fence may be sent; those of long ago are forgotten."""
    _STALE.run(tx, of=platform_domain_id, long_ago=tx.now - STALE_AFTER)
    _ADDED.run(
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
    """Which owners were put to use by the update of this zone that sets this fence? None: no such update is known."""
    row = _OWNERS.one_or_none(tx, of=platform_domain_id, set_to=fence)
    return None if row is None else tuple((int(each[0]), str(each[1])) for each in row[0])


def list_possible_fences(tx: Tx, platform_domain_id: int) -> frozenset[str | None]:
    """Which values may stand at the fence of this zone by our own hand? What is known, and what updates under way set."""
    rows = tx.connection.execute(
        select(zone_updates.c.fence).where(zone_updates.c.platform_domain_id == platform_domain_id)
    )
    return frozenset({find_zone_state(tx, platform_domain_id).fence, *(row[0] for row in rows)})


def delete_zone_update(tx: Tx, fence: str) -> None:
    """Forget the update that sets this fence: nothing of it was sent."""
    tx.connection.execute(delete(zone_updates).where(zone_updates.c.fence == fence))


_OF_ZONE = Prepared(delete(zone_updates).where(zone_updates.c.platform_domain_id == bindparam("of")))


def delete_zone_updates(tx: Tx, platform_domain_id: int) -> None:
    """Forget the updates of this zone: one of them was applied, or the zone is another, so none can be any more."""
    _OF_ZONE.run(tx, of=platform_domain_id)


def list_zones_on_primaries(tx: Tx) -> list[tuple[int, str, str]]:
    """Which platform domains have a primary of the settings? Id, domain and the primary's name."""
    rows = tx.connection.execute(
        select(platform_domains.c.id, platform_domains.c.domain, platform_domains.c.primary)
        .where(platform_domains.c.primary != "")
        .order_by(platform_domains.c.id)
    )
    return [(row[0], row[1], row[2]) for row in rows]
