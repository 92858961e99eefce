"""All SQL of mailed codes, solved challenges, and the key that signs challenges."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    Select,
    String,
    Table,
    bindparam,
    func,
    insert,
    select,
    update,
)

from sublet.accounts.model import OWNER
from sublet.accounts.store import memberships, organizations, users
from sublet.db import Pages, Query, Tx, delete_oldest, insert_into
from sublet.ids import Position
from sublet.schema import BIG_ID, Instant, metadata, older, recent
from sublet.sign_up.codes import MEMBERSHIP, VALID_FOR, MailedCode, NewCode, ReceivedInvitation

mailed_codes = Table(
    "mailed_codes",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("purpose", String(16), nullable=False),
    Column("email", String(254), nullable=False),
    Column("name", String, nullable=False),
    Column("organization_id", ForeignKey("organizations.id"), index=True),
    Column("network", String(64), nullable=False),
    Column("is_proven", Boolean, nullable=False),
    Column("code_digest", String(64), nullable=False),
    Column("link_digest", String(64), nullable=False, unique=True),
    Column("tries", Integer, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False, index=True),
    Column("used_at", Instant),
    Column("role", String(16)),
    Column("invited_by_user_id", BIG_ID),
    Column("user_id", BIG_ID, index=True),
    Index("ix_mailed_codes_email_created_at", "email", "created_at"),
    Index("ix_mailed_codes_network_created_at", "network", "created_at"),
    sqlite_autoincrement=True,
)
solved_challenges = Table(
    "solved_challenges",
    metadata,
    Column("signature", String(64), primary_key=True),
    Column("expires_at", Instant, nullable=False, index=True),
)
signing_keys = Table(
    "signing_keys",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("secret", String(64), nullable=False),
)
CHALLENGES = "challenges"
"""The name of the key that signs challenges. A migration creates the key."""
KEPT_FOR = timedelta(days=1)
"""How long an expired code is kept, so that the limits of its address and network count it."""

_CODE = tuple(mailed_codes.c[name] for name in MailedCode.__struct_fields__)


def _select_open_invitations(*columns: Any) -> Select[Any]:
    """Return the query of the invitations that are open at `now`: neither used nor expired, and sent by a
    user who is still an owner and not suspended.
    """
    sender = (memberships.c.user_id == mailed_codes.c.invited_by_user_id) & (
        memberships.c.organization_id == mailed_codes.c.organization_id
    )
    by_owner = (memberships.c.role == OWNER) & users.c.suspended_at.is_(None)
    now = bindparam("now", type_=Instant)
    is_open = mailed_codes.c.used_at.is_(None) & (mailed_codes.c.expires_at > now)
    query = select(*columns).join_from(mailed_codes, memberships, sender)
    query = query.join(users, users.c.id == memberships.c.user_id)
    return query.where((mailed_codes.c.purpose == MEMBERSHIP) & is_open & by_owner)


def _read_received(rows: Sequence[Sequence[Any]]) -> list[ReceivedInvitation]:
    return [ReceivedInvitation(*row) for row in rows]


_RECEIVED = _select_open_invitations(
    *(mailed_codes.c.id, organizations.c.id, organizations.c.name, organizations.c.slug, mailed_codes.c.role),
    *(users.c.name, users.c.email, mailed_codes.c.created_at, mailed_codes.c.expires_at),
).join(organizations, organizations.c.id == mailed_codes.c.organization_id)
_TO_EMAIL = mailed_codes.c.email == bindparam("email")
_RECEIVED_BY_EMAIL = Pages(
    _RECEIVED.where(_TO_EMAIL),
    mailed_codes.c.created_at,
    mailed_codes.c.id,
    _read_received,
)
_RECEIVED_BY_LINK = Query(
    _RECEIVED.where(mailed_codes.c.link_digest == bindparam("link_digest")), _read_received
)


RECEIVED_INVITATIONS = _select_open_invitations(mailed_codes.c.id, mailed_codes.c.created_at).where(_TO_EMAIL)
"""A query of the open invitations to the address `email` at `now`, for the stores of other tables."""


def find_signing_key(tx: Tx) -> str:
    """Return the secret that signs challenges, in hex."""
    query = select(signing_keys.c.secret).where(signing_keys.c.name == CHALLENGES)
    return str(tx.connection.execute(query).scalar_one())


def insert_solved_challenge(tx: Tx, signature: str, expires_at: datetime) -> bool:
    """Store that a challenge was used. Return False if it was used before."""
    row = {"signature": signature, "expires_at": expires_at}
    added = insert_into(tx, solved_challenges).values(row).on_conflict_do_nothing()
    return tx.connection.execute(added.returning(solved_challenges.c.signature)).first() is not None


def delete_expired(tx: Tx, limit: int) -> bool:
    """Delete up to `limit` challenges that have expired, and codes that expired more than a day ago.

    Return True if there may be more. The sweep calls this.
    """
    more_challenges = delete_oldest(tx, solved_challenges.c.expires_at, tx.now, limit)
    return delete_oldest(tx, mailed_codes.c.expires_at, tx.now - KEPT_FOR, limit) or more_challenges


def insert_code(
    tx: Tx,
    new: NewCode,
    purpose: str,
    email: str,
    *,
    name: str = "",
    network: str = "",
    is_proven: bool = True,
    **values: object,
) -> int:
    """Add a code that is valid from now on, and return its id.

    `is_proven` is false for a sign-up without a solved challenge.
    """
    row = {
        "purpose": purpose,
        "email": email,
        "name": name,
        "network": network,
        "is_proven": is_proven,
        "code_digest": new.code_digest,
        "link_digest": new.link_digest,
        "tries": 0,
        "created_at": tx.now,
        "expires_at": tx.now + VALID_FOR[purpose],
    }
    added = insert(mailed_codes).values(**row, **values).returning(mailed_codes.c.id)
    return int(tx.connection.execute(added).scalar_one())


class CodeRequest(NamedTuple):
    """The time at which a code was requested, and the network of the client."""

    at: datetime
    network: str


def list_requests_for(
    tx: Tx, email: str, purposes: Collection[str], since: datetime
) -> Sequence[CodeRequest]:
    """Return the requests of codes for these purposes and an address since an instant, the newest first."""
    at = mailed_codes.c.created_at
    query = select(at, mailed_codes.c.network).where(
        (mailed_codes.c.email == email) & mailed_codes.c.purpose.in_(purposes) & recent(at, since, tx.now)
    )
    return [CodeRequest(*row) for row in tx.connection.execute(query.order_by(at.desc()))]


def count_of_network(tx: Tx, network: str, purposes: Collection[str], since: datetime) -> tuple[int, int]:
    """Return the number of codes that a network requested since an instant, and the number without a solved
    challenge.
    """
    query = select(
        func.count(), func.coalesce(func.sum(func.cast(~mailed_codes.c.is_proven, Integer)), 0)
    ).where(
        (mailed_codes.c.network == network)
        & mailed_codes.c.purpose.in_(purposes)
        & recent(mailed_codes.c.created_at, since, tx.now)
    )
    row = tx.connection.execute(query).one()
    return int(row[0]), int(row[1])


def list_open_invitations(
    tx: Tx, organization_id: int, limit: int | None = None, after: Position | None = None
) -> list[MailedCode]:
    """Return the open invitations to an organization after a position, the newest first."""
    at, row_id = mailed_codes.c.created_at, mailed_codes.c.id
    query = _select_open_invitations(*_CODE).where(mailed_codes.c.organization_id == organization_id)
    if after is not None:
        query = query.where(older(at, row_id, after))
    query = query.order_by(at.desc(), row_id.desc()).limit(limit)
    return [MailedCode(*row) for row in tx.connection.execute(query, {"now": tx.now})]


def find_open_invitation(tx: Tx, code_id: int) -> MailedCode | None:
    """Return the open invitation to an organization with this id, or None."""
    query = _select_open_invitations(*_CODE).where(mailed_codes.c.id == code_id)
    row = tx.connection.execute(query, {"now": tx.now}).one_or_none()
    return MailedCode(*row) if row is not None else None


def list_received_invitations(
    tx: Tx, email: str, limit: int, after: Position | None = None
) -> list[ReceivedInvitation]:
    """Return the open invitations to an address after a position, the newest first."""
    return _RECEIVED_BY_EMAIL.read(tx, limit, after, email=email, now=tx.now)


def find_received_invitation(tx: Tx, link_digest: str) -> ReceivedInvitation | None:
    """Return the open invitation whose link's token has this digest, or None."""
    found = _RECEIVED_BY_LINK.run(tx, link_digest=link_digest, now=tx.now)
    return found[0] if found else None


