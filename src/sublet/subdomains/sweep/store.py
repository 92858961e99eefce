"""The SQL of the sweep: its state, due names, losses, dates to recompute, forecasts and milestones."""

from datetime import datetime, timedelta

from msgspec import Struct
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


class SweepState(Struct, frozen=True):
    """The state of the sweep: the time of its last run (`seen_at`), the time and reason of a stop, and the
    operator's grant.

    `stopped_losses` is the number of losses that the sweep was about to cause. `resumed` is True from the
    operator's command until the next sweep, which sets `granted_losses`, the losses allowed within a day
    beyond the forecast. After all due names, `granted_losses` is reduced to the losses that happened, and
    `granted_settled` is True.
    """

    seen_at: datetime | None
    stopped_at: datetime | None
    stopped_reason: str | None
    stopped_losses: int
    resumed: bool
    granted_losses: int
    granted_at: datetime | None
    granted_settled: bool


class DueName(Struct, frozen=True):
    """A name that the sweep must process, with its user. `since` is the name's `due_at` or `loss_at`."""

    id: int
    user_id: int
    since: datetime
    in_trash: bool


_STATE = select(*(clockwork.c[name] for name in SweepState.__struct_fields__))
_FIND_STATE = Prepared(_STATE)
_LOCK_STATE = Prepared(_STATE.with_for_update(key_share=True))


def find_sweep_state(tx: Tx) -> SweepState:
    """Return the state of the sweep."""
    (row,) = _FIND_STATE.all(tx)
    return SweepState(*row)


def lock_sweep_state(tx: Tx) -> SweepState:
    """Lock and return the state of the sweep, so that only one worker sweeps."""
    (row,) = _LOCK_STATE.all(tx)
    return SweepState(*row)


def update_sweep_state(tx: Tx, **values: object) -> None:
    """Change the state of the sweep."""
    tx.connection.execute(update(clockwork).values(**values))


def _names_by(date: Column[datetime]) -> Prepared:
    """Return the query of the names whose `date` has come, the longest ago first."""
    return Prepared(
        select(subdomains.c.id, subdomains.c.user_id, date, subdomains.c.trashed_at.is_not(None))
        .where(date <= bindparam("now"))
        .order_by(date)
        .limit(bindparam("at_most", type_=Integer))
    )


_DUE, _LOSSES = _names_by(subdomains.c.due_at), _names_by(subdomains.c.loss_at)


def list_due(tx: Tx, limit: int) -> list[DueName]:
    """Return the names that are due, earliest first."""
    return [DueName(*row) for row in _DUE.all(tx, now=tx.now, at_most=limit)]


def list_losses(tx: Tx, limit: int) -> list[DueName]:
    """Return the names to trash or purge now, the oldest loss first."""
    return [DueName(*row) for row in _LOSSES.all(tx, now=tx.now, at_most=limit)]


def count_losses(tx: Tx, until: datetime) -> int:
    """Return the number of names to trash or purge up to an instant, by their stored dates."""
    return _count(tx, subdomains.c.loss_at <= until)


def count_due_losses(tx: Tx, trashed_before: datetime) -> tuple[int, int]:
    """Return the number of names to trash now, and of names to purge now that were trashed before
    `trashed_before`.
    """
    live = subdomains.c.trashed_at.is_(None)
    query = (
        select(live, func.count())
        .where((subdomains.c.loss_at <= tx.now) & (live | (subdomains.c.trashed_at < trashed_before)))
        .group_by(live)
    )
    found = {bool(row[0]): int(row[1]) for row in tx.connection.execute(query)}
    return found.get(True, 0), found.get(False, 0)


def count_losses_by_rule(tx: Tx, until: datetime, platform_domain_id: int | None = None) -> tuple[int, int]:
    """Return the numbers of names to trash and to purge up to an instant, by the current days of their
    platform domains.

    This is the rule `lifecycle.lost_at` in SQL, without the stored dates. It reads all names. A test compares
    both forms of the rule.
    """
    columns = platform_domains.c
    days = select(columns.id, columns.grace_days, columns.trash_days, columns.names_until)
    if platform_domain_id is not None:
        days = days.where(platform_domains.c.id == platform_domain_id)
    to_trash = to_purge = 0
    for each_id, grace_days, trash_days, names_until in tx.connection.execute(days).all():
        held = (subdomains.c.platform_domain_id == each_id) & subdomains.c.suspended_at.is_(None)
        is_grace_over = _has_period_ended(subdomains.c.expires_at, until, grace_days)
        if names_until is not None:
            is_grace_over = true() if names_until <= until else false()
        live = subdomains.c.trashed_at.is_(None) & is_grace_over
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
    query = select(func.count()).select_from(subdomains).where(condition)
    return int(tx.connection.execute(query).scalar_one())


def count_lost(tx: Tx, since: datetime, *, trashed_before: datetime) -> int:
    """Return the number of names that the sweep trashed after `since`, or purged after `since` if they were
    trashed before `trashed_before`.
    """
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
    """Return the number of names that are live or in the trash."""
    return _count(tx, subdomains.c.purged_at.is_(None))


