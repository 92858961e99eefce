"""The SQL of the outbox, and of the notices to the operator."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    CheckConstraint,
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    column,
    delete,
    func,
    insert,
    or_,
    select,
    table,
    update,
)

from sublet.db import Prepared, Tx, insert_into
from sublet.mail.letter import Message
from sublet.mail.model import (
    BACK_OFF_MAX,
    ENVELOPE_KEPT_FOR,
    EXPIRED,
    UNSENT_TEXT_KEPT_FOR,
    Mail,
    Notice,
    Outbox,
)
from sublet.schema import BIG_ID, Instant, metadata, recent

ERASED = "deleted"
"""The replacement of the address and subject of an old mail that stays, because a milestone refers to it."""
ERASED_WITH_USER = "deleted user"
"""The replacement of the address of a deleted user. These mails are deleted later, like all old mails."""
ERASED_MAX = 500
"""The maximum number of mails that a transaction erases or deletes. On SQLite other writes wait for it."""

mails = Table(
    "mails",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("reference", String(128), nullable=False, unique=True),
    Column("user_id", ForeignKey("users.id")),
    Column("recipient", String(254), nullable=False),
    Column("subject", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("page", Text, nullable=False, server_default=""),
    Column("attempts", Integer, nullable=False),
    Column("next_attempt_at", Instant),
    Column("error", Text),
    Column("sent_at", Instant),
    Column("logged_at", Instant),
    Column("given_up_at", Instant),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant),
    CheckConstraint(
        "CASE WHEN next_attempt_at IS NULL THEN 0 ELSE 1 END + CASE WHEN sent_at IS NULL THEN 0 ELSE 1 END"
        " + CASE WHEN logged_at IS NULL THEN 0 ELSE 1 END + CASE WHEN given_up_at IS NULL THEN 0 ELSE 1 "
        "END = 1",
        name="state",
    ),
    sqlite_autoincrement=True,
)
Index("ix_mails_recipient_created_at", mails.c.recipient, mails.c.created_at)
WAITING = mails.c.next_attempt_at.is_not(None)
Index(
    "ix_mails_next_attempt_at",
    mails.c.next_attempt_at,
    mails.c.id,
    sqlite_where=WAITING,
    postgresql_where=WAITING,
)
_HAS_UNSENT_TEXT = mails.c.sent_at.is_(None) & (mails.c.text != "")
Index("ix_mails_text", mails.c.created_at, sqlite_where=_HAS_UNSENT_TEXT, postgresql_where=_HAS_UNSENT_TEXT)
_HAS_UNSENT_CODE = _HAS_UNSENT_TEXT & mails.c.expires_at.is_not(None)
Index("ix_mails_code", mails.c.expires_at, sqlite_where=_HAS_UNSENT_CODE, postgresql_where=_HAS_UNSENT_CODE)
_HAS_ENVELOPE_ALONE = (mails.c.text == "") & (mails.c.recipient != ERASED)
Index(
    "ix_mails_envelope",
    mails.c.created_at,
    sqlite_where=_HAS_ENVELOPE_ALONE,
    postgresql_where=_HAS_ENVELOPE_ALONE,
)

_ADDED = Prepared(insert(mails).returning(mails.c.id))
_MAIL_COLUMNS = tuple(mails.c[name] for name in Mail.__struct_fields__)


def _mail_from_row(row: Sequence[Any] | None) -> Mail | None:
    return Mail(*row) if row is not None else None


def insert_mail(
    tx: Tx,
    *,
    user_id: int | None,
    recipient: str,
    reference: str,
    message: Message,
    page: str,
    expires_at: datetime | None = None,
) -> int:
    """Store a mail that is due now, and return its id. A unique constraint refuses a used reference."""
    mail_id: int = _ADDED.value(
        tx,
        user_id=user_id,
        recipient=recipient,
        reference=reference,
        subject=message.subject,
        text=message.text,
        page=page,
        expires_at=expires_at,
        attempts=0,
        next_attempt_at=tx.now,
        created_at=tx.now,
    )
    return mail_id


def find_by_reference(tx: Tx, reference: str) -> Mail | None:
    """Return the mail with this reference, or None."""
    return _mail_from_row(
        tx.connection.execute(select(*_MAIL_COLUMNS).where(mails.c.reference == reference)).one_or_none()
    )


def lock_mail(tx: Tx, mail_id: int) -> Mail | None:
    """Lock and return the mail with this id, or None. While it is locked, no worker claims it."""
    query = select(*_MAIL_COLUMNS).where(mails.c.id == mail_id).with_for_update(key_share=True)
    return _mail_from_row(tx.connection.execute(query).one_or_none())


def is_any_due(tx: Tx) -> bool:
    """True if any mail is due."""
    return tx.connection.execute(select(mails.c.id).where(_is_due(tx)).limit(1)).first() is not None


def lock_due(tx: Tx) -> Mail | None:
    """Lock and return a due mail, or None. Mails with a code come first, in the order in which the codes
    expire. The others follow, the mail that has been due longest first.

    Skips mails that other workers have locked.
    """
    # Two queries, because one that sorts by both reads every waiting mail.
    for kind, order in (
        (_HAS_UNSENT_CODE, mails.c.expires_at),
        (mails.c.expires_at.is_(None), mails.c.next_attempt_at),
    ):
        query = select(*_MAIL_COLUMNS).where(kind & _is_due(tx)).order_by(order, mails.c.id).limit(1)
        locked = tx.connection.execute(query.with_for_update(skip_locked=True, key_share=True)).one_or_none()
        if locked is not None:
            return _mail_from_row(locked)
    return None


def _is_due(tx: Tx) -> ColumnElement[bool]:
    at = mails.c.next_attempt_at
    # No pause is longer than BACK_OFF_MAX, so a later `next_attempt_at` was written while the clock was
    # ahead.
    is_valid = mails.c.expires_at.is_(None) | (mails.c.expires_at > tx.now)
    return WAITING & or_(at <= tx.now, at > tx.now + BACK_OFF_MAX) & is_valid


def record_attempt(tx: Tx, mail_id: int, attempts: int, next_attempt_at: datetime) -> None:
    """Store the start of an attempt, and the time of the next attempt if the outcome of this attempt is never
    recorded.
    """
    tx.connection.execute(
        update(mails).where(mails.c.id == mail_id).values(attempts=attempts, next_attempt_at=next_attempt_at)
    )


def record_sent(tx: Tx, mail_id: int) -> None:
    """Store that a mail was sent, whichever attempt sent it, so that it is not sent again, and erase its
    text.
    """
    unsent = (mails.c.id == mail_id) & mails.c.sent_at.is_(None)
    values = {
        "sent_at": tx.now,
        "next_attempt_at": None,
        "logged_at": None,
        "given_up_at": None,
        "error": None,
        "text": "",
    }
    tx.connection.execute(update(mails).where(unsent).values(**values))


def record_logged(tx: Tx, mail_id: int) -> None:
    """Store that a waiting mail was only logged."""
    waiting = update(mails).where((mails.c.id == mail_id) & WAITING)
    tx.connection.execute(waiting.values(logged_at=tx.now, next_attempt_at=None, error=None))


def record_failure(tx: Tx, claimed: Mail, error: str, next_attempt_at: datetime | None) -> None:
    """Store why an attempt failed, and the time of the next one. None gives the mail up.

    Does nothing if a newer attempt has started, or `sublet mail retry` has changed the time.
    """
    is_claimed = (mails.c.attempts == claimed.attempts) & (mails.c.next_attempt_at == claimed.next_attempt_at)
    given_up_at = tx.now if next_attempt_at is None else None
    values = {"error": error, "next_attempt_at": next_attempt_at, "given_up_at": given_up_at}
    tx.connection.execute(update(mails).where((mails.c.id == claimed.id) & is_claimed).values(**values))


def erase_recipient(tx: Tx, mail_id: int) -> None:
    """Erase the address of a mail, and the server's reply, which may contain the address."""
    values = {"recipient": ERASED_WITH_USER, "error": None}
    tx.connection.execute(update(mails).where(mails.c.id == mail_id).values(**values))