def count_invitations(tx: Tx, since: datetime, *, organization_id: int | None = None, email: str = "") -> int:
    """Return the number of invitations that an organization sent, or an address got, since an instant."""
    of = (
        mailed_codes.c.email == email
        if organization_id is None
        else mailed_codes.c.organization_id == organization_id
    )
    query = select(func.count()).where(
        of & (mailed_codes.c.purpose == MEMBERSHIP) & recent(mailed_codes.c.created_at, since, tx.now)
    )
    return int(tx.connection.execute(query).scalar_one())


def count_of_user(tx: Tx, user_id: int, purpose: str, since: datetime) -> int:
    """Return the number of codes for a purpose that a user requested since an instant."""
    of_user = (mailed_codes.c.user_id == user_id) & (mailed_codes.c.purpose == purpose)
    query = select(func.count()).where(of_user & recent(mailed_codes.c.created_at, since, tx.now))
    return int(tx.connection.execute(query).scalar_one())


def count_tries_for(tx: Tx, email: str, purposes: Collection[str], since: datetime) -> int:
    """Return the number of wrong attempts at the codes of an address for these purposes that were requested
    since an instant.
    """
    of_address = (mailed_codes.c.email == email) & mailed_codes.c.purpose.in_(purposes)
    return _count_tries(tx, of_address, since)


