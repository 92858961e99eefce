"""All SQL of the accounts' invariants: each question finds the rows that break one."""

from collections.abc import Iterator

from sqlalchemy import select

from sublet.accounts.store import organizations, tokens, users
from sublet.audit import list_events_without_row, list_rows_without_event
from sublet.db import Tx
from sublet.invariants import Violation


def list_homeless(tx: Tx) -> Iterator[Violation]:
    """Which tokens are of no user, and which users of no organization?"""
    query = select(tokens.c.id, tokens.c.user_id).where(tokens.c.user_id.not_in(select(users.c.id)))
    for token_id, user_id in tx.connection.execute(query):
        yield Violation(
            "rows_belong_together", "token", token_id, f"it is of the user {user_id}, who is not there"
        )
    query = select(users.c.id, users.c.organization_id).where(
        users.c.organization_id.not_in(select(organizations.c.id))
    )
    for user_id, organization_id in tx.connection.execute(query):
        sentence = f"it is in the organization {organization_id}, which is not there"
        yield Violation("rows_belong_together", "user", user_id, sentence)


def list_unaudited(tx: Tx) -> Iterator[Violation]:
    """Which users, tokens and organizations, and what of them, does no event tell of? Of which that are gone does one?"""
    yield from list_rows_without_event(
        tx, "organization", organizations.c.id, organizations.c.created_at, ["organization.add"]
    )
    yield from list_rows_without_event(tx, "user", users.c.id, users.c.created_at, ["user.add"])
    yield from list_rows_without_event(
        tx, "user", users.c.id, users.c.suspended_at, ["user.suspend"], once=False
    )
    yield from list_rows_without_event(tx, "token", tokens.c.id, tokens.c.created_at, ["token.issue"])
    yield from list_rows_without_event(tx, "token", tokens.c.id, tokens.c.revoked_at, ["token.revoke"])
    for object_type, ids in (
        ("organization", organizations.c.id),
        ("user", users.c.id),
        ("token", tokens.c.id),
    ):
        yield from list_events_without_row(tx, object_type, ids)
