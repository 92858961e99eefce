"""All SQL of the sweep: which names it has to look at, and which would be lost; the clockwork's own row; forecasts."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Integer,
    Table,
    Text,
    bindparam,
    case,
    delete,
    false,
    func,
    insert,
    null,
    select,
    update,
)

from sublet.db import Prepared, Tx
from sublet.platform_domains.store import platform_domains
from sublet.schema import Instant, metadata
from sublet.subdomains import store
from sublet.subdomains.milestone_store import milestones
from sublet.subdomains.store import subdomains

clockwork = Table(
    "clockwork",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("seen_at", Instant),
    Column("stopped_at", Instant),
    Column("stopped_reason", Text),
    Column("stopped_losses", Integer, nullable=False, server_default="0"),
    Column("resumed", Boolean, nullable=False, server_default=false()),
    Column("granted_losses", Integer, nullable=False, server_default="0"),
    Column("granted_at", Instant),
    Column("granted_settled", Boolean, nullable=False, server_default=false()),
    CheckConstraint("id = 1", name="one"),
)

forecasts = Table(
    "forecasts",
    metadata,
    Column("made_at", Instant, primary_key=True),
    Column("losses", Integer, nullable=False),
)


@dataclass(frozen=True, slots=True)
class Clockwork:
    """The state of the sweep: when it last ran, whether it was stopped and why, what the operator then granted.

    `stopped_losses` is how many names it would have lost when it stopped; `resumed` says that the operator gave the
    word, which the next sweep takes: from then on `granted_losses` may be lost beyond the forecast, within a day. When all
    that was due is done the grant is settled: what is left of it counts for nothing.
    """

    seen_at: datetime | None
    stopped_at: datetime | None
    stopped_reason: str | None
    stopped_losses: int
    resumed: bool
    granted_losses: int
    granted_at: datetime | None
    granted_settled: bool


@dataclass(frozen=True, slots=True)
class Due:
    """A name that the sweep has something to do with, its user, since when (`due_at`, or `loss_at`), and whether it is in the trash."""

    id: int
    user_id: int
    since: datetime
    in_trash: bool


# What is asked every second, or of each name that is swept, is built once, as in `store.py`.
_STATE = select(*(clockwork.c[name] for name in Clockwork.__slots__))
_CLOCKWORK = Prepared(_STATE)
_CLOCKWORK_LOCKED = Prepared(_STATE.with_for_update(key_share=True))


def find_clockwork(tx: Tx) -> Clockwork:
    """What is the state of the sweep?"""
    (row,) = _CLOCKWORK.all(tx)
    return Clockwork(*row)


def lock_clockwork(tx: Tx) -> Clockwork:
    """What is the state of the sweep? Locked, so that of several workers one sweeps."""
    (row,) = _CLOCKWORK_LOCKED.all(tx)
    return Clockwork(*row)


def update_clockwork(tx: Tx, **values: object) -> None:
    """Change the state of the sweep."""
    tx.connection.execute(update(clockwork).values(**values))


_NAME = (subdomains.c.id, subdomains.c.user_id)
_IN_TRASH = subdomains.c.trashed_at.is_not(None)
_DUE = Prepared(
    select(*_NAME, subdomains.c.due_at, _IN_TRASH)
    .where(subdomains.c.due_at <= bindparam("now"))
    .order_by(subdomains.c.due_at)
    .limit(bindparam("at_most", type_=Integer))
)


def list_due(tx: Tx, limit: int) -> list[Due]:
    """Which names is the sweep to look at? The longest waiting first."""
    return [Due(*row) for row in _DUE.all(tx, now=tx.now, at_most=limit)]


_LOSSES = Prepared(
    select(*_NAME, subdomains.c.loss_at, _IN_TRASH)
    .where(subdomains.c.loss_at <= bindparam("now"))
    .order_by(subdomains.c.loss_at)
    .limit(bindparam("at_most", type_=Integer))
)


def list_losses(tx: Tx, limit: int) -> list[Due]:
    """Which names do their dates put into the trash, or purge from it, by now? The longest over first."""
    return [Due(*row) for row in _LOSSES.all(tx, now=tx.now, at_most=limit)]


def count_losses(tx: Tx, until: datetime) -> int:
    """How many names do their dates put into the trash, or purge from it, up to an instant, as far as they were looked at?"""
    query = select(func.count()).select_from(subdomains).where(subdomains.c.loss_at <= until)
    return int(tx.connection.execute(query).scalar_one())


def count_due_losses(tx: Tx, trashed_before: datetime) -> tuple[int, int]:
    """How many names are to go to the trash now, and how many, there since before an instant, to be purged?"""
    live = subdomains.c.trashed_at.is_(None)
    query = (
        select(live, func.count())
        .where((subdomains.c.loss_at <= tx.now) & (live | (subdomains.c.trashed_at < trashed_before)))
        .group_by(live)
    )
    found = {bool(row[0]): int(row[1]) for row in tx.connection.execute(query)}
    return found.get(True, 0), found.get(False, 0)


def count_losses_by_rule(tx: Tx, until: datetime, platform_domain_id: int | None = None) -> tuple[int, int]:
    """How many names would go to the trash, and how many be purged, up to an instant, by the days as they are set now?

    `lifecycle.lost_at` in SQL, whether the sweep has looked at the names or not; a test holds the two together. It reads them all.
    """
    days = select(platform_domains.c.id, platform_domains.c.grace_days, platform_domains.c.trash_days)
    if platform_domain_id is not None:
        days = days.where(platform_domains.c.id == platform_domain_id)
    to_trash = to_purge = 0
    for each_id, grace_days, trash_days in tx.connection.execute(days).all():
        held = (subdomains.c.platform_domain_id == each_id) & subdomains.c.suspended_at.is_(None)
        live = subdomains.c.trashed_at.is_(None) & _over(subdomains.c.expires_at, until, grace_days)
        in_trash = subdomains.c.purged_at.is_(None) & _over(subdomains.c.trashed_at, until, trash_days)
        to_trash += _count(tx, held & live)
        to_purge += _count(tx, held & in_trash)
    return to_trash, to_purge


def _over(start: Column[datetime], until: datetime, days: int) -> ColumnElement[bool]:
    bound = until - timedelta(days=days)
    since = subdomains.c.unsuspended_at
    return (start <= bound) & (since.is_(None) | (since <= bound))


def _count(tx: Tx, condition: ColumnElement[bool]) -> int:
    return int(
        tx.connection.execute(select(func.count()).select_from(subdomains).where(condition)).scalar_one()
    )


def count_lost(tx: Tx, since: datetime, *, trashed_before: datetime) -> int:
    """How many names did the sweep put into the trash since an instant, or purge that were there since before another?"""
    counted = (milestones.c.kind == "trashed") | (
        (milestones.c.kind == "purged") & (subdomains.c.trashed_at < trashed_before)
    )
    query = (
        select(func.count(milestones.c.subdomain_id.distinct()))
        .select_from(milestones.join(subdomains))
        .where((milestones.c.created_at > since) & (milestones.c.created_at <= tx.now))
        .where(milestones.c.kind.in_(("trashed", "purged")) & counted)
    )
    return int(tx.connection.execute(query).scalar_one())


def count_names(tx: Tx) -> int:
    """How many names are held, those in the trash included?"""
    query = select(func.count()).select_from(subdomains).where(subdomains.c.purged_at.is_(None))
    return int(tx.connection.execute(query).scalar_one())


_REDATING = (
    select(platform_domains.c.id, platform_domains.c.redate_after_id)
    .where(platform_domains.c.redate_after_id.is_not(None))
    .order_by(platform_domains.c.id)
    .limit(1)
)
_FIND_REDATING = Prepared(_REDATING)
_LOCK_REDATING = Prepared(_REDATING.with_for_update(key_share=True))


def is_redating(tx: Tx) -> bool:
    """Are there names whose dates are to be recomputed?"""
    return _FIND_REDATING.one_or_none(tx) is not None


def lock_redating(tx: Tx) -> tuple[int, int] | None:
    """Of which platform domain are the dates to be recomputed, and up to which id are they? Locks the platform domain."""
    row = _LOCK_REDATING.one_or_none(tx)
    return (row[0], row[1]) if row is not None else None


def set_redate_after(tx: Tx, platform_domain_id: int, after_id: int | None) -> None:
    """Have the dates recomputed of a platform domain's names with larger ids than this; None: of no name."""
    of = platform_domains.c.id == platform_domain_id
    tx.connection.execute(update(platform_domains).where(of).values(redate_after_id=after_id))