_REDATING = (
    select(platform_domains.c.id, platform_domains.c.redate_after_id)
    .where(platform_domains.c.redate_after_id.is_not(None))
    .order_by(platform_domains.c.id)
    .limit(1)
)
_FIND_REDATING = Prepared(_REDATING)
_LOCK_REDATING = Prepared(_REDATING.with_for_update(key_share=True))


def is_redating(tx: Tx) -> bool:
    """True if the dates of any names must be recomputed."""
    return _FIND_REDATING.one_or_none(tx) is not None


def lock_redating(tx: Tx) -> tuple[int, int] | None:
    """Lock a platform domain with dates to recompute, or return None.

    Return its id and the id of the last name done.
    """
    row = _LOCK_REDATING.one_or_none(tx)
    return (row[0], row[1]) if row is not None else None


def set_redate_after(tx: Tx, platform_domain_id: int, after_id: int | None) -> None:
    """Store that the sweep must recompute the dates of a platform domain's names with ids above `after_id`,
    or of no names (None).
    """
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
    """Read the next `limit` rows after an id.

    Return the ids of the platform domain's unreleased names, and the last id (None at the end).

    Rows of other platform domains count towards the limit, so that a batch is bounded.
    """
    rows = _IDS_AFTER.all(tx, after=after_id, at_most=limit)
    ids = [row[0] for row in rows if row[1] == platform_domain_id and row[2]]
    return ids, rows[-1][0] if len(rows) == limit else None


def mark_due(tx: Tx, subdomain_ids: list[int]) -> None:
    """Make names due now."""
    tx.connection.execute(update(subdomains).where(subdomains.c.id.in_(subdomain_ids)).values(due_at=tx.now))


def postpone(tx: Tx, subdomain_id: int, until: datetime) -> None:
    """Postpone the processing of a name."""
    set_dates(tx, subdomain_id, due_at=until, loss_at=None)


def mark_future_changes_due(tx: Tx) -> None:
    """Make the names due whose `updated_at` or `auto_renew_tried_at` is in the future.

    Clear such an `auto_renew_tried_at`.
    """
    tried_at = subdomains.c.auto_renew_tried_at
    tx.connection.execute(
        update(subdomains)
        .where(
            ((subdomains.c.updated_at > tx.now) | (tried_at > tx.now)) & subdomains.c.released_at.is_(None)
        )
        .values(due_at=tx.now, auto_renew_tried_at=case((tried_at <= tx.now, tried_at), else_=null()))
    )


def insert_forecast(tx: Tx, losses: int) -> None:
    """Store a forecast of losses, made now."""
    tx.connection.execute(insert(forecasts).values(made_at=tx.now, losses=losses))


def find_forecast(tx: Tx, until: datetime) -> int | None:
    """Return the losses of the newest forecast at or before an instant, or None."""
    query = select(forecasts.c.losses).where(forecasts.c.made_at <= until)
    return tx.connection.execute(query.order_by(forecasts.c.made_at.desc()).limit(1)).scalar_one_or_none()


def find_oldest_forecast(tx: Tx) -> int | None:
    """Return the losses of the oldest forecast, or None."""
    query = select(forecasts.c.losses).order_by(forecasts.c.made_at).limit(1)
    return tx.connection.execute(query).scalar_one_or_none()


def find_newest_forecast_at(tx: Tx) -> datetime | None:
    """Return when the newest forecast was made, or None."""
    return tx.connection.execute(select(func.max(forecasts.c.made_at))).scalar_one_or_none()


def delete_forecasts(tx: Tx, *, before: datetime, since: datetime) -> None:
    """Delete the forecasts made before `before`, or at or after `since`."""
    tx.connection.execute(
        delete(forecasts).where((forecasts.c.made_at < before) | (forecasts.c.made_at >= since))
    )


class PastMilestone(Struct, frozen=True):
    """A milestone that a name reached at `created_at`. `detail` is a sentence, `mail_id` the mail about it.

    `about` is the date that the milestone is for. For a live name this is usually the expiry, so that each
    term has its own milestones.
    """

    kind: str
    about: datetime
    detail: str | None
    mail_id: int | None
    created_at: datetime


_MILESTONES = Prepared(
    select(*(milestones.c[name] for name in PastMilestone.__struct_fields__))
    .where(milestones.c.subdomain_id == bindparam("of"))
    .order_by(milestones.c.id)
)
_ADDED = Prepared(insert(milestones))


def list_milestones(tx: Tx, subdomain_id: int) -> list[PastMilestone]:
    """Return the milestones that a name has reached, oldest first."""
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
    """Store a milestone that a name has reached now. A unique constraint refuses duplicates."""
    _ADDED.run(
        tx,
        subdomain_id=subdomain_id,
        kind=kind,
        about=about,
        detail=detail,
        mail_id=mail_id,
        created_at=tx.now,
    )
