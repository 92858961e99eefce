"""The SQL of the notices to the operator."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Column, ForeignKey, Index, String, Table, Text, delete, func, select, update

from sublet.db import Tx, insert_into
from sublet.mail.operator_mail import Notice
from sublet.mail.store import mails
from sublet.schema import BIG_ID, Instant, metadata

operator_notices = Table(
    "operator_notices",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("reference", String(128), nullable=False, unique=True),
    Column("kind", String(16), nullable=False),
    Column("text", Text, nullable=False),
    Column("quoted", Text, nullable=False),
    Column("user_id", ForeignKey("users.id")),
    Column("mail_id", ForeignKey("mails.id", ondelete="CASCADE")),
    Column("created_at", Instant, nullable=False),
    Index("ix_operator_notices_mail_id", "mail_id"),
    Index("ix_operator_notices_user_id", "user_id"),
    sqlite_autoincrement=True,
)
"""Notices that wait for a mail have no `mail_id`. A notice keeps its row, without its texts, as long as its
mail exists.
"""

_NOTICE = tuple(operator_notices.c[name] for name in Notice.__slots__)
_WAITING = operator_notices.c.mail_id.is_(None)


def insert_notice(tx: Tx, *, reference: str, kind: str, text: str, quoted: str, user_id: int | None) -> None:
    """Store a notice. Do nothing if the reference exists already."""
    row = {"reference": reference, "kind": kind, "text": text, "quoted": quoted, "user_id": user_id}
    added = insert_into(tx, operator_notices).values(**row, created_at=tx.now)
    tx.connection.execute(added.on_conflict_do_nothing())


def is_any_waiting(tx: Tx) -> bool:
    """True if any notice waits for a mail."""
    return tx.connection.execute(select(operator_notices.c.id).where(_WAITING).limit(1)).first() is not None


def find_last_mailed_at(tx: Tx) -> datetime | None:
    """Return when the last mail with notices was enqueued, or None."""
    last = select(func.max(operator_notices.c.mail_id)).scalar_subquery()
    return tx.connection.execute(select(mails.c.created_at).where(mails.c.id == last)).scalar_one_or_none()


def lock_waiting(tx: Tx, limit: int) -> list[Notice]:
    """Lock and return waiting notices, oldest first.

    Notices without a user come first, so that no number of tickets delays them.
    """
    order = (operator_notices.c.user_id.is_not(None), operator_notices.c.id)
    query = select(*_NOTICE).where(_WAITING).order_by(*order).limit(limit).with_for_update()
    return [Notice(*row) for row in tx.connection.execute(query)]


def record_mail(tx: Tx, notice_ids: Collection[int], mail_id: int) -> None:
    """Store the mail that these notices are in, and delete their texts."""
    of = update(operator_notices).where(operator_notices.c.id.in_(notice_ids))
    tx.connection.execute(of.values(mail_id=mail_id, text="", quoted=""))


def delete_waiting(tx: Tx) -> None:
    """Delete the notices that wait for a mail."""
    tx.connection.execute(delete(operator_notices).where(_WAITING))
