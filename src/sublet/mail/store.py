"""All SQL of the outbox."""

from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, Integer, String, Table, Text, insert

from sublet.db import Tx
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
    Column("created_at", Instant, nullable=False),
    CheckConstraint("(next_attempt_at IS NULL) = (sent_at IS NOT NULL)", name="sent"),
    sqlite_autoincrement=True,
)
WAITING = mails.c.sent_at.is_(None)
Index("ix_mails_next_attempt_at", mails.c.next_attempt_at, sqlite_where=WAITING, postgresql_where=WAITING)


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