def list_redated_up_to(tx: Tx) -> dict[int, int]:
    """Up to which id are the dates recomputed, by platform domain? Those at rest are left out."""
    query = select(platform_domains.c.id, platform_domains.c.redate_after_id)
    rows = tx.connection.execute(query.where(platform_domains.c.redate_after_id.is_not(None)))
    return {row[0]: row[1] for row in rows}


_IDS_AFTER = Prepared(
    select(subdomains.c.id, subdomains.c.platform_domain_id, subdomains.c.released_at.is_(None))
    .where(subdomains.c.id > bindparam("after"))
    .order_by(subdomains.c.id)
    .limit(bindparam("at_most", type_=Integer))
)


def list_ids_after(
    tx: Tx, platform_domain_id: int, after_id: int, limit: int
) -> tuple[list[int], int | None]:
    """Which of the next rows after this id are names of a platform domain that aren't released, and which row is the last?

    `limit` counts rows of all platform domains, so that a step never reads more. The last is None if these are all.
    """
    rows = _IDS_AFTER.all(tx, after=after_id, at_most=limit)
    ids = [row[0] for row in rows if row[1] == platform_domain_id and row[2]]
    return ids, rows[-1][0] if len(rows) == limit else None


def mark_due(tx: Tx, subdomain_ids: list[int]) -> None:
    """Have the sweep look at these names."""
    tx.connection.execute(update(subdomains).where(subdomains.c.id.in_(subdomain_ids)).values(due_at=tx.now))


