"""The marks of commits: what tells whether a commit was done that nobody answered (docs/decisions/0011-commit-marks.md).

Every writing transaction on PostgreSQL first adds a row with an id of its own. When the connection is lost at its COMMIT, the
function is run again with the same id: either the row is there (the earlier attempt had committed, and its result is the
answer), or it isn't (nothing of it stands, nor ever will), or somebody is still about to commit it, and adding it waits for that.
"""

import secrets
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Connection, Index, String, Table
from sqlalchemy.exc import IntegrityError

from sublet.schema import Instant, metadata

KEPT_MINUTES = 10
"""How long a mark stays. All instants here are the database's own: hosts' clocks differ, and tests move theirs."""
TRIED_MINUTES = 5
"""How long after its first attempt a write may be tried again: a process may sleep with its machine, and its mark be gone then."""
DELETED_AT_ONCE = 1000

commit_marks = Table(
    "commit_marks",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("made_at", Instant, nullable=False),
    Index("ix_commit_marks_made_at", "made_at"),
)
"""One row for each transaction whose commit might be answered by nobody: its being there tells that it was done."""

_ADD = "INSERT INTO commit_marks (id, made_at) VALUES (%s, now()) RETURNING made_at"
_ADD_AGAIN = f"""
INSERT INTO commit_marks (id, made_at) SELECT %s, now() WHERE now() < %s + interval '{TRIED_MINUTES} minutes'
RETURNING made_at
"""
_TOUCH = "UPDATE commit_marks SET made_at = now() WHERE id = %s RETURNING id"
DELETE_OLD = f"""
DELETE FROM commit_marks WHERE id IN (
    SELECT id FROM commit_marks WHERE made_at < now() - interval '{KEPT_MINUTES} minutes'
    ORDER BY made_at LIMIT {DELETED_AT_ONCE} FOR UPDATE SKIP LOCKED
)
"""  # noqa: S608 - constants of ours
"""Deletes old marks, some at once; several processes may do so beside each other."""


class CommittedBefore(Exception):  # noqa: N818 - no error: it is the answer to the question
    """An earlier attempt of the same write had committed."""


class Lost(Exception):  # noqa: N818 - it may have been done
    """The connection is lost, or what became of a commit."""


def _new_id() -> str:
    # Ordered by time, so that the index grows at one end. The clock decides nothing else.
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


@dataclass(slots=True)
class Mark:
    """The mark of one write, through all its attempts.

    `is_sent` tells that a COMMIT is under way of which it isn't known what became; `result` is what it is to answer then.
    """

    id: str = field(default_factory=_new_id)
    made_at: datetime | None = None
    is_sent: bool = False
    result: Any = None

    def add(self, connection: Connection) -> None:
        """Add the mark as the transaction's first statement; wait where an earlier attempt may still commit it.

        Raises:
            CommittedBefore: it is there.
            Lost: the first attempt is so long ago that its mark may be deleted by now.
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
            raise Lost("its mark may be deleted by now")
        # Every earlier attempt has come to nothing: had it committed, or could it still, the row would be its own.
        self.made_at, self.is_sent, self.result = row[0], False, None

    def touch(self, connection: Connection) -> bool:
        """Change the mark that an earlier attempt committed, and tell whether it is there.

        The log is replicated in its order: once this change is safe on a synchronous standby, that commit is, too.
        """
        return connection.exec_driver_sql(_TOUCH, (self.id,)).one_or_none() is not None