def count_tries_of(tx: Tx, user_id: int, purpose: str, since: datetime) -> int:
    """Return the number of attempts at the unused codes of a user for a purpose that were requested since an
    instant.
    """
    of_user = (mailed_codes.c.user_id == user_id) & (mailed_codes.c.purpose == purpose)
    return _count_tries(tx, of_user & mailed_codes.c.used_at.is_(None), since)


def _count_tries(tx: Tx, of: ColumnElement[bool], since: datetime) -> int:
    query = select(func.coalesce(func.sum(mailed_codes.c.tries), 0))
    counted = of & recent(mailed_codes.c.created_at, since, tx.now)
    return int(tx.connection.execute(query.where(counted)).scalar_one())


def find_by_link(tx: Tx, link_digest: str) -> MailedCode | None:
    """Return the code whose link's token has this digest, or None.

    Lock its user, then the code (`lock_code`), before you use it.
    """
    return _newest(tx, mailed_codes.c.link_digest == link_digest)


def find_newest(tx: Tx, email: str, purposes: Collection[str]) -> MailedCode | None:
    """Return the newest code of an address for these purposes, or None.

    Lock its user, then the code (`lock_code`), before you use it.
    """
    return _newest(tx, (mailed_codes.c.email == email) & mailed_codes.c.purpose.in_(purposes))


def find_code(tx: Tx, code_id: int) -> MailedCode | None:
    """Return the code with this id, or None if it was deleted."""
    return _newest(tx, mailed_codes.c.id == code_id)


def lock_code(tx: Tx, code_id: int) -> MailedCode | None:
    """Return the code with this id, and lock it. Return None if it was deleted."""
    return _newest(tx, mailed_codes.c.id == code_id, is_locked=True)


def lock_newest_of_user(tx: Tx, user_id: int, purpose: str) -> MailedCode | None:
    """Return the newest code of a user for a purpose, or None, and lock it."""
    of_user = (mailed_codes.c.user_id == user_id) & (mailed_codes.c.purpose == purpose)
    return _newest(tx, of_user, is_locked=True)


def _newest(tx: Tx, condition: Any, *, is_locked: bool = False) -> MailedCode | None:
    query = select(*_CODE).where(condition).order_by(mailed_codes.c.id.desc()).limit(1)
    row = tx.connection.execute(query.with_for_update() if is_locked else query).one_or_none()
    return MailedCode(*row) if row is not None else None


def use_code(tx: Tx, code_id: int) -> None:
    """Mark a code as used."""
    tx.connection.execute(update(mailed_codes).where(mailed_codes.c.id == code_id).values(used_at=tx.now))


def count_try(tx: Tx, code_id: int) -> None:
    """Count an attempt to enter a code."""
    this = mailed_codes.c.id == code_id
    tx.connection.execute(update(mailed_codes).where(this).values(tries=mailed_codes.c.tries + 1))
