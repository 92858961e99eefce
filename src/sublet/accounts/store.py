"""All SQL of accounts: users, organizations and tokens."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

from msgspec.structs import asdict
from sqlalchemy import (
    JSON,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    and_,
    bindparam,
    false,
    func,
    insert,
    or_,
    select,
    true,
    update,
)

from sublet.accounts.fields import canonical_part
from sublet.accounts.model import Member, Organization, Registrant, Token, User
from sublet.db import Prepared, Query, Tx, in_batches, insert_into
from sublet.ids import Position
from sublet.restrictions import Restrictions
from sublet.schema import BIG_ID, STREAMED, Instant, metadata, older

organizations = Table(
    "organizations",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("name", String, nullable=False),
    Column("slug", String(64), nullable=False, unique=True),
    Column("created_at", Instant, nullable=False),
    Column("created_by_user_id", BIG_ID, index=True),
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
    Column("is_organization", Boolean, nullable=False, server_default=false()),
    sqlite_autoincrement=True,
)
Index(
    "uq_users_organization_id_account",
    users.c.organization_id,
    unique=True,
    sqlite_where=users.c.is_organization,
    postgresql_where=users.c.is_organization,
)

memberships = Table(
    "memberships",
    metadata,
    Column("user_id", ForeignKey("users.id"), primary_key=True, autoincrement=False),
    Column(
        "organization_id", ForeignKey("organizations.id"), primary_key=True, autoincrement=False, index=True
    ),
    Column("role", String(16), nullable=False),
    Column("created_at", Instant, nullable=False),
    CheckConstraint("role IN ('owner', 'member', 'billing', 'viewer')", name="role"),
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
    Column("names", JSON(none_as_null=True)),
    Column("domains", JSON(none_as_null=True)),
    Column("networks", JSON(none_as_null=True)),
    Column("daily_credits", BIG_ID),
    Column("last_used_from", String(45)),
    Column("creator_token_id", BIG_ID),
    Column("budget_token_id", BIG_ID),
    Column("former_digest", String(64)),
    Column("former_until", Instant),
    Column("organization_id", BIG_ID, index=True),
    Column("record_names", JSON(none_as_null=True)),
    Column("is_update_key", Boolean, nullable=False, server_default=false()),
    Index("uq_tokens_former_digest", "former_digest", unique=True),
    sqlite_autoincrement=True,
)

_USER = tuple(users.c[name] for name in User.__struct_fields__)
_ORGANIZATION = tuple(organizations.c[name] for name in Organization.__struct_fields__)
_TOKEN = tuple(tokens.c[name] for name in Token.__struct_fields__)
_BY_ID = select(*_USER).where(users.c.id == bindparam("user_id"))
_USER_BY_ID = Prepared(_BY_ID)
# All our row locks are FOR NO KEY UPDATE. A transaction that inserts a row with a foreign key to a user takes
# FOR KEY SHARE on the user, regardless of the order of our locks. FOR UPDATE would block that transaction,
# and the two could deadlock.
_USER_LOCKED = Prepared(_BY_ID.with_for_update(key_share=True))
_USERS_LOCKED = Prepared(
    select(*_USER)
    .where(users.c.id.in_(bindparam("ids", expanding=True)))
    .order_by(users.c.id)
    .with_for_update(key_share=True)
)


def to_token(row: Iterable[object]) -> Token:
    """Return the token that a row with the columns of `_TOKEN` describes."""
    return Token(*(tuple(value) if isinstance(value, list) else value for value in row))  # type: ignore[arg-type] # JSON gives lists


def _user(row: Sequence[Any] | None) -> User | None:
    return User(*row) if row is not None else None


def _registrant(rows: Sequence[Sequence[Any]]) -> Registrant | None:
    if not rows:
        return None
    values = iter(rows[0])
    user, organization, token, account = (
        tuple(islice(values, len(columns))) for columns in (_USER, _ORGANIZATION, _TOKEN, _USER)
    )
    return Registrant(
        User(*user),
        Organization(*organization),
        to_token(token),
        User(*account) if account[0] is not None else None,
        next(values),
    )


_HAS_FORMER_SECRET = (tokens.c.former_digest == bindparam("token_digest")) & (
    tokens.c.former_until > bindparam("at", type_=Instant)
)
_ACCOUNT = users.alias("account")
_REGISTRANTS = select(
    *_USER,
    *_ORGANIZATION,
    *_TOKEN,
    *(_ACCOUNT.c[name] for name in User.__struct_fields__),
    memberships.c.role,
).select_from(
    tokens.join(users, users.c.id == tokens.c.user_id)
    .join(
        organizations,
        organizations.c.id == func.coalesce(tokens.c.organization_id, users.c.organization_id),
    )
    .outerjoin(
        _ACCOUNT, (_ACCOUNT.c.organization_id == tokens.c.organization_id) & _ACCOUNT.c.is_organization
    )
    .outerjoin(
        memberships,
        (memberships.c.organization_id == tokens.c.organization_id)
        & (memberships.c.user_id == tokens.c.user_id),
    )
)
REGISTRANT_BY_DIGEST = Query(_REGISTRANTS.where(tokens.c.digest == bindparam("token_digest")), _registrant)
"""The registrant of the token whose secret has the digest `token_digest`, or None.

