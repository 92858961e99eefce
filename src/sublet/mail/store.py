"""All SQL of the outbox."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    bindparam,
    func,
    insert,
    or_,
    select,
    update,
)

from sublet.db import Tx
from sublet.mail.attempts import BACK_OFF_MAX
from sublet.mail.model import Mail, Outbox
from sublet.schema import BIG_ID, Instant, metadata

mails = Table(
    "mails",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("reference", String(128), nullable=False, unique=True),
    Column("user_id", ForeignKey("users.id"), nullable=False),
    Column("recipient", String(254), nullable=False),
    Column("subject", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_attempt_at", Instant),
    Column("error", Text),
    Column("sent_at", Instant),
    Column("logged_at", Instant),
    Column("given_up_at", Instant),
    Column("created_at", Instant, nullable=False),
    CheckConstraint(
        "CASE WHEN next_attempt_at IS NULL THEN 0 ELSE 1 END + CASE WHEN sent_at IS NULL THEN 0 ELSE 1 END"
        " + CASE WHEN logged_at IS NULL THEN 0 ELSE 1 END + CASE WHEN given_up_at IS NULL THEN 0 ELSE 1 END = 1",
        name="state",
    ),
    sqlite_autoincrement=True,
)
WAITING = mails.c.next_attempt_at.is_not(None)
Index("ix_mails_next_attempt_at", mails.c.next_attempt_at, sqlite_where=WAITING, postgresql_where=WAITING)

_MAIL = (
    mails.c.id,
    mails.c.reference,
    mails.c.user_id,
    mails.c.recipient,
    mails.c.subject,
    mails.c.text,
    mails.c.attempts,
    mails.c.next_attempt_at,
    mails.c.error,
    mails.c.sent_at,
    mails.c.logged_at,
    mails.c.given_up_at,
    mails.c.created_at,
)


def _mail(row: Sequence[Any] | None) -> Mail | None:
    return Mail(*row) if row is not None else None


def insert_mail(tx: Tx, *, user_id: int, recipient: str, reference: str, subject: str, text: str) -> int:
    """Add a mail to be sent at once, and return its id; the unique reference is the database's to hold."""
    return int(
        tx.connection.execute(
            insert(mails)
            .values(
                user_id=user_id,
                recipient=recipient,
                reference=reference,
                subject=subject,
                text=text,
                attempts=0,
                next_attempt_at=tx.now,
                created_at=tx.now,
            )
            .returning(mails.c.id)
        ).scalar_one()
    )


def find_mail(tx: Tx, mail_id: int) -> Mail | None:
    """Which mail has this id?"""
    return _mail(tx.connection.execute(select(*_MAIL).where(mails.c.id == mail_id)).one_or_none())


def find_by_reference(tx: Tx, reference: str) -> Mail | None:
    """Which mail is about this?"""
    return _mail(tx.connection.execute(select(*_MAIL).where(mails.c.reference == reference)).one_or_none())


def lock_mail(tx: Tx, mail_id: int) -> Mail | None:
    """Which mail has this id? Locked, so that nobody claims it meanwhile."""
    query = select(*_MAIL).where(mails.c.id == mail_id).with_for_update(key_share=True)
    return _mail(tx.connection.execute(query).one_or_none())


# No pause is longer than the longest: what lies further ahead was written while the clock was ahead.
_DUE = WAITING & or_(
    mails.c.next_attempt_at <= bindparam("now"), mails.c.next_attempt_at > bindparam("now_and_longest")
)
# Asked again and again, so it is built once: building a statement takes longer than running it.
_ANY_DUE = select(mails.c.id).where(_DUE).limit(1)
_FIRST_DUE = (
    select(*_MAIL)
    .where(_DUE)
    .order_by(mails.c.next_attempt_at, mails.c.id)
    .limit(1)
    .with_for_update(skip_locked=True, key_share=True)
)


def is_any_due(tx: Tx) -> bool:
    """Is any mail to be sent now?"""
    return tx.connection.execute(_ANY_DUE, _due(tx)).first() is not None


def lock_due(tx: Tx) -> Mail | None:
    """Which mail is to be sent now, the longest due first? Locked; those that another worker has locked are passed over."""
    return _mail(tx.connection.execute(_FIRST_DUE, _due(tx)).one_or_none())


def _due(tx: Tx) -> dict[str, datetime]:
    return {"now": tx.now, "now_and_longest": tx.now + BACK_OFF_MAX}


def record_attempt(tx: Tx, mail_id: int, attempts: int, next_attempt_at: datetime) -> None:
    """Store that an attempt begins, and when the next one is due if nothing is heard of this one."""
    tx.connection.execute(
        update(mails).where(mails.c.id == mail_id).values(attempts=attempts, next_attempt_at=next_attempt_at)
    )


def record_sent(tx: Tx, mail_id: int) -> None:
    """Store that a mail was sent, whichever attempt it was: it is a fact, and must not be sent again."""
    tx.connection.execute(
        update(mails)
        .where((mails.c.id == mail_id) & mails.c.sent_at.is_(None))
        .values(sent_at=tx.now, next_attempt_at=None, logged_at=None, given_up_at=None, error=None)
    )


def record_logged(tx: Tx, mail_id: int) -> None:
    """Store that the log alone was told of a mail that waited."""
    tx.connection.execute(
        update(mails)
        .where((mails.c.id == mail_id) & WAITING)
        .values(logged_at=tx.now, next_attempt_at=None, error=None)
    )


def record_failure(tx: Tx, claimed: Mail, error: str, next_attempt_at: datetime | None) -> None:
    """Store why the attempt of a claim failed and when the next one is due (None: it is given up).

    Not where a newer attempt has begun, or another instant was set meanwhile, by the operator's `mail retry`.
    """
    ours = (mails.c.attempts == claimed.attempts) & (mails.c.next_attempt_at == claimed.next_attempt_at)
    tx.connection.execute(
        update(mails)
        .where((mails.c.id == claimed.id) & ours)
        .values(
            error=error,
            next_attempt_at=next_attempt_at,
            given_up_at=tx.now if next_attempt_at is None else None,
        )
    )


def set_due(tx: Tx, mail_id: int) -> None:
    """Have a mail that was not sent be sent now, one that was only logged or given up too."""
    tx.connection.execute(
        update(mails)
        .where((mails.c.id == mail_id) & mails.c.sent_at.is_(None))
        .values(next_attempt_at=tx.now, logged_at=None, given_up_at=None)
    )


def count_waiting(tx: Tx) -> Outbox:
    """How many mails wait, and since when does the oldest?"""
    query = select(func.count(), func.min(mails.c.created_at)).where(WAITING)
    return Outbox(*tx.connection.execute(query).one())


def list_mails(tx: Tx, *, waiting: bool, user_id: int | None, limit: int) -> list[Mail]:
    """Which mails are there (of this user; only those that wait), newest first?"""
    query = select(*_MAIL)
    if waiting:
        query = query.where(WAITING)
    if user_id is not None:
        query = query.where(mails.c.user_id == user_id)
    rows: Sequence[Any] = tx.connection.execute(query.order_by(mails.c.id.desc()).limit(limit)).all()
    return [Mail(*row) for row in rows]
