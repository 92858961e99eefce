"""All SQL of the sweep: due names and losses, the recomputing of dates, the clockwork's row, forecasts and milestones."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    case,
    delete,
    false,
    func,
    insert,
    null,
    select,
    true,
    update,
)

from sublet.db import Prepared, Tx
from sublet.mail.store import mails
from sublet.platform_domains.store import platform_domains
from sublet.schema import BIG_ID, Instant, metadata
from sublet.subdomains.store import set_dates, subdomains

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


milestones = Table(
    "milestones",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("subdomain_id", ForeignKey("subdomains.id"), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("about", Instant, nullable=False),
    Column("detail", Text),
    Column("mail_id", ForeignKey(mails.c.id), unique=True),
    Column("created_at", Instant, nullable=False),
    UniqueConstraint("subdomain_id", "kind", "about"),
    sqlite_autoincrement=True,
)
_LOST = milestones.c.kind.in_(("trashed", "purged"))
Index("ix_milestones_lost", milestones.c.created_at, sqlite_where=_LOST, postgresql_where=_LOST)


@dataclass(frozen=True, slots=True)
class SweepState:
    """The state of the sweep: when it last ran, whether and why it is stopped, and what the operator granted.

    `stopped_losses` is how many names it was about to take when it stopped. `resumed` is True from the operator's command until
    the next sweep. From then on `granted_losses` may be lost beyond the forecast, within a day. The grant is settled once all
    that was due is done; then `granted_losses` is what was lost.
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
    """A name to work on, with its user. `since` is its `due_at` or its `loss_at`."""

    id: int
    user_id: int
    since: datetime
    in_trash: bool


_STATE = select(*(clockwork.c[name] for name in SweepState.__slots__))
_FIND_STATE = Prepared(_STATE)
_LOCK_STATE = Prepared(_STATE.with_for_update(key_share=True))


def find_sweep_state(tx: Tx) -> SweepState:
    """What is the state of the sweep?"""
    (row,) = _FIND_STATE.all(tx)
    return SweepState(*row)


def lock_sweep_state(tx: Tx) -> SweepState:
    """What is the state of the sweep? Locks the row, so that only one worker sweeps."""
    (row,) = _LOCK_STATE.all(tx)
    return SweepState(*row)


def update_sweep_state(tx: Tx, **values: object) -> None:
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
    """Which names are due? The one due first comes first."""
    return [Due(*row) for row in _DUE.all(tx, now=tx.now, at_most=limit)]


_LOSSES = Prepared(
    select(*_NAME, subdomains.c.loss_at, _IN_TRASH)
    .where(subdomains.c.loss_at <= bindparam("now"))
    .order_by(subdomains.c.loss_at)
    .limit(bindparam("at_most", type_=Integer))
)


def list_losses(tx: Tx, limit: int) -> list[Due]:
    """Which names do their dates put into the trash, or purge from it, by now? The oldest loss comes first."""
    return [Due(*row) for row in _LOSSES.all(tx, now=tx.now, at_most=limit)]


def count_losses(tx: Tx, until: datetime) -> int:
    """How many names do their stored dates put into the trash, or purge from it, up to an instant?"""
    query = select(func.count()).select_from(subdomains).where(subdomains.c.loss_at <= until)
    return int(tx.connection.execute(query).scalar_one())


def count_due_losses(tx: Tx, trashed_before: datetime) -> tuple[int, int]:
    """Return how many names go to the trash now, and how many names that were trashed before `trashed_before` are purged now."""
    live = subdomains.c.trashed_at.is_(None)
    query = (
        select(live, func.count())
        .where((subdomains.c.loss_at <= tx.now) & (live | (subdomains.c.trashed_at < trashed_before)))
        .group_by(live)
    )
    found = {bool(row[0]): int(row[1]) for row in tx.connection.execute(query)}
    return found.get(True, 0), found.get(False, 0)


def count_losses_by_rule(tx: Tx, until: datetime, platform_domain_id: int | None = None) -> tuple[int, int]:
    """How many names go to the trash, and how many are purged, up to an instant, by the present settings of days?

    This is `lifecycle.lost_at` in SQL, independent of the stored dates; a test compares the two. It reads all names.
    """
    columns = platform_domains.c
    days = select(columns.id, columns.grace_days, columns.trash_days, columns.names_until)
    if platform_domain_id is not None:
        days = days.where(platform_domains.c.id == platform_domain_id)
    to_trash = to_purge = 0
    for each_id, grace_days, trash_days, names_until in tx.connection.execute(days).all():
        held = (subdomains.c.platform_domain_id == each_id) & subdomains.c.suspended_at.is_(None)
        is_over = _has_period_ended(subdomains.c.expires_at, until, grace_days)
        if names_until is not None:
            is_over = true() if names_until <= until else false()
        live = subdomains.c.trashed_at.is_(None) & is_over
        in_trash = subdomains.c.purged_at.is_(None) & _has_period_ended(
            subdomains.c.trashed_at, until, trash_days
        )
        to_trash += _count(tx, held & live)
        to_purge += _count(tx, held & in_trash)
    return to_trash, to_purge


def _has_period_ended(start: Column[datetime], until: datetime, days: int) -> ColumnElement[bool]:
    bound = until - timedelta(days=days)
    since = subdomains.c.unsuspended_at
    return (start <= bound) & (since.is_(None) | (since <= bound))


def _count(tx: Tx, condition: ColumnElement[bool]) -> int:
    return int(
        tx.connection.execute(select(func.count()).select_from(subdomains).where(condition)).scalar_one()
    )