The role and the account are None if the token acts for its user.
"""
REGISTRANT_BY_UPDATE_KEY = Query(
    _REGISTRANTS.where((tokens.c.id == bindparam("token_id")) & tokens.c.is_update_key), _registrant
)
"""The registrant of the update key with the id `token_id`, or None."""
REGISTRANT_BY_FORMER_DIGEST = Query(_REGISTRANTS.where(_HAS_FORMER_SECRET), _registrant)
"""The registrant of the token whose secret with this digest was replaced, and whose overlap hasn't ended `at`
an instant, or None.
"""


def lock_user(tx: Tx, user_id: int) -> User | None:
    """Return the user with this id, or None, and lock the row until the end of the transaction."""
    return _user(_USER_LOCKED.one_or_none(tx, user_id=user_id))


def lock_users(tx: Tx, user_ids: Iterable[int]) -> dict[int, User]:
    """Return these users by id, and lock their rows in order of id. The order prevents deadlocks."""
    found = (User(*row) for row in _USERS_LOCKED.all(tx, ids=sorted(user_ids)))
    return {user.id: user for user in found}


def find_user(tx: Tx, user_id: int) -> User | None:
    """Return the user with this id, or None."""
    return _user(_USER_BY_ID.one_or_none(tx, user_id=user_id))


_ROLE = Prepared(
    select(memberships.c.role).where(
        (memberships.c.user_id == bindparam("of")) & (memberships.c.organization_id == bindparam("within"))
    )
)


def find_role(tx: Tx, user_id: int, organization_id: int) -> str | None:
    """Return the role of a user in an organization, or None if the user isn't a member."""
    row = _ROLE.one_or_none(tx, of=user_id, within=organization_id)
    return row[0] if row is not None else None


def find_user_by_email(tx: Tx, email: str) -> User | None:
    """Return the user with this address in its canonical form (`fields.canonical_address`), or None."""
    return _user(tx.connection.execute(select(*_USER).where(users.c.email == email)).one_or_none())


def count_users(tx: Tx) -> int:
    """Return the number of users, without the accounts of organizations.

    `sublet backup` also reads schemas without `is_organization`.
    """
    query = select(func.count()).select_from(users).where(~users.c.email.startswith("organization:"))
    return int(tx.connection.execute(query).scalar_one())


def search_users(tx: Tx, containing: str | None, limit: int) -> list[Member]:
    """Return up to `limit` users that are not deleted, the newest first.

    `containing` is a part of the address in any spelling of whole labels, or of the name, the organization's
    name or slug, in any case.
    """
    query = select(*_USER, *_ORGANIZATION).join_from(users, organizations)
    query = query.where(users.c.deleted_at.is_(None) & ~users.c.is_organization)
    if containing is not None:
        named = (users.c.name, organizations.c.name, organizations.c.slug)
        query = query.where(
            contains_text((users.c.email,), canonical_part(containing)) | contains_text(named, containing)
        )
    rows = tx.connection.execute(query.order_by(users.c.id.desc()).limit(limit))
    return [Member(User(*row[: len(_USER)]), Organization(*row[len(_USER) :])) for row in rows]


def contains_text(columns: Iterable[ColumnElement[str]], text: str) -> ColumnElement[bool]:
    """Return the condition that one of these columns contains a text, in any case.

    On PostgreSQL, the locale of the database decides about letters that aren't ASCII.
    """
    return or_(*(func.lower(each).contains(text.lower(), autoescape=True) for each in columns))


