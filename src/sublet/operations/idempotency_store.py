"""All SQL of `Idempotency-Key`."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import (
    JSON,
    Column,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
    bindparam,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError, OperationalError

from sublet.credits.model import Outcome
from sublet.db import Prepared, Tx
from sublet.errors import IdempotencyInProgress
from sublet.schema import BIG_ID, Instant, metadata, violates

KEPT_FOR = timedelta(hours=24)
"""The time for which a key is stored (docs/spec-choices.md)."""

_LOCK_NOT_AVAILABLE = "55P03"
idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("user_id", BIG_ID, nullable=False),
    Column("key", String(255), nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("status", Integer, nullable=False),
    Column("outcome", JSON(none_as_null=True)),
    Column("created_at", Instant, nullable=False),
    PrimaryKeyConstraint("user_id", "key", name="pk_idempotency_keys"),
)


class KeyTaken(Exception):  # noqa: N818 - no error: the caller tries again
    """Another process has committed the key since this transaction searched for it.

    A new transaction finds its outcome.
    """


class StoredOutcome(msgspec.Struct, frozen=True):
    """The stored outcome of a request with a key, with the request's fingerprint and the status of its
    answer.
    """

    fingerprint: str
    status: int
    outcome: Outcome


# These statements, which every request with a key runs, are built once, because building a statement takes
# longer than running it.
_SELECT_KEY = Prepared(
    select(idempotency_keys.c.fingerprint, idempotency_keys.c.status, idempotency_keys.c.outcome).where(
        idempotency_keys.c.user_id == bindparam("owner_id"),
        idempotency_keys.c.key == bindparam("sent_key"),
        idempotency_keys.c.created_at > bindparam("oldest"),
    )
)
_DELETE_EXPIRED = Prepared(
    delete(idempotency_keys).where(
        idempotency_keys.c.user_id == bindparam("owner_id"),
        idempotency_keys.c.created_at <= bindparam("oldest"),
    )
)
_INSERT_KEY = Prepared(insert(idempotency_keys))
_UPDATE_OUTCOME = Prepared(
    update(idempotency_keys)
    .where(
        idempotency_keys.c.user_id == bindparam("owner_id"), idempotency_keys.c.key == bindparam("sent_key")
    )
    .values(outcome=bindparam("result"))
)


def key_in_use_refusal() -> IdempotencyInProgress:
    """Return the refusal of a request while another request with its key is running."""
    return IdempotencyInProgress("This change is still running. Try again in a moment.")


def find_outcome(tx: Tx, user_id: int, key: str) -> StoredOutcome | None:
    """Return the outcome of the user's request with this key within the last 24 hours, or None."""
    row = _SELECT_KEY.one_or_none(tx, owner_id=user_id, sent_key=key, oldest=_oldest(tx.now))
    if row is None:
        return None
    fingerprint, status, outcome = row
    return StoredOutcome(fingerprint, status, msgspec.convert(outcome, Outcome))


def claim_key(tx: Tx, user_id: int, key: str, fingerprint: str, status: int) -> None:
    """Store a key before the verb runs, and delete the user's keys that are older than 24 hours.

    On PostgreSQL this waits for another process that has stored the key and hasn't committed. On SQLite
    writing transactions run one at a time, so this never waits.

    Raises:
        IdempotencyInProgress: the other process hasn't committed within the lock timeout.
        KeyTaken: the other process has committed.
    """
    _DELETE_EXPIRED.run(tx, owner_id=user_id, oldest=_oldest(tx.now))
    row = {
        "user_id": user_id,
        "key": key,
        "fingerprint": fingerprint,
        "status": status,
        "created_at": tx.now,
    }
    try:
        _INSERT_KEY.run(tx, **row)
    except IntegrityError as error:
        if violates(error, "pk_idempotency_keys"):
            raise KeyTaken from None
        raise
    except OperationalError as error:
        if getattr(error.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
            raise key_in_use_refusal() from None
        raise


def store_outcome(tx: Tx, user_id: int, key: str, outcome: Outcome) -> None:
    """Store the outcome under the key that was claimed in this transaction."""
    _UPDATE_OUTCOME.run(tx, owner_id=user_id, sent_key=key, result=_without_secret(outcome))


def _oldest(now: datetime) -> datetime:
    return now - KEPT_FOR


def _without_secret(outcome: Outcome) -> Any:
    return msgspec.to_builtins(Outcome(outcome.id, outcome.charged_credits, outcome.coupon))