def has_expired_code(tx: Tx) -> bool:
    """True if `erase_expired_codes` has work."""
    return tx.connection.execute(select(mails.c.id).where(_has_expired_code(tx)).limit(1)).first() is not None


def erase_expired_codes(tx: Tx) -> None:
    """Erase the texts of unsent mails with expired codes, at most `ERASED_MAX`. Give up those that wait."""
    expired = mails.c.id.in_(_lock_some(tx, _has_expired_code(tx)))
    given_up = {"next_attempt_at": None, "given_up_at": tx.now, "error": EXPIRED}
    tx.connection.execute(update(mails).where(expired & WAITING).values(**given_up))
    tx.connection.execute(update(mails).where(expired).values(text=""))


def erase_old(tx: Tx) -> bool:
    """Erase the texts of old mails that were logged or given up, and delete older mails without a text.

    Return True if this reached `ERASED_MAX` mails of either kind. The sweep's milestones refer to their
    mails, so those mails stay, without their address and subject.
    """
    texts = _lock_some(
        tx, _HAS_UNSENT_TEXT & ~WAITING & (mails.c.created_at <= tx.now - UNSENT_TEXT_KEPT_FOR)
    )
    tx.connection.execute(update(mails).where(mails.c.id.in_(texts)).values(text=""))
    old = _lock_some(tx, _HAS_ENVELOPE_ALONE & (mails.c.created_at <= tx.now - ENVELOPE_KEPT_FOR))
    mail_id = column("mail_id", BIG_ID)
    of_milestones = select(mail_id).select_from(table("milestones")).where(mail_id.in_(old))
    tx.connection.execute(delete(mails).where(mails.c.id.in_(old) & mails.c.id.not_in(of_milestones)))
    erased = {"recipient": ERASED, "subject": ERASED, "page": "", "error": None}
    tx.connection.execute(update(mails).where(mails.c.id.in_(old)).values(**erased))
    return ERASED_MAX in (len(texts), len(old))