def find_emails(tx: Tx, user_ids: Iterable[int]) -> dict[int, str]:
    """Return the addresses of these users by id."""
    found: dict[int, str] = {}
    for some in in_batches(sorted(set(user_ids))):
        query = select(users.c.id, users.c.email).where(users.c.id.in_(some))
        found |= {row.id: row.email for row in tx.connection.execute(query)}
    return found


def insert_user(
    tx: Tx,
    email: str,
    name: str,
    organization_id: int,
    free_quota: int | None,
    signed_up_at: datetime | None = None,
) -> int:
    """Add a user, and return the id.

    `signed_up_at` is None for a user whom an operator added. Addresses are unique (`uq_users_email`).
    """
    row = {
        "email": email,
        "name": name,
        "organization_id": organization_id,
        "free_quota": free_quota,
        "signed_up_at": signed_up_at,
    }
    added = insert(users).values(**row, created_at=tx.now).returning(users.c.id)
    return int(tx.connection.execute(added).scalar_one())


def update_user(tx: Tx, user_id: int, **values: object) -> None:
    """Change columns of a user."""
    tx.connection.execute(update(users).where(users.c.id == user_id).values(**values))


def find_organization(tx: Tx, organization_id: int) -> Organization | None:
    """Return the organization with this id, or None."""
    query = select(*_ORGANIZATION).where(organizations.c.id == organization_id)
    row = tx.connection.execute(query).one_or_none()
    return Organization(*row) if row is not None else None


def find_organizations_by_name(tx: Tx, text: str) -> list[Organization]:
    """Return the organizations with this name or slug, in any case."""
    wanted = text.lower()
    name, slug = organizations.c.name, organizations.c.slug
    matches = (name == text) | (func.lower(name) == wanted) | (slug == wanted)
    query = select(*_ORGANIZATION).where(matches).order_by(organizations.c.id)
    return [Organization(*row) for row in tx.connection.execute(query)]


def list_organizations(tx: Tx) -> dict[int, Organization]:
    """Return all organizations by id."""
    rows = tx.connection.execute(select(*_ORGANIZATION).order_by(organizations.c.id))
    return {row[0]: Organization(*row) for row in rows}


def insert_organization(
    tx: Tx, name: str, slug: str, created_by_user_id: int | None = None
) -> Organization | None:
    """Add an organization. Return None if another organization has the slug (`uq_organizations_slug`)."""
    row = {"name": name, "slug": slug, "created_at": tx.now, "created_by_user_id": created_by_user_id}
    added = insert_into(tx, organizations).values(**row).on_conflict_do_nothing(index_elements=["slug"])
    inserted = tx.connection.execute(added.returning(*_ORGANIZATION)).one_or_none()
    return Organization(*inserted) if inserted is not None else None


def lock_organizations(tx: Tx, organization_ids: Iterable[int]) -> None:
    """Lock these organizations in order of id, so that their members stay the same. Lock users first."""
    query = select(organizations.c.id).where(organizations.c.id.in_(list(organization_ids)))
    tx.connection.execute(query.order_by(organizations.c.id).with_for_update(key_share=True)).all()


def insert_token(
    tx: Tx,
    user_id: int,
    name: str,
    digest: str,
    restrictions: Restrictions,
    *,
    creator_token_id: int | None = None,
    budget_token_id: int | None = None,
    organization_id: int | None = None,
    is_update_key: bool = False,
) -> Token:
    """Add a token by its digest."""
    row = {
        "user_id": user_id,
        "name": name,
        "digest": digest,
        "creator_token_id": creator_token_id,
        "budget_token_id": budget_token_id,
        "organization_id": organization_id,
        "is_update_key": is_update_key,
    }
    added = insert(tokens).values(**row, **restriction_columns(restrictions), created_at=tx.now)
    return to_token(tx.connection.execute(added.returning(*_TOKEN)).one())


def restriction_columns(restrictions: Restrictions) -> dict[str, Any]:
    """Return restrictions as the columns of a token."""
    values = asdict(restrictions)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def find_token(tx: Tx, token_id: int) -> Token | None:
    """Return the token with this id, or None."""
    row = tx.connection.execute(select(*_TOKEN).where(tokens.c.id == token_id)).one_or_none()
    return to_token(row) if row is not None else None


