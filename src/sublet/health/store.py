"""The SQL of delegation health: the health of names, their history, the claims of nameservers' addresses, and
the brake.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, fields
from sqlalchemy import (
    JSON,
    CheckConstraint,
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    and_,
    bindparam,
    cast,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from sublet.db import Prepared, Tx, insert_into
from sublet.health.model import BROKEN, Finding, Health, HealthChange, Level
from sublet.platform_domains.store import platform_domains
from sublet.schema import BIG_ID, Instant, metadata
from sublet.subdomains.child_state_store import CHILD_STATES, ChildStates, read_child_states
from sublet.subdomains.store import subdomains

CLOCKS_APART = timedelta(minutes=5)
"""More than the difference between the clocks of two hosts of a registry."""
CHANGES_MAX = 50
"""The maximum number of stored changes of a name's state."""

delegation_health = Table(
    "delegation_health",
    metadata,
    Column("subdomain_id", ForeignKey("subdomains.id"), primary_key=True, autoincrement=False),
    Column("generation", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("since", Instant, nullable=False),
    Column("findings", JSON, nullable=False),
    Column("checked_at", Instant),
    Column("next_state", String(16)),
    Column("next_since", Instant),
    Column("failures", Integer, nullable=False),
    Column("mailed_at", Instant),
    Column("due_at", Instant, nullable=False),
    Column("warned_at", Instant),
    Index("ix_delegation_health_due_at", "due_at"),
    Index("ix_delegation_health_state", "state", "subdomain_id"),
)
"""The names that are checked. A row is deleted when its name leaves the DNS."""

health_changes = Table(
    "health_changes",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("subdomain_id", ForeignKey("subdomains.id"), nullable=False),
    Column("at", Instant, nullable=False),
    Column("state", String(16), nullable=False),
    Column("codes", JSON, nullable=False),
    Index("ix_health_changes_subdomain_id_id", "subdomain_id", "id"),
    sqlite_autoincrement=True,
)

health_targets = Table(
    "health_targets",
    metadata,
    Column("address", String(45), primary_key=True),
    Column("held_until", Instant, nullable=False),
    Column("booked_until", Instant, nullable=False),
)
"""The addresses of nameservers. A check has claimed them until `held_until`, and later checks have booked
them until `booked_until` (`query_limits.py`).
"""

_HEALTH = delegation_health.c
_COLUMNS = tuple(_HEALTH[each.name] for each in fields(Health))


def _health(row: Sequence[Any]) -> Health:
    values = dict(zip((each.name for each in fields(Health)), row, strict=True))
    values["findings"] = tuple(
        Finding(**{**each, "level": Level(each["level"])}) for each in values["findings"]
    )
    return Health(**values)


def _row(health: Health) -> dict[str, Any]:
    return {**asdict(health), "findings": [asdict(each) for each in health.findings]}


def insert_health(tx: Tx, health: Sequence[Health]) -> None:
    """Add names to check. Existing rows stay unchanged."""
    if health:
        tx.connection.execute(
            insert_into(tx, delegation_health).on_conflict_do_nothing(), [_row(each) for each in health]
        )


_FIND = Prepared(select(*_COLUMNS).where(_HEALTH.subdomain_id == bindparam("of")))
_LOCK = Prepared(select(*_COLUMNS).where(_HEALTH.subdomain_id == bindparam("of")).with_for_update())


def find_health(tx: Tx, subdomain_id: int) -> Health | None:
    """Return the health of a name, or None if the name isn't checked."""
    row = _FIND.one_or_none(tx, of=subdomain_id)
    return None if row is None else _health(row)


_FIND_WITH_STATES = Prepared(
    CHILD_STATES.outerjoin(delegation_health, _HEALTH.subdomain_id == subdomains.c.id).add_columns(*_COLUMNS)
)


def find_health_with_states(tx: Tx, subdomain_id: int) -> tuple[Health | None, ChildStates]:
    """Return the health of a name, or None if the name isn't checked, and its `find_child_states`."""
    row = _FIND_WITH_STATES.one_or_none(tx, of=subdomain_id)
    assert row is not None  # noqa: S101 - rows of names are never deleted
    of_states, of_health = row[: -len(_COLUMNS)], row[-len(_COLUMNS) :]
    health = None if of_health[0] is None else _health(of_health)
    return health, read_child_states(subdomain_id, of_states)


def lock_health(tx: Tx, subdomain_id: int) -> Health | None:
    """Return the health of a name, or None, and lock it."""
    row = _LOCK.one_or_none(tx, of=subdomain_id)
    return None if row is None else _health(row)


_UPDATE = Prepared(update(delegation_health).where(_HEALTH.subdomain_id == bindparam("of")))


def update_health(tx: Tx, health: Health) -> None:
    """Store a changed health. The caller has locked its row."""
    values = _row(health)
    _UPDATE.run(tx, of=values.pop("subdomain_id"), **values)


def delete_health(tx: Tx, subdomain_ids: Sequence[int]) -> None:
    """Stop checking these names. Their history stays."""
    tx.connection.execute(delete(delegation_health).where(_HEALTH.subdomain_id.in_(subdomain_ids)))


_DUE = Prepared(
    select(_HEALTH.subdomain_id)
    .where(_HEALTH.due_at <= bindparam("now", type_=Instant))
    .order_by(_HEALTH.due_at)
    .limit(bindparam("at_most", type_=Integer))
    .with_for_update(skip_locked=True)
)
_RESCHEDULE = Prepared(
    update(delegation_health)
    .where(_HEALTH.subdomain_id.in_(bindparam("ids", expanding=True)))
    .values(due_at=bindparam("until", type_=Instant))
)


def lock_due(tx: Tx, limit: int) -> list[int]:
    """Lock and return the names whose check is due, the longest overdue first.

    Skip names that another worker has locked.
    """
    return [row[0] for row in _DUE.all(tx, now=tx.now, at_most=limit)]


_IS_DUE = Prepared(
    select(_HEALTH.subdomain_id).where(_HEALTH.due_at <= bindparam("now", type_=Instant)).limit(1)
)


def is_due(tx: Tx) -> bool:
    """True if a check is due."""
    return bool(_IS_DUE.all(tx, now=tx.now))


def reschedule(tx: Tx, subdomain_ids: Sequence[int], until: datetime) -> None:
    """Set the time of the next check of these names."""
    if subdomain_ids:
        _RESCHEDULE.run(tx, ids=list(subdomain_ids), until=until)


_IS_FOLLOWED = (
    (subdomains.c.nameserver_count > 0)
    & subdomains.c.trashed_at.is_(None)
    & ((platform_domains.c.automatic_ds != "off") | platform_domains.c.csync)
)
_FOLLOWED = Prepared(
    select(subdomains.c.id, _HEALTH.checked_at, _HEALTH.due_at)
    .select_from(
        subdomains.join(platform_domains).outerjoin(
            delegation_health, _HEALTH.subdomain_id == subdomains.c.id
        )
    )
    .where((subdomains.c.fqdn == bindparam("name")) & _IS_FOLLOWED)
)
_FOLLOWED_OF = Prepared(
    select(subdomains.c.fqdn, platform_domains.c.domain)
    .select_from(subdomains.join(platform_domains))
    .where(subdomains.c.fqdn.in_(bindparam("names", expanding=True)) & _IS_FOLLOWED)
)


def find_followed(tx: Tx, fqdn: str) -> tuple[int, datetime | None, datetime | None] | None:
    """Return a name's id, the time of its last check and of its next check.

    The times are None before the first check.

    Return None if the name isn't in the DNS, or its platform domain follows neither CDS nor CSYNC records.
    """
    row = _FOLLOWED.one_or_none(tx, name=fqdn)
    return None if row is None else (row[0], row[1], row[2])


def list_followed(tx: Tx, fqdns: Collection[str]) -> dict[str, str]:
    """Return the platform domain of each of these names that `find_followed` finds, by name."""
    return {row[0]: row[1] for row in _FOLLOWED_OF.all(tx, names=list(fqdns))}


# The text of a value has its quotation marks escaped, so only a type matches.
_HAS_ALIAS = (subdomains.c.record_count > 0) & cast(subdomains.c.records, String).contains('"CNAME"')
_CHECKED = and_(or_(subdomains.c.nameserver_count > 0, _HAS_ALIAS), subdomains.c.trashed_at.is_(None))
_JOINED = subdomains.outerjoin(delegation_health, _HEALTH.subdomain_id == subdomains.c.id)


def list_checked(tx: Tx, after_id: int, limit: int) -> list[tuple[int, bool]]:
    """Return the ids of the next names that may be in the DNS, each with True if the name has health."""
    query = (
        select(subdomains.c.id, _HEALTH.subdomain_id.is_not(None))
        .select_from(_JOINED)
        .where(_CHECKED & (subdomains.c.id > after_id))
        .order_by(subdomains.c.id)
        .limit(limit)
    )
    return [(row[0], bool(row[1])) for row in tx.connection.execute(query)]


def list_changed(tx: Tx, platform_domain_ids: Sequence[int], since: datetime, soon: datetime) -> list[int]:
    """Return the names whose delegation or records changed since an instant, was not checked after that, and
    has no check due before `soon`.
    """
    query = (
        select(subdomains.c.id)
        .select_from(_JOINED)
        .where(
            subdomains.c.platform_domain_id.in_(platform_domain_ids)
            & (subdomains.c.generation_at >= since)
            & _CHECKED
            & or_(
                _HEALTH.subdomain_id.is_(None),
                and_(
                    _HEALTH.generation != subdomains.c.generation,
                    _HEALTH.due_at > soon,
                ),
            )
        )
    )
    return [row[0] for row in tx.connection.execute(query)]


def count_states(tx: Tx) -> dict[str, int]:
    """Return the number of names by state."""
    query = select(_HEALTH.state, func.count()).group_by(_HEALTH.state)
    return {row[0]: row[1] for row in tx.connection.execute(query)}


def count_broken_since(tx: Tx, since: datetime) -> int:
    """Return the number of broken names that became broken since an instant."""
    return _count(tx, (_HEALTH.state == BROKEN) & (_HEALTH.since >= since))


def count_checked_since(tx: Tx, since: datetime) -> int:
    """Return the number of names that were checked since an instant. Reads all rows."""
    return _count(tx, _HEALTH.checked_at >= since)


def count_mailed_since(tx: Tx, since: datetime) -> int:
    """Return the number of broken names whose users got a mail about the breakage since an instant."""
    return _count(tx, (_HEALTH.state == BROKEN) & or_(_HEALTH.mailed_at >= since, _HEALTH.warned_at >= since))


def _count(tx: Tx, condition: ColumnElement[bool]) -> int:
    query = select(func.count()).select_from(delegation_health).where(condition)
    return int(tx.connection.execute(query).scalar_one())


def reset_future_checks(tx: Tx) -> None:
    """Make the names due whose last check is in the future, because the clock was ahead."""
    ahead = _HEALTH.checked_at > tx.now + CLOCKS_APART
    in_future = update(delegation_health).where(ahead & (_HEALTH.since > tx.now))
    tx.connection.execute(in_future.values(since=tx.now))
    tx.connection.execute(update(delegation_health).where(ahead).values(due_at=tx.now, checked_at=tx.now))


def find_oldest_due(tx: Tx) -> datetime | None:
    """Return the earliest time of a next check, or None."""
    oldest: datetime | None = tx.connection.execute(select(func.min(_HEALTH.due_at))).scalar_one()
    return oldest


def list_health(tx: Tx, state: str | None, limit: int, domain_id: int | None) -> list[tuple[str, Health]]:
    """Return names with their health, the longest in their state first.

    `domain_id` is the id of a platform domain; None: of all.
    """
    query = select(subdomains.c.fqdn, *_COLUMNS).select_from(delegation_health.join(subdomains))
    if state is not None:
        query = query.where(_HEALTH.state == state)
    if domain_id is not None:
        query = query.where(subdomains.c.platform_domain_id == domain_id)
    query = query.order_by(_HEALTH.since, _HEALTH.subdomain_id).limit(limit)
    return [(row[0], _health(row[1:])) for row in tx.connection.execute(query)]


def insert_change(tx: Tx, subdomain_id: int, state: str, codes: Sequence[str]) -> None:
    """Add a change of state to the history of a name, and delete the oldest changes beyond `CHANGES_MAX`."""
    values = {"subdomain_id": subdomain_id, "at": tx.now, "state": state, "codes": list(codes)}
    tx.connection.execute(insert(health_changes).values(**values))
    kept = (
        select(health_changes.c.id)
        .where(health_changes.c.subdomain_id == subdomain_id)
        .order_by(health_changes.c.id.desc())
        .offset(CHANGES_MAX)
        .limit(1)
        .scalar_subquery()
    )
    old = (health_changes.c.subdomain_id == subdomain_id) & (health_changes.c.id <= kept)
    tx.connection.execute(delete(health_changes).where(old))


def list_changes(tx: Tx, subdomain_id: int) -> list[HealthChange]:
    """Return the changes of a name's state, the newest first."""
    query = (
        select(health_changes.c.at, health_changes.c.state, health_changes.c.codes)
        .where(health_changes.c.subdomain_id == subdomain_id)
        .order_by(health_changes.c.id.desc())
    )
    return [HealthChange(at, state, tuple(codes)) for at, state, codes in tx.connection.execute(query)]


def lock_addresses(tx: Tx, addresses: Sequence[str]) -> dict[str, tuple[datetime, datetime]]:
    """Return `held_until` and `booked_until` of these addresses, and lock them, sorted
    to prevent deadlocks.
    """
    rows = [{"address": each, "held_until": tx.now, "booked_until": tx.now} for each in sorted(addresses)]
    tx.connection.execute(insert_into(tx, health_targets).on_conflict_do_nothing(), rows)
    query = (
        select(health_targets)
        .where(health_targets.c.address.in_(addresses))
        .order_by(health_targets.c.address)
        .with_for_update()
    )
    return {row[0]: (row[1], row[2]) for row in tx.connection.execute(query)}


def update_addresses(
    tx: Tx,
    addresses: Sequence[str],
    *,
    held_until: datetime | None = None,
    booked_until: datetime | None = None,
) -> None:
    """Store `held_until` or `booked_until` of these addresses."""
    values = {"held_until": held_until, "booked_until": booked_until}
    given = {name: value for name, value in values.items() if value is not None}
    tx.connection.execute(
        update(health_targets).where(health_targets.c.address.in_(addresses)).values(**given)
    )


def delete_idle_addresses(tx: Tx, before: datetime, limit: int) -> None:
    """Delete addresses whose claims and bookings ended before an instant."""
    idle = (
        select(health_targets.c.address)
        .where((health_targets.c.held_until < before) & (health_targets.c.booked_until < before))
        .limit(limit)
    )
    tx.connection.execute(delete(health_targets).where(health_targets.c.address.in_(idle)))


health_brake = Table(
    "health_brake",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("stopped_at", Instant),
    Column("stopped_reason", Text),
    Column("resumed_at", Instant),
    Column("impaired_since", Instant),
    Column("impaired_reason", Text),
    CheckConstraint("id = 1", name="one"),
)


class Brake(Struct, frozen=True):
    """The state of the brake: when and why it stopped the consequences of health checks, and when the
    operator resumed them.

    `impaired_since` and `impaired_reason` say since when and why a worker can't check delegations.
    """

    stopped_at: datetime | None
    stopped_reason: str | None
    resumed_at: datetime | None
    impaired_since: datetime | None
    impaired_reason: str | None


_BRAKE = select(*(health_brake.c[name] for name in Brake.__struct_fields__))
_FIND_BRAKE = Prepared(_BRAKE)
_LOCK_BRAKE = Prepared(_BRAKE.with_for_update())


def find_brake(tx: Tx) -> Brake:
    """Return the state of the brake."""
    (row,) = _FIND_BRAKE.all(tx)
    return Brake(*row)


def lock_brake(tx: Tx) -> Brake:
    """Lock and return the state of the brake."""
    (row,) = _LOCK_BRAKE.all(tx)
    return Brake(*row)


def update_brake(tx: Tx, **values: object) -> None:
    """Change the state of the brake. The caller has locked it."""
    tx.connection.execute(update(health_brake).values(**values))
