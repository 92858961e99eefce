"""All SQL of milestones: the dated steps of a name's life that time took, each once."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import (
    Column,
    ForeignKey,
    Index,
    String,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    insert,
    select,
)

from sublet.db import Prepared, Tx
from sublet.mail.store import mails
from sublet.schema import BIG_ID, Instant, metadata

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
class PastMilestone:
    """A milestone that was reached at `created_at`, with the mail that told of it and a sentence, where there is one.

    `about` is the date that it belongs to: the expiry, for what comes before the trash; so the next term has its own.
    """

    kind: str
    about: datetime
    detail: str | None
    mail_id: int | None
    created_at: datetime


# What is asked of each name that is swept is built once, as in `store.py`.
_MILESTONES = Prepared(
    select(*(milestones.c[name] for name in PastMilestone.__slots__))
    .where(milestones.c.subdomain_id == bindparam("of"))
    .order_by(milestones.c.id)
)
_ADDED = Prepared(insert(milestones))


def list_milestones(tx: Tx, subdomain_id: int) -> list[PastMilestone]:
    """Which milestones has this name reached? Oldest first."""
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
    """Add a milestone that a name has reached now; the same one twice can't be stored."""
    _ADDED.run(
        tx,
        subdomain_id=subdomain_id,
        kind=kind,
        about=about,
        detail=detail,
        mail_id=mail_id,
        created_at=tx.now,
    )
