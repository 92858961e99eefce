"""Commit marks: they show if a COMMIT with a lost response took effect (docs/decisions/0011-commit-marks.md).

Each writing transaction on PostgreSQL first inserts a row with a new id. If the connection is lost at COMMIT,
the function runs again with the same id. If the row exists, the first attempt committed, and its result is
returned. If the INSERT succeeds, the first attempt was rolled back. If the first attempt is still committing,
the INSERT waits for it.
"""

import secrets
import time
from datetime import datetime
from typing import Any

from msgspec import Struct, field
from sqlalchemy import Column, Connection, Index, String, Table
from sqlalchemy.exc import IntegrityError

from sublet.schema import Instant, metadata

KEPT_MINUTES = 10
"""How long a mark is kept. Marks use the database's clock, because the clocks of hosts differ, and tests set
the clock of the registry.
"""
RETRY_MINUTES = 5
"""How long after its first attempt a write may be retried. A suspended machine may wake after its mark was
deleted.
"""
DELETED_MARKS_MAX = 1000

commit_marks = Table(
    "commit_marks",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("made_at", Instant, nullable=False),
    Index("ix_commit_marks_made_at", "made_at"),
)
"""A row for each recent writing transaction that committed."""

_ADD = "INSERT INTO commit_marks (id, made_at) VALUES (%s, now()) RETURNING made_at"
_ADD_AGAIN = f"""
INSERT INTO commit_marks (id, made_at) SELECT %s, now() WHERE now() < %s + interval '{RETRY_MINUTES} minutes'
RETURNING made_at
"""
_TOUCH = "UPDATE commit_marks SET made_at = now() WHERE id = %s RETURNING id"
DELETE_OLD = f"""
DELETE FROM commit_marks WHERE id IN (
    SELECT id FROM commit_marks WHERE made_at < now() - interval '{KEPT_MINUTES} minutes'
    ORDER BY made_at LIMIT {DELETED_MARKS_MAX} FOR UPDATE SKIP LOCKED
)
"""  # noqa: S608 - constants of ours
"""Delete a batch of old marks. Several processes may do this concurrently."""


class CommittedBefore(Exception):  # noqa: N818 - not an error
    """An earlier attempt of the same write committed."""


class ConnectionLost(Exception):  # noqa: N818 - the write may have succeeded
    """The connection was lost, or the outcome of a COMMIT is unknown."""


def _new_id() -> str:
    # Ids are ordered by time, so that the index grows at one end.
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


class Mark(Struct):
    """The mark of a write, the same for all its attempts.

    If `is_unknown`, PostgreSQL may have committed the last attempt, and `result` is the function's result in
    that attempt.
    """

    id: str = field(default_factory=_new_id)
    made_at: datetime | None = None
    is_unknown: bool = False
    result: Any = None

    def add(self, connection: Connection) -> None:
        """Insert the mark, with the first statement of the transaction.

        Wait for an earlier attempt that may still commit.

        Raises:
            CommittedBefore: the mark exists.
            ConnectionLost: the first attempt is so old that its mark may have been deleted.
        """
        try:
            row = (
                connection.exec_driver_sql(_ADD, (self.id,))
                if self.made_at is None
                else connection.exec_driver_sql(_ADD_AGAIN, (self.id, self.made_at))
            ).one_or_none()
        except IntegrityError as error:
            raise CommittedBefore from error
        if row is None:
            raise ConnectionLost("its mark may have been deleted")
        # All earlier attempts were rolled back, because otherwise the row would exist.
        self.made_at, self.is_unknown, self.result = row[0], False, None

    def touch(self, connection: Connection) -> bool:
        """Update the mark that an earlier attempt committed. Return False if it doesn't exist.

        PostgreSQL replicates its WAL in order, so once this update is on a synchronous standby, the earlier
        commit is there too.
        """
        return connection.exec_driver_sql(_TOUCH, (self.id,)).one_or_none() is not None
