"""Locks of a text, such as a mailbox, that has no row to lock."""

from enum import IntEnum

from sqlalchemy import text

from sublet.db.model import Tx


class LockedKind(IntEnum):
    """The kinds of texts, in the order in which a transaction locks them (docs/locks.md)."""

    MAILBOX = 1
    NETWORK = 2


def lock_text(tx: Tx, kind: LockedKind, value: str) -> None:
    """Wait until no other transaction holds this lock, and hold it until the transaction ends.

    Take it before reading what the transaction counts or compares. On SQLite, writing transactions run one at
    a time, so this does nothing. Texts with the same hash share a lock.
    """
    if tx.connection.dialect.name == "postgresql":
        statement = text("SELECT pg_advisory_xact_lock(:kind, hashtext(:value))")
        tx.connection.execute(statement, {"kind": int(kind), "value": value})
