"""Store e-mail addresses in canonical form, and index the mails of an address.

Revision ID: 0021
Revises: 0020
"""

from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

import sublet.schema
from sublet.accounts.mailbox import InvalidAddress, canonical_address

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None
# Older code would look up addresses by other spellings than the stored ones.
compatible_with: tuple[str, ...] = ()

USERS = sa.table("users", *map(sa.column, ("id", "email", "deleted_at", "is_organization")))
EVENTS = sa.table(
    "audit_events",
    sa.column("at", sublet.schema.Instant()),
    *map(sa.column, ("actor_kind", "actor_name", "action", "object_type", "object_id", "owner_id")),
    sa.column("before", sa.JSON()),
    sa.column("after", sa.JSON()),
)
OTHERS = (
    ("mailed_codes", "email"),
    ("name_transfers", "recipient_email"),
    ("tickets", "requester_email"),
    ("mails", "recipient"),
)
"""The other columns with addresses."""


def upgrade() -> None:
    """Change addresses to their canonical form, with an event for each changed user.

    If several users have spellings of one address, one of them gets it: the user who has the canonical spelling already, or else the
    oldest. The others, and the rows with their spellings, stay unchanged. `sublet migrate` and the doctor list them.
    """
    op.create_index("ix_mails_recipient_created_at", "mails", ["recipient", "created_at"])
    bind = op.get_bind()
    kept = _change_users(bind)
    for name, column in OTHERS:
        table = sa.table(name, sa.column(column))
        stored = table.c[column]
        for spelling in (
            bind.execute(sa.select(stored).where(_is_other_spelling(stored)).distinct()).scalars().all()
        ):
            canonical = _canonical(spelling)
            if canonical not in (None, spelling) and spelling not in kept:
                bind.execute(sa.update(table).where(stored == spelling).values({column: canonical}))


def _change_users(bind: sa.Connection) -> set[str]:
    """Change the addresses of users. Return the spellings of users who keep them, because another user has got the address."""
    spellings: dict[str, list[tuple[int, str]]] = defaultdict(list)
    people = sa.select(USERS.c.id, USERS.c.email).where(
        USERS.c.deleted_at.is_(None) & ~USERS.c.is_organization
    )
    for user_id, email in bind.execute(people.order_by(USERS.c.id)):
        canonical = _canonical(email)
        if canonical is not None:
            spellings[canonical].append((user_id, email))
    kept: set[str] = set()
    for canonical, holders in spellings.items():
        first = next((each for each in holders if each[1] == canonical), holders[0])
        kept.update(email for user_id, email in holders if user_id != first[0])
        if first[1] != canonical:
            _change_user(bind, *first, canonical)
    return kept


def _change_user(bind: sa.Connection, user_id: int, email: str, canonical: str) -> None:
    bind.execute(sa.update(USERS).where(USERS.c.id == user_id).values(email=canonical))
    event = {
        "at": datetime.now(UTC),
        "actor_kind": "system",
        "actor_name": "migration",
        "action": "user.edit",
        "object_type": "user",
        "object_id": user_id,
        "owner_id": user_id,
        "before": {"email": email},
        "after": {"email": canonical},
    }
    bind.execute(sa.insert(EVENTS).values(event))


def _canonical(spelling: str) -> str | None:
    try:
        return canonical_address(spelling)
    except InvalidAddress:
        return None  # an erased address, or one that is too long in A-labels


def _is_other_spelling(column: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """Return a condition that every address with another canonical form meets: all addresses are in lower case, so it ends in a dot or isn't ASCII."""
    octets = (
        sa.func.length(sa.cast(column, sa.LargeBinary))
        if op.get_bind().dialect.name == "sqlite"
        else sa.func.octet_length(column)
    )
    return column.like("%.") | (octets != sa.func.length(column))
