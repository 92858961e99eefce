"""The SQL of transfers of names between users."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    String,
    Table,
    bindparam,
    case,
    func,
    insert,
    or_,
    select,
    update,
)

from sublet.accounts.model import User
from sublet.accounts.store import users, within_names
from sublet.db import Prepared, Tx
from sublet.ids import Position
from sublet.restrictions import Restrictions
from sublet.schema import BIG_ID, Instant, metadata, older, recent
from sublet.subdomains.store import subdomains
from sublet.subdomains.transfers.model import EXPIRED, PENDING, NameTransfer, TransferFilter

name_transfers = Table(
    "name_transfers",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("subdomain_id", ForeignKey("subdomains.id"), nullable=False),
    Column("from_user_id", ForeignKey("users.id"), nullable=False),
    Column("recipient_email", String(254), nullable=False),
    Column("to_user_id", ForeignKey("users.id")),
    Column("state", String(16), nullable=False),
    Column("is_mailed", Boolean, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("ended_at", Instant),
    CheckConstraint("(state = 'pending') = (ended_at IS NULL)", name="ended"),
    CheckConstraint(
        "(state IN ('accepted', 'declined')) = (to_user_id IS NOT NULL)",
        name="answered",
    ),
    Index("ix_name_transfers_from_user_id_created_at", "from_user_id", "created_at", "id"),
    Index("ix_name_transfers_recipient_email_created_at", "recipient_email", "created_at", "id"),
    Index("ix_name_transfers_to_user_id", "to_user_id"),
    sqlite_autoincrement=True,
)
IS_PENDING = name_transfers.c.state == PENDING
_NOT_ENDED = name_transfers.c.ended_at.is_(None)
"""Equivalent to `IS_PENDING`, but queries with this condition use the partial indexes."""
Index(
    "uq_name_transfers_subdomain_id_pending",
    name_transfers.c.subdomain_id,
    unique=True,
    sqlite_where=_NOT_ENDED,
    postgresql_where=_NOT_ENDED,
)
Index(
    "ix_name_transfers_expires_at_pending",
    name_transfers.c.expires_at,
    sqlite_where=_NOT_ENDED,
    postgresql_where=_NOT_ENDED,
)

_COMPUTED_COLUMNS = {
    "subdomain": subdomains.c.fqdn,
    "sender": case((users.c.is_organization, users.c.name), else_=users.c.email),
    "stored_state": name_transfers.c.state,
}
_COLUMNS = tuple(
    _COMPUTED_COLUMNS[name] if name in _COMPUTED_COLUMNS else name_transfers.c[name]
    for name in NameTransfer.__struct_fields__
)
# With outer joins, SQLite always starts with the transfers, which are few.
_TRANSFERS = select(*_COLUMNS).select_from(
    name_transfers.outerjoin(subdomains, subdomains.c.id == name_transfers.c.subdomain_id).outerjoin(
        users, users.c.id == name_transfers.c.from_user_id
    )
)
# Prepared, because a user or organization that is deleted asks for each of its names.
_PENDING_OF = Prepared(
    _TRANSFERS.where(_NOT_ENDED & name_transfers.c.subdomain_id.in_(bindparam("names", expanding=True)))
)


OPEN_OFFERS = select(name_transfers.c.id, name_transfers.c.created_at).where(
    _NOT_ENDED
    & (name_transfers.c.recipient_email == bindparam("email"))
    & (name_transfers.c.expires_at > bindparam("now", type_=Instant))
)
"""A query of the open offers to the address `email` at `now`, for the stores of other tables."""


def insert_transfer(tx: Tx, **values: object) -> int:
    """Store a pending transfer, and return its id. An index allows one pending transfer of a name."""
    added = insert(name_transfers).values(state=PENDING, created_at=tx.now, **values)
    return int(tx.connection.execute(added.returning(name_transfers.c.id)).scalar_one())


def find_transfer(tx: Tx, transfer_id: int) -> NameTransfer | None:
    """Return the transfer with this id, or None."""
    row = tx.connection.execute(_TRANSFERS.where(name_transfers.c.id == transfer_id)).one_or_none()
    return NameTransfer(*row) if row is not None else None


def list_pending(tx: Tx, subdomain_ids: Collection[int]) -> list[NameTransfer]:
    """Return the transfers of these names that are stored as pending, even if expired."""
    return [NameTransfer(*row) for row in _PENDING_OF.all(tx, names=list(subdomain_ids))]


def list_pending_of_sender(tx: Tx, user_id: int) -> list[NameTransfer]:
    """Return the transfers from a user that are stored as pending, even if expired."""
    return _read(tx, _TRANSFERS.where(_NOT_ENDED & (name_transfers.c.from_user_id == user_id)))


def list_pending_to(tx: Tx, emails: Collection[str]) -> list[NameTransfer]:
    """Return the transfers to these addresses that are stored as pending, even if expired."""
    return _read(tx, _TRANSFERS.where(_NOT_ENDED & name_transfers.c.recipient_email.in_(list(emails))))


def list_overdue(tx: Tx, limit: int) -> list[NameTransfer]:
    """Return up to `limit` transfers that are stored as pending but have expired, oldest first."""
    overdue = _NOT_ENDED & (name_transfers.c.expires_at <= tx.now)
    return _read(tx, _TRANSFERS.where(overdue).order_by(name_transfers.c.expires_at).limit(limit))


def _read(tx: Tx, query: Any) -> list[NameTransfer]:
    return [NameTransfer(*row) for row in tx.connection.execute(query)]


def end(tx: Tx, transfer_id: int, state: str, to_user_id: int | None = None) -> bool:
    """Store that a pending transfer has ended. Return False if another transaction ended it first."""
    this = (name_transfers.c.id == transfer_id) & IS_PENDING
    values = {"state": state, "to_user_id": to_user_id, "ended_at": tx.now}
    return tx.connection.execute(update(name_transfers).where(this).values(**values)).rowcount == 1


def is_of_user(user: User, holder: User | None = None) -> ColumnElement[bool]:
    """Return the SQL condition for transfers that `holder` sent, or that `user` received or answered for
    `holder`.

    `holder` defaults to `user`.
    """
    return or_(name_transfers.c.from_user_id == (holder or user).id, _received(user, holder or user))


def _received(user: User, holder: User) -> ColumnElement[bool]:
    unanswered = name_transfers.c.to_user_id.is_(None) & (name_transfers.c.recipient_email == user.email)
    return unanswered | (name_transfers.c.to_user_id == holder.id)


def list_own(
    tx: Tx,
    user: User,
    holder: User,
    restrictions: Restrictions,
    wanted: TransferFilter,
    limit: int,
    after: Position | None,
) -> list[NameTransfer]:
    """Return the transfers by `is_of_user` that match the filters and the token's
    restrictions, newest first.
    """
    columns = name_transfers.c
    by_direction = {"sent": columns.from_user_id == holder.id, "received": _received(user, holder)}
    query = _TRANSFERS.where(by_direction[wanted.direction] if wanted.direction else is_of_user(user, holder))
    query = query.where(within_names(restrictions, subdomains.c.fqdn))
    if wanted.state is not None:
        query = query.where(_in_state(wanted.state, tx.now))
    if after is not None:
        query = query.where(older(columns.created_at, columns.id, after))
    return _read(tx, query.order_by(columns.created_at.desc(), columns.id.desc()).limit(limit))


def _in_state(state: str, now: datetime) -> ColumnElement[bool]:
    """Return the rule `NameTransfer.state_at` as an SQL condition."""
    columns = name_transfers.c
    if state == PENDING:
        return IS_PENDING & (columns.expires_at > now)
    if state == EXPIRED:
        return (columns.state == EXPIRED) | (IS_PENDING & (columns.expires_at <= now))
    return columns.state == state


def list_transfer_start_times(tx: Tx, user_id: int, since: datetime) -> Sequence[datetime]:
    """Return the times at which a user started transfers after an instant, newest first."""
    at = name_transfers.c.created_at
    started = (name_transfers.c.from_user_id == user_id) & recent(at, since, tx.now)
    return tx.connection.execute(select(at).where(started).order_by(at.desc())).scalars().all()


def count_mailed(tx: Tx, email: str, since: datetime, from_user_id: int | None = None) -> int:
    """Return the number of offers mailed to an address after an instant, from one user or from all users."""
    columns = name_transfers.c
    query = select(func.count()).where(
        (columns.recipient_email == email) & recent(columns.created_at, since, tx.now) & columns.is_mailed
    )
    if from_user_id is not None:
        query = query.where(columns.from_user_id == from_user_id)
    return int(tx.connection.execute(query).scalar_one())
