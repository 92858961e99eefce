"""Check users and tokens: their rows are what their events say."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import Table, select

from sublet.accounts.store import tokens, users
from sublet.audit import audit_events
from sublet.db import Tx
from sublet.doctor.lives import StreamById
from sublet.doctor.model import Violation
from sublet.schema import STREAMED

_REPLAYED = (
    ("user", users, ("email", "organization_id", "free_quota", "reminders")),
    ("token", tokens, ("user_id", "scopes", "names", "domains", "networks", "daily_credits", "expires_at")),
)


def check_accounts(tx: Tx) -> Iterator[Violation]:
    """Yield the users and tokens with a value that none of their events has given them."""
    for object_type, table, names in _REPLAYED:
        yield from _differing(tx, object_type, table, names)


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
