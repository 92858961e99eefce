"""Classify PostgreSQL's errors by the reaction that a transaction needs."""

from enum import Enum

import psycopg
from sqlalchemy.exc import DBAPIError, OperationalError

from sublet.db.marks import ConnectionLost
from sublet.db.model import INSUFFICIENT_PRIVILEGE, READ_ONLY, Outdated


class ErrorKind(Enum):
    """The kinds of errors."""

    CONTENTION = "contention"
    """A conflict with another transaction. This transaction was rolled back, and may be retried at once.

    A unique constraint's refusal is one: the other transaction stored the same value after this one had
    looked for it. The next run sees the value, and gives the answer.
    """
    LOST = "lost"
    """The connection was lost, or its server is read-only. A new connection may reach another server."""
    AWAY = "away"
    """The database can't run the transaction now: a lock timeout, a statement timeout, a full disk, a role
    without the privilege.
    """
    BUG = "bug"
    """A bug. A retry would fail in the same way."""


DISK_FULL = "53100"
UNIQUE_VIOLATION = "23505"
_CONTENTION = ("40001", "40P01", UNIQUE_VIOLATION)  # serialization_failure, deadlock_detected
LOST_STATES = (
    "57P01",  # admin_shutdown
    "57P02",  # crash_shutdown
    "57P03",  # cannot_connect_now
    "57P05",  # idle_session_timeout
    "25P03",  # idle_in_transaction_session_timeout
    READ_ONLY,
    "40003",  # statement_completion_unknown
    "53300",  # too_many_connections
    # feature_not_supported: a migration changed the columns of a statement that this connection had prepared
    "0A000",
)


def classify_error(error: Exception) -> ErrorKind:
    """Return the kind of an error that ended a transaction or a query."""
    if isinstance(error, ConnectionLost):
        return ErrorKind.LOST
    if isinstance(error, Outdated):
        return ErrorKind.CONTENTION
    if not isinstance(error, DBAPIError | psycopg.Error):
        return ErrorKind.BUG
    state = sqlstate(error)
    if state in _CONTENTION:
        return ErrorKind.CONTENTION
    is_invalidated = isinstance(error, DBAPIError) and error.connection_invalidated
    if is_invalidated or state in LOST_STATES or (state or "").startswith("08"):
        return ErrorKind.LOST
    if state == INSUFFICIENT_PRIVILEGE:
        return ErrorKind.AWAY
    if isinstance(error, OperationalError | psycopg.OperationalError):
        # Without a state the error comes from libpq, which couldn't reach the server.
        return ErrorKind.AWAY if state else ErrorKind.LOST
    return ErrorKind.BUG


def sqlstate(error: Exception) -> str | None:
    """Return PostgreSQL's code for an error (five characters), or None."""
    return getattr(getattr(error, "orig", error), "sqlstate", None)
