"""All SQL of requests of programs for a token (RFC 8628)."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Boolean, Column, Index, String, Table, delete, func, insert, select, update

from sublet.db import Tx, delete_oldest
from sublet.schema import BIG_ID, Instant, metadata, recent
from sublet.sign_in.devices.model import PENDING, DeviceRequest

device_requests = Table(
    "device_requests",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("name", String, nullable=False),
    Column("address", String(45), nullable=False),
    Column("network", String(64), nullable=False),
    Column("device_code_digest", String(64), nullable=False, unique=True),
    Column("user_code_digest", String(64), nullable=False, unique=True),
    Column("state", String(16), nullable=False),
    Column("user_id", BIG_ID, index=True),
    Column("may_spend", Boolean, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False, index=True),
    Column("polled_at", Instant),
    Index("ix_device_requests_network_created_at", "network", "created_at"),
    sqlite_autoincrement=True,
)
KEPT_FOR = timedelta(hours=1)
"""How long an expired request is kept, so that the rate limit of its network counts it."""
_REQUEST = tuple(device_requests.c[name] for name in DeviceRequest.__struct_fields__)


def insert_request(tx: Tx, **values: object) -> None:
    """Add a request that waits for a person's decision."""
    row = {"state": PENDING, "may_spend": False, "created_at": tx.now, **values}
    tx.connection.execute(insert(device_requests).values(**row))


def has_user_code(tx: Tx, digest: str) -> bool:
    """True if a stored request, expired or not, has this code."""
    query = select(device_requests.c.id).where(device_requests.c.user_code_digest == digest)
    return tx.connection.execute(query).first() is not None


def count_of_network(tx: Tx, network: str, since: datetime) -> int:
    """Return the number of requests from a network since an instant."""
    of = (device_requests.c.network == network) & recent(device_requests.c.created_at, since, tx.now)
    return int(
        tx.connection.execute(select(func.count()).select_from(device_requests).where(of)).scalar_one()
    )


def find_by_device_code(tx: Tx, digest: str) -> DeviceRequest | None:
    """Return the request with this digest of the program's code, or None."""
    return _find(tx, device_requests.c.device_code_digest == digest)


def lock_by_device_code(tx: Tx, digest: str) -> DeviceRequest | None:
    """Return the request with this digest of the program's code, or None, and lock it."""
    return _find(tx, device_requests.c.device_code_digest == digest, is_locked=True)


def find_by_user_code(tx: Tx, digest: str) -> DeviceRequest | None:
    """Return the request with this digest of the person's code, or None."""
    return _find(tx, device_requests.c.user_code_digest == digest)


def lock_by_user_code(tx: Tx, digest: str) -> DeviceRequest | None:
    """Return the request with this digest of the person's code, or None, and lock it."""
    return _find(tx, device_requests.c.user_code_digest == digest, is_locked=True)


def _find(tx: Tx, condition: Any, *, is_locked: bool = False) -> DeviceRequest | None:
    query = select(*_REQUEST).where(condition)
    row = tx.connection.execute(query.with_for_update() if is_locked else query).one_or_none()
    return DeviceRequest(*row) if row is not None else None


def find_request(tx: Tx, request_id: int) -> DeviceRequest | None:
    """Return the device request with this id, or None."""
    return _find(tx, device_requests.c.id == request_id)


def update_request(tx: Tx, request_id: int, **values: object) -> None:
    """Update columns of a device request (RFC 8628)."""
    tx.connection.execute(update(device_requests).where(device_requests.c.id == request_id).values(**values))


def delete_expired(tx: Tx, limit: int) -> bool:
    """Delete up to `limit` requests that expired more than an hour ago.

    Return True if there may be more. The sweep calls this.
    """
    return delete_oldest(tx, device_requests.c.expires_at, tx.now - KEPT_FOR, limit)


def delete_of_user(tx: Tx, user_id: int) -> None:
    """Delete the requests that a user has decided. Deleting the user calls this."""
    tx.connection.execute(delete(device_requests).where(device_requests.c.user_id == user_id))