def count_lost(tx: Tx, since: datetime, *, trashed_before: datetime) -> int:
    """How many names did the sweep put into the trash since an instant, or purge that were there since before another one?"""
    is_counted = (milestones.c.kind == "trashed") | (
        (milestones.c.kind == "purged") & (subdomains.c.trashed_at < trashed_before)
    )
    query = (
        select(func.count(milestones.c.subdomain_id.distinct()))
        .select_from(milestones.join(subdomains))
        .where((milestones.c.created_at > since) & (milestones.c.created_at <= tx.now))
        .where(milestones.c.kind.in_(("trashed", "purged")) & is_counted)
    )
    return int(tx.connection.execute(query).scalar_one())


def count_names(tx: Tx) -> int:
    """How many names are live or in the trash?"""
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
    """Must the dates of any names be recomputed?"""
    return _FIND_REDATING.one_or_none(tx) is not None


def lock_redating(tx: Tx) -> tuple[int, int] | None:
    """Which platform domain's names must be redated, and up to which id is that done? Locks the platform domain."""
    row = _LOCK_REDATING.one_or_none(tx)
    return (row[0], row[1]) if row is not None else None


def set_redate_after(tx: Tx, platform_domain_id: int, after_id: int | None) -> None:
    """Have the sweep redate a platform domain's names with ids above `after_id`; None: no name."""
    of = platform_domains.c.id == platform_domain_id
    tx.connection.execute(update(platform_domains).where(of).values(redate_after_id=after_id))


_IDS_AFTER = Prepared(
    select(subdomains.c.id, subdomains.c.platform_domain_id, subdomains.c.released_at.is_(None))
    .where(subdomains.c.id > bindparam("after"))
    .order_by(subdomains.c.id)
    .limit(bindparam("at_most", type_=Integer))
)


def list_ids_after(
    tx: Tx, platform_domain_id: int, after_id: int, limit: int
) -> tuple[list[int], int | None]:
    """Which of the next `limit` rows after an id are unreleased names of a platform domain, and which id is the last?

    The rows of other platform domains count too, so that a step reads no more than `limit`. The last id is None at the end.
    """
    rows = _IDS_AFTER.all(tx, after=after_id, at_most=limit)
    ids = [row[0] for row in rows if row[1] == platform_domain_id and row[2]]
    return ids, rows[-1][0] if len(rows) == limit else None


def mark_due(tx: Tx, subdomain_ids: list[int]) -> None:
    """Make names due now."""
    tx.connection.execute(update(subdomains).where(subdomains.c.id.in_(subdomain_ids)).values(due_at=tx.now))


def put_off(tx: Tx, subdomain_id: int, until: datetime) -> None:
    """Put off a name that can't be worked on until an instant."""
    set_dates(tx, subdomain_id, due_at=until, loss_at=None)


def mark_changed_ahead(tx: Tx) -> None:
    """Make names due whose `updated_at` is in the future, and clear their `auto_renew_tried_at` if that is too."""
    tried_at = subdomains.c.auto_renew_tried_at
    tx.connection.execute(
        update(subdomains)
        .where((subdomains.c.updated_at > tx.now) & subdomains.c.released_at.is_(None))
        .values(due_at=tx.now, auto_renew_tried_at=case((tried_at <= tx.now, tried_at), else_=null()))
    )


def insert_forecast(tx: Tx, losses: int) -> None:
    """Add a forecast made now."""
    tx.connection.execute(insert(forecasts).values(made_at=tx.now, losses=losses))


def find_forecast(tx: Tx, until: datetime) -> int | None:
    """How many losses did the newest forecast up to an instant expect?"""
    query = select(forecasts.c.losses).where(forecasts.c.made_at <= until)
    return tx.connection.execute(query.order_by(forecasts.c.made_at.desc()).limit(1)).scalar_one_or_none()


def find_oldest_forecast(tx: Tx) -> int | None:
    """How many losses did the oldest forecast expect?"""
    query = select(forecasts.c.losses).order_by(forecasts.c.made_at).limit(1)
    return tx.connection.execute(query).scalar_one_or_none()


def find_newest_forecast_at(tx: Tx) -> datetime | None:
    """When was the newest forecast made?"""
    return tx.connection.execute(select(func.max(forecasts.c.made_at))).scalar_one_or_none()


def delete_forecasts(tx: Tx, *, before: datetime, since: datetime) -> None:
    """Delete the forecasts made before an instant, and those made since another one."""
    tx.connection.execute(
        delete(forecasts).where((forecasts.c.made_at < before) | (forecasts.c.made_at >= since))
    )


@dataclass(frozen=True, slots=True)
class PastMilestone:
    """A milestone that was reached at `created_at`, with the mail about it and a sentence, if there are any.

    `about` is the date that it belongs to. Before the trash that is the expiry, so that the next term has its own milestones.
    """

    kind: str
    about: datetime
    detail: str | None
    mail_id: int | None
    created_at: datetime


_MILESTONES = Prepared(
    select(*(milestones.c[name] for name in PastMilestone.__slots__))
    .where(milestones.c.subdomain_id == bindparam("of"))
    .order_by(milestones.c.id)
)
_ADDED = Prepared(insert(milestones))


def list_milestones(tx: Tx, subdomain_id: int) -> list[PastMilestone]:
    """Which milestones has this name reached? The oldest comes first."""
    return [PastMilestone(*row) for row in _MILESTONES.all(tx, of=subdomain_id)]


def insert_milestone(
    tx: Tx,
    subdomain_id: int,
    kind: str,
    about: datetime,
    *,
    detail: str | None = None,
    mail_id: int | None = None,
) -> None:
    """Add a milestone that a name has reached now. A unique constraint refuses to add one twice."""
    _ADDED.run(
        tx,
        subdomain_id=subdomain_id,
        kind=kind,
        about=about,
        detail=detail,
        mail_id=mail_id,
        created_at=tx.now,
    )
