"""All SQL of the sweep: which names it has to look at, and which would be lost; the clockwork's own row; forecasts."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Integer,
    Table,
    Text,
    delete,
    false,
    func,
    insert,
    select,
    update,
)

from sublet.db import Tx
from sublet.schema import Instant, metadata
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
    word, which the next sweep takes: from then on `granted_losses` may be lost beyond the forecast, within a day.
    """

    seen_at: datetime | None
    stopped_at: datetime | None
    stopped_reason: str | None
    stopped_losses: int
    resumed: bool
    granted_losses: int
    granted_at: datetime | None


_CLOCKWORK = select(*(clockwork.c[name] for name in Clockwork.__slots__))


def find_clockwork(tx: Tx) -> Clockwork:
    """What is the state of the sweep?"""
    return Clockwork(*tx.connection.execute(_CLOCKWORK).one())


def lock_clockwork(tx: Tx) -> Clockwork:
    """What is the state of the sweep? Locked, so that of several workers one sweeps."""
    return Clockwork(*tx.connection.execute(_CLOCKWORK.with_for_update()).one())


def update_clockwork(tx: Tx, **values: object) -> None:
    """Change the state of the sweep."""
    tx.connection.execute(update(clockwork).values(**values))


def list_due(tx: Tx, limit: int) -> list[tuple[int, int]]:
    """Which names is the sweep to look at? Their ids and users, the longest waiting first."""
    query = select(subdomains.c.id, subdomains.c.user_id).where(subdomains.c.due_at <= tx.now)
    return [tuple(row) for row in tx.connection.execute(query.order_by(subdomains.c.due_at).limit(limit))]


def list_losses(tx: Tx, limit: int) -> list[tuple[int, int]]:
    """Which names do their dates put into the trash, or purge from it, by now? Their ids and users, the longest over first."""
    query = select(subdomains.c.id, subdomains.c.user_id).where(subdomains.c.loss_at <= tx.now)
    return [tuple(row) for row in tx.connection.execute(query.order_by(subdomains.c.loss_at).limit(limit))]


def count_losses(tx: Tx, until: datetime) -> int:
    """How many names do their dates put into the trash, or purge from it, up to an instant?"""
    query = select(func.count()).select_from(subdomains).where(subdomains.c.loss_at <= until)
    return int(tx.connection.execute(query).scalar_one())


def count_lost(tx: Tx, since: datetime, kinds: tuple[str, ...]) -> int:
    """How many names did the sweep lose since an instant? By their milestones of these kinds."""
    query = select(func.count(milestones.c.subdomain_id.distinct())).where(
        (milestones.c.created_at > since) & milestones.c.kind.in_(kinds)
    )
    return int(tx.connection.execute(query).scalar_one())


def count_names(tx: Tx) -> int:
    """How many names are held, those in the trash included?"""
    query = select(func.count()).select_from(subdomains).where(subdomains.c.purged_at.is_(None))
    return int(tx.connection.execute(query).scalar_one())


def set_dates(tx: Tx, subdomain_id: int, *, due_at: datetime | None, loss_at: datetime | None) -> None:
    """Store when the sweep is to look at a name again, and when it is lost."""
    tx.connection.execute(
        update(subdomains).where(subdomains.c.id == subdomain_id).values(due_at=due_at, loss_at=loss_at)
    )


def date_anew(tx: Tx, platform_domain_id: int) -> None:
    """Have the sweep look at every name of a platform domain."""
    tx.connection.execute(
        update(subdomains)
        .where((subdomains.c.platform_domain_id == platform_domain_id) & subdomains.c.released_at.is_(None))
        .values(due_at=tx.now)
    )


def list_late(tx: Tx, limit: timedelta) -> list[int]:
    """Which names should the sweep have looked at for longer than this?"""
    long_ago = tx.now - limit
    query = select(subdomains.c.id).where(
        (subdomains.c.due_at < long_ago) | (subdomains.c.loss_at < long_ago)
    )
    return list(tx.connection.execute(query.order_by(subdomains.c.id)).scalars())


def insert_forecast(tx: Tx, losses: int) -> None:
    """Add a forecast made now."""
    tx.connection.execute(insert(forecasts).values(made_at=tx.now, losses=losses))


def find_forecast(tx: Tx, until: datetime | None = None) -> tuple[datetime, int] | None:
    """Which is the newest forecast, or the newest made up to an instant? When it was made, and how many losses it told."""
    query = select(forecasts.c.made_at, forecasts.c.losses).order_by(forecasts.c.made_at.desc()).limit(1)
    if until is not None:
        query = query.where(forecasts.c.made_at <= until)
    row = tx.connection.execute(query).one_or_none()
    return (row[0], row[1]) if row is not None else None


def delete_forecasts(tx: Tx, *, before: datetime, since: datetime) -> None:
    """Forget the forecasts made before an instant, or since another."""
    tx.connection.execute(
        delete(forecasts).where((forecasts.c.made_at < before) | (forecasts.c.made_at >= since))
    )