def put_off(tx: Tx, subdomain_id: int, until: datetime) -> None:
    """Leave a name alone until an instant: what is due of it can't be done."""
    store.set_dates(tx, subdomain_id, due_at=until, loss_at=None)


def look_at_the_future(tx: Tx) -> None:
    """Have the sweep look at every name that was changed while the clock was ahead of now, and let it be renewed by itself."""
    tried_at = subdomains.c.auto_renew_tried_at
    tx.connection.execute(
        update(subdomains)
        .where((subdomains.c.updated_at > tx.now) & subdomains.c.released_at.is_(None))
        .values(due_at=tx.now, auto_renew_tried_at=case((tried_at <= tx.now, tried_at), else_=null()))
    )


def find_late(tx: Tx, limit: timedelta) -> tuple[int, int] | None:
    """How many names should the sweep have looked at for longer than this, and which is the first?"""
    long_ago = tx.now - limit
    query = select(func.count(), func.min(subdomains.c.id)).where(
        (subdomains.c.due_at < long_ago) | (subdomains.c.loss_at < long_ago)
    )
    count, first = tx.connection.execute(query).one()
    return (int(count), int(first)) if count else None


def list_dates(tx: Tx) -> Iterator[tuple[int, datetime | None, datetime | None]]:
    """Which dates are stored of the names that are not free again? Their ids, `due_at`, `loss_at`, by id."""
    columns = (subdomains.c.id, subdomains.c.due_at, subdomains.c.loss_at)
    query = select(*columns).where(subdomains.c.released_at.is_(None)).order_by(subdomains.c.id)
    for row in tx.connection.execute(query.execution_options(yield_per=1000)):
        yield row[0], row[1], row[2]


def insert_forecast(tx: Tx, losses: int) -> None:
    """Add a forecast made now."""
    tx.connection.execute(insert(forecasts).values(made_at=tx.now, losses=losses))


def find_forecast(tx: Tx, until: datetime) -> int | None:
    """How many losses did the newest forecast tell that was made up to an instant?"""
    query = select(forecasts.c.losses).where(forecasts.c.made_at <= until)
    return tx.connection.execute(query.order_by(forecasts.c.made_at.desc()).limit(1)).scalar_one_or_none()


def find_oldest_forecast(tx: Tx) -> int | None:
    """How many losses did the oldest forecast tell?"""
    query = select(forecasts.c.losses).order_by(forecasts.c.made_at).limit(1)
    return tx.connection.execute(query).scalar_one_or_none()


def find_newest_forecast_at(tx: Tx) -> datetime | None:
    """When was the newest forecast made?"""
    return tx.connection.execute(select(func.max(forecasts.c.made_at))).scalar_one_or_none()


def delete_forecasts(tx: Tx, *, before: datetime, since: datetime) -> None:
    """Forget the forecasts made before an instant, or since another."""
    tx.connection.execute(
        delete(forecasts).where((forecasts.c.made_at < before) | (forecasts.c.made_at >= since))
    )
