"""All SQL of accounts: users, organizations and tokens."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    ForeignKey,
    Integer,
    String,
    Table,
    bindparam,
    func,
    insert,
    select,
    true,
    update,
)
from sqlalchemy.exc import IntegrityError

from sublet.accounts.model import Organization, Registrant, Token, User
from sublet.db import Prepared, Query, Tx
from sublet.errors import Conflict
from sublet.schema import BIG_ID, Instant, metadata, violates

organizations = Table(
    "organizations",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("name", String, nullable=False),
    Column("slug", String(64), nullable=False, unique=True),
    Column("created_at", Instant, nullable=False),
    sqlite_autoincrement=True,
)

users = Table(
    "users",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("email", String(254), nullable=False, unique=True),
    Column("name", String, nullable=False),
    Column("organization_id", ForeignKey("organizations.id"), nullable=False, index=True),
    Column("free_quota", Integer),
    Column("suspended_at", Instant),
    Column("suspended_reason", String),
    Column("created_at", Instant, nullable=False),
    Column("reminders", Boolean, nullable=False, server_default=true()),
    Column("deleted_at", Instant),
    Column("signed_up_at", Instant),
    sqlite_autoincrement=True,
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False, index=True),
    Column("name", String, nullable=False),
    Column("digest", String(64), nullable=False, unique=True),
    Column("scopes", JSON, nullable=False),
    Column("expires_at", Instant),
    Column("revoked_at", Instant),
    Column("last_used_at", Instant),
    Column("created_at", Instant, nullable=False),
    sqlite_autoincrement=True,
)

_USER = tuple(users.c[name] for name in User.__slots__)
_ORGANIZATION = tuple(organizations.c[name] for name in Organization.__slots__)
_TOKEN = tuple(tokens.c[name] for name in Token.__slots__)
_BY_ID = select(*_USER).where(users.c.id == bindparam("user_id"))
_USER_BY_ID = Prepared(_BY_ID)
# FOR NO KEY UPDATE, as for all our row locks. A transaction that writes a row which refers to this one takes FOR KEY SHARE on it,
# regardless of the order of our locks. FOR UPDATE would make it wait, and the two could deadlock.
_USER_LOCKED = Prepared(_BY_ID.with_for_update(key_share=True))
_USERS_LOCKED = Prepared(
    select(*_USER)
    .where(users.c.id.in_(bindparam("ids", expanding=True)))
    .order_by(users.c.id)
    .with_for_update(key_share=True)
)


def _token(row: Iterable[object]) -> Token:
    values = list(row)
    values[3] = tuple(values[3])  # type: ignore[arg-type] # JSON gives a list
    return Token(*values)  # type: ignore[arg-type]


def _user(row: Sequence[Any] | None) -> User | None:
    return User(*row) if row is not None else None


def _registrant(rows: Sequence[Sequence[Any]]) -> Registrant | None:
    if not rows:
        return None
    (row,), middle, last = rows, len(_USER), len(_USER) + len(_ORGANIZATION)
    return Registrant(User(*row[:middle]), Organization(*row[middle:last]), _token(row[last:]))


REGISTRANT_BY_DIGEST = Query(
    select(*_USER, *_ORGANIZATION, *_TOKEN)
    .select_from(tokens.join(users, users.c.id == tokens.c.user_id).join(organizations))
    .where(tokens.c.digest == bindparam("token_digest")),
    _registrant,
)
"""The user, organization and token with the digest `token_digest`; None if there is no such token."""


def lock_user(tx: Tx, user_id: int) -> User | None:
    """Return the user with this id, or None, and lock the row, so that changes of one user run one after the other."""
    return _user(_USER_LOCKED.one_or_none(tx, user_id=user_id))


def lock_users(tx: Tx, user_ids: Iterable[int]) -> dict[int, User]:
    """Return these users by id, and lock their rows in order of id. Every caller that locks several users does so in this order."""
    found = (User(*row) for row in _USERS_LOCKED.all(tx, ids=sorted(user_ids)))
    return {user.id: user for user in found}


def find_user(tx: Tx, user_id: int) -> User | None:
    """Return the user with this id, or None."""
    return _user(_USER_BY_ID.one_or_none(tx, user_id=user_id))


def find_user_by_email(tx: Tx, email: str) -> User | None:
    """Return the user with this address, or None. Addresses are stored in lower case."""
    return _user(tx.connection.execute(select(*_USER).where(users.c.email == email.lower())).one_or_none())


def count_users(tx: Tx) -> int:
    """Return the number of users."""
    return int(tx.connection.execute(select(func.count()).select_from(users)).scalar_one())


def list_users(tx: Tx) -> list[User]:
    """Return all users, the oldest first."""
    return [User(*row) for row in tx.connection.execute(select(*_USER).order_by(users.c.id))]


def insert_user(
    tx: Tx,
    email: str,
    name: str,
    organization_id: int,
    free_quota: int | None,
    signed_up_at: datetime | None = None,
) -> int:
    """Add a user, and return the id. `signed_up_at` is set for a user whom no operator added.

    Raises:
        Conflict: another transaction added this address first (`uq_users_email`).
    """
    row = {
        "email": email,
        "name": name,
        "organization_id": organization_id,
        "free_quota": free_quota,
        "signed_up_at": signed_up_at,
    }
    added = insert(users).values(**row, created_at=tx.now).returning(users.c.id)
    try:
        return int(tx.connection.execute(added).scalar_one())
    except IntegrityError as error:
        if violates(error, "uq_users_email"):
            raise Conflict(
                f"There is a user {email} already. Give another e-mail address, or change that user with `sublet user edit`."
            ) from error
        raise


def update_user(tx: Tx, user_id: int, **values: object) -> None:
    """Change columns of a user."""
    tx.connection.execute(update(users).where(users.c.id == user_id).values(**values))


def find_organization(tx: Tx, organization_id: int) -> Organization | None:
    """Return the organization with this id, or None."""
    query = select(*_ORGANIZATION).where(organizations.c.id == organization_id)
    row = tx.connection.execute(query).one_or_none()
    return Organization(*row) if row is not None else None


def find_organizations_by_name(tx: Tx, text: str) -> list[Organization]:
    """Return the organizations with this name or slug, in any case. On SQLite, non-ASCII letters match only in the case as stored."""
    wanted = text.lower()
    name, slug = organizations.c.name, organizations.c.slug
    matches = (name == text) | (func.lower(name) == wanted) | (slug == wanted)
    query = select(*_ORGANIZATION).where(matches).order_by(organizations.c.id)
    return [Organization(*row) for row in tx.connection.execute(query)]


def is_slug_taken(tx: Tx, slug: str) -> bool:
    """True if an organization has this slug."""
    query = select(organizations.c.id).where(organizations.c.slug == slug)
    return tx.connection.execute(query).first() is not None


def list_organizations(tx: Tx) -> dict[int, Organization]:
    """Return all organizations by id."""
    rows = tx.connection.execute(select(*_ORGANIZATION).order_by(organizations.c.id))
    return {row[0]: Organization(*row) for row in rows}


def insert_organization(tx: Tx, name: str, slug: str) -> Organization:
    """Add an organization. The database keeps slugs unique (`uq_organizations_slug`)."""
    added = insert(organizations).values(name=name, slug=slug, created_at=tx.now).returning(*_ORGANIZATION)
    return Organization(*tx.connection.execute(added).one())


def insert_token(
    tx: Tx, user_id: int, name: str, digest: str, scopes: Sequence[str], expires_at: datetime | None
) -> Token:
    """Add a token by its digest."""
    row = {
        "user_id": user_id,
        "name": name,
        "digest": digest,
        "scopes": list(scopes),
        "expires_at": expires_at,
    }
    added = insert(tokens).values(**row, created_at=tx.now).returning(*_TOKEN)
    return _token(tx.connection.execute(added).one())


def find_token(tx: Tx, token_id: int) -> Token | None:
    """Return the token with this id, or None."""
    row = tx.connection.execute(select(*_TOKEN).where(tokens.c.id == token_id)).one_or_none()
    return _token(row) if row is not None else None


def list_tokens(tx: Tx, user_id: int) -> list[Token]:
    """Return a user's tokens, the oldest first."""
    rows = tx.connection.execute(select(*_TOKEN).where(tokens.c.user_id == user_id).order_by(tokens.c.id))
    return [_token(row) for row in rows]


def revoke_token(tx: Tx, token_id: int) -> Token:
    """Mark a token as revoked, and return it."""
    changed = update(tokens).where(tokens.c.id == token_id).values(revoked_at=tx.now).returning(*_TOKEN)
    return _token(tx.connection.execute(changed).one())


_TOUCHED = Prepared(update(tokens).where(tokens.c.id == bindparam("of")).values(last_used_at=bindparam("at")))


def touch_tokens(tx: Tx, used_at: dict[int, datetime]) -> None:
    """Store when tokens were last used. Called now and then for many tokens, not at each request."""
    _TOUCHED.run_many(tx, [{"of": token_id, "at": at} for token_id, at in used_at.items()])
