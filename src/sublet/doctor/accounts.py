"""Check users and tokens, whose rows are what their events say, and the members of organizations."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import Table, exists, select

from sublet.accounts.roles import OWNER
from sublet.accounts.store import memberships, organizations, tokens, users
from sublet.audit import audit_events
from sublet.db import Tx
from sublet.doctor.lives import StreamById
from sublet.doctor.model import Violation, broken
from sublet.schema import STREAMED

_REPLAYED = (
    ("user", users, ("email", "organization_id", "free_quota", "reminders")),
    (
        "token",
        tokens,
        (
            "user_id",
            "organization_id",
            "scopes",
            "names",
            "domains",
            "networks",
            "daily_credits",
            "expires_at",
        ),
    ),
)


def check_accounts(tx: Tx) -> Iterator[Violation]:
    """Yield the users and tokens with a value that none of their events has given them, and what is wrong with members."""
    for object_type, table, names in _REPLAYED:
        yield from _differing(tx, object_type, table, names)
    yield from _check_members(tx)


def _check_members(tx: Tx) -> Iterator[Violation]:
    owners = select(memberships.c.organization_id).where(memberships.c.role == OWNER)
    query = select(memberships.c.organization_id.label("id")).distinct()
    query = query.where(memberships.c.organization_id.not_in(owners))
    yield from broken(tx, "members_are_right", "organization", query, "it has members, but no owner")
    query = select(users.c.id, users.c.organization_id).where(
        users.c.deleted_at.is_(None)
        & ~users.c.is_organization
        & ~exists().where(
            (memberships.c.user_id == users.c.id) & (memberships.c.organization_id == users.c.organization_id)
        )
    )
    sentence = "it is no member of its own organization {organization_id}"
    yield from broken(tx, "members_are_right", "user", query, sentence)
    gone = users.c.is_organization | users.c.deleted_at.is_not(None)
    query = select(users.c.id, memberships.c.organization_id).join(memberships).where(gone)
    sentence = "it is a member of the organization {organization_id}, but deleted or no person"
    yield from broken(tx, "members_are_right", "user", query, sentence)
    query = select(tokens.c.id, tokens.c.organization_id).where(
        tokens.c.organization_id.is_not(None)
        & tokens.c.revoked_at.is_(None)
        & ~exists().where(
            (memberships.c.user_id == tokens.c.user_id)
            & (memberships.c.organization_id == tokens.c.organization_id)
        )
    )
    sentence = "it is for the organization {organization_id}, of which its user is no member"
    yield from broken(tx, "members_are_right", "token", query, sentence)
    shared = select(users.c.organization_id).where(users.c.is_organization)
    query = select(users.c.id, users.c.organization_id).where(
        ~users.c.is_organization & users.c.organization_id.in_(shared)
    )
    sentence = "its own organization {organization_id} has an account"
    yield from broken(tx, "members_are_right", "user", query, sentence)
    query = select(users.c.id, users.c.organization_id).join(organizations)
    query = query.where(users.c.is_organization & (users.c.name != organizations.c.name))
    sentence = "this account has another name than its organization {organization_id}"
    yield from broken(tx, "members_are_right", "user", query, sentence)


def _differing(tx: Tx, object_type: str, table: Table, names: tuple[str, ...]) -> Iterator[Violation]:
    events = StreamById(_stream_events(tx, object_type))
    query = select(table.c.id, *(table.c[name] for name in names)).order_by(table.c.id)
    for row in tx.connection.execute(query.execution_options(**STREAMED)).mappings():
        given: dict[str, Any] = {}
        for after in events.take(row["id"]):
            given |= after
        for name in names:
            stored = row[name].isoformat() if isinstance(row[name], datetime) else row[name]
            if name in given and stored != given[name]:
                sentence = f"its {name} is {stored}, by its events {given[name]}"
                yield Violation("row_is_replayed", object_type, row["id"], sentence)


def _stream_events(tx: Tx, object_type: str) -> Iterator[tuple[int, dict[str, Any]]]:
    events = audit_events.c
    query = (
        select(events.object_id, events.after)
        .where(events.object_type == object_type)
        .order_by(events.object_id, events.id)
    )
    for object_id, after in tx.connection.execute(query.execution_options(**STREAMED)):
        yield object_id, after or {}
