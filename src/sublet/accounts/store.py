"""All SQL of accounts: one function a question, columns listed."""

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

_USER = (
    users.c.id,
    users.c.email,
    users.c.name,
    users.c.organization_id,
    users.c.free_quota,
    users.c.suspended_at,
    users.c.suspended_reason,
    users.c.created_at,
    users.c.reminders,
)
_ORGANIZATION = (organizations.c.id, organizations.c.name, organizations.c.slug, organizations.c.created_at)
_TOKEN = (
    tokens.c.id,
    tokens.c.user_id,
    tokens.c.name,
    tokens.c.scopes,
    tokens.c.expires_at,
    tokens.c.revoked_at,
    tokens.c.last_used_at,
    tokens.c.created_at,
)
# Asked at every request, so they are built once: building a statement takes longer than running it.
_BY_ID = select(*_USER).where(users.c.id == bindparam("user_id"))
_USER_BY_ID = Prepared(_BY_ID)
# FOR NO KEY UPDATE, as with every row that is locked: whoever writes a row that refers to this one locks it FOR KEY SHARE (also when
# changing such a row twice), without regard to the order of our locks. That must not wait for this, or they would deadlock.
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
    users_end = len(_USER)
    organization_end = users_end + len(_ORGANIZATION)
    (row,) = rows
    return Registrant(
        User(*row[:users_end]), Organization(*row[users_end:organization_end]), _token(row[organization_end:])
    )


REGISTRANT_BY_DIGEST = Query(
    select(*_USER, *_ORGANIZATION, *_TOKEN)
    .select_from(tokens.join(users, users.c.id == tokens.c.user_id).join(organizations))
    .where(tokens.c.digest == bindparam("token_digest")),
    _registrant,
)
"""Which user, organization and token belong to the `token_digest`? None if no token has it."""


def lock_user(tx: Tx, user_id: int) -> User | None:
    """Who is this user? Locked, so that everything of one user happens in order (PostgreSQL; SQLite has one writer)."""
    return _user(_USER_LOCKED.one_or_none(tx, user_id=user_id))


def lock_users(tx: Tx, user_ids: Iterable[int]) -> dict[int, User]:
    """Who are these users, by id? Locked as by `lock_user`, in the one order in which whoever locks several of them does."""
    found = (User(*row) for row in _USERS_LOCKED.all(tx, ids=sorted(user_ids)))
    return {user.id: user for user in found}


def find_user(tx: Tx, user_id: int) -> User | None:
    """Who is the user with this id?"""
    return _user(_USER_BY_ID.one_or_none(tx, user_id=user_id))


def find_user_by_email(tx: Tx, email: str) -> User | None:
    """Who is the user with this address? Addresses are stored in lower case."""
    return _user(tx.connection.execute(select(*_USER).where(users.c.email == email.lower())).one_or_none())


def count_users(tx: Tx) -> int:
    """How many users are there?"""
    return int(tx.connection.execute(select(func.count()).select_from(users)).scalar_one())


def list_users(tx: Tx) -> list[User]:
    """Which users are there? Oldest first."""
    return [User(*row) for row in tx.connection.execute(select(*_USER).order_by(users.c.id))]


def insert_user(tx: Tx, email: str, name: str, organization_id: int, free_quota: int | None) -> int:
    """Add a user.

    Raises:
        Conflict: another process was faster with the same address, which is the database's to hold (`uq_users_email`).
    """
    added = insert(users).values(
        email=email,
        name=name,
        organization_id=organization_id,
        free_quota=free_quota,
        created_at=tx.now,
    )
    try:
        return int(tx.connection.execute(added.returning(users.c.id)).scalar_one())
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
    """Which organization has this id?"""
    row = tx.connection.execute(
        select(*_ORGANIZATION).where(organizations.c.id == organization_id)
    ).one_or_none()
    return Organization(*row) if row is not None else None


def find_organizations_by_name(tx: Tx, text: str) -> list[Organization]:
    """Which organizations have this name or slug (any case; beyond ASCII, SQLite knows only the case that is written)?"""
    wanted = text.lower()
    rows = tx.connection.execute(
        select(*_ORGANIZATION)
        .where(
            (organizations.c.name == text)
            | (func.lower(organizations.c.name) == wanted)
            | (organizations.c.slug == wanted)
        )
        .order_by(organizations.c.id)
    )
    return [Organization(*row) for row in rows]


def is_slug_taken(tx: Tx, slug: str) -> bool:
    """Does an organization have this slug?"""
    query = select(organizations.c.id).where(organizations.c.slug == slug)
    return tx.connection.execute(query).first() is not None


def list_organizations(tx: Tx) -> dict[int, Organization]:
    """Which organizations are there? By id."""
    rows = tx.connection.execute(select(*_ORGANIZATION).order_by(organizations.c.id))
    return {row[0]: Organization(*row) for row in rows}


def insert_organization(tx: Tx, name: str, slug: str) -> Organization:
    """Add an organization; the unique slug is the database's to hold (`uq_organizations_slug`)."""
    organization_id = tx.connection.execute(
        insert(organizations).values(name=name, slug=slug, created_at=tx.now).returning(organizations.c.id)
    ).scalar_one()
    return Organization(organization_id, name, slug, tx.now)


def insert_token(
    tx: Tx, user_id: int, name: str, token_digest: str, scopes: tuple[str, ...], expires_at: datetime | None
) -> int:
    """Add a token's digest."""
    return int(
        tx.connection.execute(
            insert(tokens)
            .values(
                user_id=user_id,
                name=name,
                digest=token_digest,
                scopes=list(scopes),
                expires_at=expires_at,
                created_at=tx.now,
            )
            .returning(tokens.c.id)
        ).scalar_one()
    )


def find_token(tx: Tx, token_id: int) -> Token | None:
    """Which token has this id?"""
    row = tx.connection.execute(select(*_TOKEN).where(tokens.c.id == token_id)).one_or_none()
    return _token(row) if row is not None else None


def list_tokens(tx: Tx, user_id: int) -> list[Token]:
    """Which tokens does this user have? Oldest first."""
    rows = tx.connection.execute(select(*_TOKEN).where(tokens.c.user_id == user_id).order_by(tokens.c.id))
    return [_token(row) for row in rows]


def revoke_token(tx: Tx, token_id: int) -> None:
    """Mark a token as revoked from now on."""
    tx.connection.execute(update(tokens).where(tokens.c.id == token_id).values(revoked_at=tx.now))


_TOUCHED = Prepared(update(tokens).where(tokens.c.id == bindparam("of")).values(last_used_at=bindparam("at")))


def touch_tokens(tx: Tx, used_at: dict[int, datetime]) -> None:
    """Store when tokens were last used; called now and then with what was gathered, not at each request."""
    _TOUCHED.run_many(tx, [{"of": token_id, "at": at} for token_id, at in used_at.items()])
