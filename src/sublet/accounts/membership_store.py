"""All SQL of memberships, and of the accounts of organizations."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Select, case, delete, func, insert, select, update

from sublet.accounts.model import OWNER, ROLES, Membership, Organization, Token, User
from sublet.accounts.store import contains_text, memberships, organizations, to_token, tokens, users
from sublet.db import Tx, insert_into
from sublet.ids import Position
from sublet.schema import older

_USER = tuple(users.c[name] for name in User.__struct_fields__)
_ORGANIZATION = tuple(organizations.c[name] for name in Organization.__struct_fields__)
_TOKEN = tuple(tokens.c[name] for name in Token.__struct_fields__)
_MEMBERSHIPS: Select[Any] = (
    select(*_USER, *_ORGANIZATION, memberships.c.role, memberships.c.created_at)
    .select_from(memberships)
    .join(users, users.c.id == memberships.c.user_id)
    .join(organizations, organizations.c.id == memberships.c.organization_id)
)


def _membership(row: Sequence[Any]) -> Membership:
    middle, last = len(_USER), len(_USER) + len(_ORGANIZATION)
    return Membership(User(*row[:middle]), Organization(*row[middle:last]), *row[last:])


def list_member_ids(tx: Tx, organization_id: int) -> list[int]:
    """Return the ids of the members of an organization, sorted."""
    query = select(memberships.c.user_id).where(memberships.c.organization_id == organization_id)
    return list(tx.connection.execute(query.order_by(memberships.c.user_id)).scalars())


def find_membership(tx: Tx, user_id: int, organization_id: int) -> Membership | None:
    """Return the membership of a user in an organization, or None."""
    of = (memberships.c.user_id == user_id) & (memberships.c.organization_id == organization_id)
    row = tx.connection.execute(_MEMBERSHIPS.where(of)).one_or_none()
    return _membership(row) if row is not None else None


def find_member_id(tx: Tx, organization_id: int, email: str) -> int | None:
    """Return the id of the member with this address, or None.

    Known and unknown addresses take the same single query.
    """
    of = (memberships.c.organization_id == organization_id) & (users.c.email == email)
    query = select(users.c.id).select_from(memberships.join(users)).where(of)
    return tx.connection.execute(query).scalar_one_or_none()


def list_memberships(
    tx: Tx,
    user_id: int,
    limit: int | None = None,
    after: Position | None = None,
    organization_id: int | None = None,
) -> list[Membership]:
    """Return the memberships of a user after a position, the newest organization first.

    `organization_id` selects one.
    """
    at, row_id = organizations.c.created_at, organizations.c.id
    query = _MEMBERSHIPS.where(memberships.c.user_id == user_id)
    if organization_id is not None:
        query = query.where(memberships.c.organization_id == organization_id)
    if after is not None:
        query = query.where(older(at, row_id, after))
    rows = tx.connection.execute(query.order_by(at.desc(), row_id.desc()).limit(limit))
    return [_membership(row) for row in rows]


def list_members(
    tx: Tx, organization_id: int, limit: int | None = None, after: Position | None = None
) -> list[Membership]:
    """Return the members of an organization after a position, the newest first."""
    at, row_id = memberships.c.created_at, memberships.c.user_id
    query = _MEMBERSHIPS.where(memberships.c.organization_id == organization_id)
    if after is not None:
        query = query.where(older(at, row_id, after))
    rows = tx.connection.execute(query.order_by(at.desc(), row_id.desc()).limit(limit))
    return [_membership(row) for row in rows]


def list_owners(tx: Tx, organization_id: int) -> list[User]:
    """Return the owners of an organization, the oldest member first."""
    of = (memberships.c.organization_id == organization_id) & (memberships.c.role == OWNER)
    query = select(*_USER).select_from(memberships.join(users)).where(of)
    rows = tx.connection.execute(query.order_by(memberships.c.created_at, users.c.id))
    return [User(*row) for row in rows]


def find_next_owner(tx: Tx, organization_id: int) -> User | None:
    """Return the member who becomes owner when the last owner leaves, or None without members.

    A member that isn't suspended is preferred, then the role with more rights, then the oldest member.
    """
    rank = case({role: number for number, role in enumerate(ROLES)}, value=memberships.c.role)
    query = (
        select(*_USER)
        .select_from(memberships.join(users))
        .where(memberships.c.organization_id == organization_id)
        .order_by(
            case((users.c.suspended_at.is_(None), 0), else_=1), rank, memberships.c.created_at, users.c.id
        )
        .limit(1)
    )
    row = tx.connection.execute(query).one_or_none()
    return User(*row) if row is not None else None


def search_organizations(tx: Tx, containing: str | None, limit: int) -> list[tuple[Organization, int]]:
    """Return up to `limit` organizations with their numbers of members, the newest first.

    `containing` is a part of the name or slug, in any case.
    """
    number = select(func.count()).where(memberships.c.organization_id == organizations.c.id).scalar_subquery()
    query = select(*(organizations.c[name] for name in Organization.__struct_fields__), number)
    if containing is not None:
        query = query.where(contains_text((organizations.c.name, organizations.c.slug), containing))
    rows = tx.connection.execute(query.order_by(organizations.c.id.desc()).limit(limit))
    return [(Organization(*row[:-1]), row[-1]) for row in rows]


def count_members(tx: Tx, organization_id: int) -> int:
    """Return the number of members of an organization."""
    query = select(func.count()).where(memberships.c.organization_id == organization_id)
    return int(tx.connection.execute(query).scalar_one())


def count_created_by(tx: Tx, user_id: int) -> int:
    """Return the number of organizations that a user has created over the API, including organizations that
    the user has left.
    """
    query = select(func.count()).where(organizations.c.created_by_user_id == user_id)
    return int(tx.connection.execute(query).scalar_one())


def insert_membership(tx: Tx, user_id: int, organization_id: int, role: str) -> bool:
    """Add a user to an organization. Return False, and keep the role, if the user is a member already."""
    row = {"user_id": user_id, "organization_id": organization_id, "role": role, "created_at": tx.now}
    added = insert_into(tx, memberships).values(row).on_conflict_do_nothing()
    return tx.connection.execute(added.returning(memberships.c.role)).first() is not None


def update_role(tx: Tx, user_id: int, organization_id: int, role: str) -> None:
    """Store the role of a member."""
    of = (memberships.c.user_id == user_id) & (memberships.c.organization_id == organization_id)
    tx.connection.execute(update(memberships).where(of).values(role=role))


def delete_membership(tx: Tx, user_id: int, organization_id: int) -> None:
    """Remove a member from an organization."""
    of = (memberships.c.user_id == user_id) & (memberships.c.organization_id == organization_id)
    tx.connection.execute(delete(memberships).where(of))


def list_valid_tokens(tx: Tx, user_id: int, organization_id: int) -> list[Token]:
    """Return a user's tokens for an organization that aren't revoked, the oldest first."""
    of = (tokens.c.user_id == user_id) & (tokens.c.organization_id == organization_id)
    query = select(*_TOKEN).where(of & tokens.c.revoked_at.is_(None)).order_by(tokens.c.id)
    return [to_token(row) for row in tx.connection.execute(query)]


def find_account(tx: Tx, organization_id: int) -> User | None:
    """Return the account of an organization. A user's own organization has no account: return None."""
    query = select(*_USER).where(users.c.is_organization & (users.c.organization_id == organization_id))
    row = tx.connection.execute(query).one_or_none()
    return User(*row) if row is not None else None


def list_account_ids(tx: Tx, organization_ids: Collection[int]) -> list[int]:
    """Return the ids of the accounts of these organizations. Users' own organizations have none."""
    of = users.c.is_organization & users.c.organization_id.in_(organization_ids)
    return list(tx.connection.execute(select(users.c.id).where(of)).scalars())


def insert_account(tx: Tx, organization: Organization, email: str) -> int:
    """Add the account of an organization, and return its id."""
    row = {
        "email": email,
        "name": organization.name,
        "organization_id": organization.id,
        "is_organization": True,
        "created_at": tx.now,
        "signed_up_at": tx.now,
    }
    return int(tx.connection.execute(insert(users).values(row).returning(users.c.id)).scalar_one())


def update_name(tx: Tx, organization_id: int, name: str) -> Organization:
    """Store a new name in an organization and in its account. The slug stays the same."""
    of_account = users.c.is_organization & (users.c.organization_id == organization_id)
    tx.connection.execute(update(users).where(of_account).values(name=name))
    changed = update(organizations).where(organizations.c.id == organization_id).values(name=name)
    return Organization(*tx.connection.execute(changed.returning(*_ORGANIZATION)).one())