def _has_expired_code(tx: Tx) -> ColumnElement[bool]:
    return _HAS_UNSENT_CODE & (mails.c.expires_at <= tx.now)


def _lock_some(tx: Tx, condition: ColumnElement[bool]) -> list[int]:
    query = select(mails.c.id).where(condition).order_by(mails.c.created_at).limit(ERASED_MAX)
    locked = tx.connection.execute(query.with_for_update(skip_locked=True, key_share=True))
    return [int(each) for each in locked.scalars()]


def set_due(tx: Tx, mail_id: int) -> Mail:
    """Make an unsent mail due now, even if it was logged or given up, and return it."""
    unsent = update(mails).where((mails.c.id == mail_id) & mails.c.sent_at.is_(None))
    values = {"next_attempt_at": tx.now, "logged_at": None, "given_up_at": None}
    return Mail(*tx.connection.execute(unsent.values(**values).returning(*_MAIL_COLUMNS)).one())


def count_waiting(tx: Tx) -> Outbox:
    """Return the number of waiting mails, and the time at which the oldest was enqueued."""
    query = select(func.count(), func.min(mails.c.created_at)).where(WAITING)
    return Outbox(*tx.connection.execute(query).one())


def count_requested(tx: Tx, recipient: str, since: datetime) -> int:
    """Return the number of codes, invitations and offers of names that were mailed to an address since an
    instant.
    """
    of_request = mails.c.reference.like("code:%") | mails.c.reference.like("name_transfer:%:offer")
    query = select(func.count()).where(
        (mails.c.recipient == recipient) & recent(mails.c.created_at, since, tx.now) & of_request
    )
    return int(tx.connection.execute(query).scalar_one())


def list_mails(tx: Tx, *, waiting: bool, user_id: int | None, limit: int) -> list[Mail]:
    """Return mails, newest first.

    With `waiting`, only waiting mails; with `user_id`, only that user's mails.
    """
    query = select(*_MAIL_COLUMNS)
    if waiting:
        query = query.where(WAITING)
    if user_id is not None:
        query = query.where(mails.c.user_id == user_id)
    rows: Sequence[Any] = tx.connection.execute(query.order_by(mails.c.id.desc()).limit(limit)).all()
    return [Mail(*row) for row in rows]


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

_NOTICE = tuple(operator_notices.c[name] for name in Notice.__struct_fields__)
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