def find_token_by_digest(tx: Tx, digest: str) -> Token | None:
    """Return the token whose secret has this digest, or None.

    A replaced secret works until its overlap ends.
    """
    query = select(*_TOKEN).where(or_(tokens.c.digest == bindparam("token_digest"), _HAS_FORMER_SECRET))
    row = tx.connection.execute(query, {"token_digest": digest, "at": tx.now}).one_or_none()
    return to_token(row) if row is not None else None


def list_tokens(tx: Tx, user_id: int) -> list[Token]:
    """Return a user's tokens, the oldest first."""
    rows = tx.connection.execute(select(*_TOKEN).where(tokens.c.user_id == user_id).order_by(tokens.c.id))
    return [to_token(row) for row in rows]


def stream_tokens(tx: Tx, user_id: int, after: Position | None) -> Iterator[Token]:
    """Yield a user's tokens after a position, the newest first."""
    query = select(*_TOKEN).where(tokens.c.user_id == user_id)
    if after is not None:
        query = query.where(older(tokens.c.created_at, tokens.c.id, after))
    query = query.order_by(tokens.c.created_at.desc(), tokens.c.id.desc())
    # A page ends before the last row. Without `with`, its cursor stays open on PostgreSQL.
    with tx.connection.execute(query.execution_options(**STREAMED)) as rows:
        for row in rows:
            yield to_token(row)


def list_created_by(tx: Tx, token_ids: Iterable[int]) -> list[Token]:
    """Return the tokens that were created with one of these tokens, the oldest first."""
    created = tokens.c.creator_token_id.in_(list(token_ids))
    return [
        to_token(row) for row in tx.connection.execute(select(*_TOKEN).where(created).order_by(tokens.c.id))
    ]


def count_live_tokens(tx: Tx, user_id: int) -> int:
    """Return the number of a user's tokens that are neither revoked nor expired."""
    live = tokens.c.revoked_at.is_(None) & (tokens.c.expires_at.is_(None) | (tokens.c.expires_at > tx.now))
    query = select(func.count()).select_from(tokens).where((tokens.c.user_id == user_id) & live)
    return int(tx.connection.execute(query).scalar_one())


def update_token(tx: Tx, token_id: int, **values: object) -> Token:
    """Change columns of a token, and return it."""
    changed = update(tokens).where(tokens.c.id == token_id).values(**values).returning(*_TOKEN)
    return to_token(tx.connection.execute(changed).one())


def replace_secret(tx: Tx, token_id: int, digest: str, former_until: datetime) -> Token:
    """Store the digest of a token's new secret.

    The present secret stays valid until `former_until`; the secret before it becomes invalid.
    """
    return update_token(tx, token_id, digest=digest, former_digest=tokens.c.digest, former_until=former_until)


class Use(NamedTuple):
    """The last use of a token or session: its time, and the client's address if it is known."""

    at: datetime
    address: str | None


_UPDATE_USE = Prepared(
    update(tokens)
    .where(tokens.c.id == bindparam("of"))
    .values(last_used_at=bindparam("at"), last_used_from=bindparam("address"))
)


def touch_tokens(tx: Tx, uses: dict[int, Use]) -> None:
    """Store when and from which addresses tokens were last used.

    Called for many tokens at a time, not at each request.
    """
    # Sorted, because two processes may store uses of the same tokens at the same time.
    _UPDATE_USE.run_many(tx, [{"of": token_id, **use._asdict()} for token_id, use in sorted(uses.items())])


def within_names(restrictions: Restrictions, fqdn: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition of `Restrictions.allows_name` in SQL. A test compares the two."""
    conditions: list[ColumnElement[bool]] = [true()]
    if restrictions.names is not None:
        below = [each.removeprefix("*") for each in restrictions.names if each.startswith("*.")]
        conditions.append(
            or_(fqdn.in_(restrictions.names), *(fqdn.endswith(each, autoescape=True) for each in below))
        )
    if restrictions.domains is not None:
        conditions.append(
            or_(
                *(
                    fqdn.endswith(f".{each}", autoescape=True) & fqdn.not_like(f"%.%.{each}")
                    for each in restrictions.domains
                )
            )
        )
    return and_(*conditions)
