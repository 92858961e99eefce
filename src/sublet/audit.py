"""The audit: append-only; who did what, when, why, and the difference. One event a change, in its transaction."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Column, Index, String, Table, insert, select

from sublet.db import Tx
from sublet.schema import BIG_ID, Instant, metadata


@dataclass(frozen=True, slots=True)
class Actor:
    """Who does something: a user (with the token and request that carried it), the operator (by name), the system."""

    kind: str
    user_id: int | None = None
    token_id: int | None = None
    name: str | None = None
    request_id: str | None = None
    reason: str | None = None


SYSTEM = Actor(kind="system", name="worker")

audit_events = Table(
    "audit_events",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("at", Instant, nullable=False, index=True),
    Column("actor_kind", String(16), nullable=False),
    Column("user_id", BIG_ID),
    Column("token_id", BIG_ID),
    Column("actor_name", String),
    Column("request_id", String(64)),
    Column("reason", String),
    Column("action", String(64), nullable=False),
    Column("object_type", String(32), nullable=False),
    Column("object_id", BIG_ID, nullable=False),
    Column("before", JSON(none_as_null=True)),
    Column("after", JSON(none_as_null=True)),
    Index("ix_audit_events_object_type_object_id", "object_type", "object_id", "id"),
    sqlite_autoincrement=True,
)


def record(
    tx: Tx,
    actor: Actor,
    action: str,
    object_type: str,
    object_id: int,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Append one event: `action` is noun.verb ("subdomain.renew"), before and after hold what differs; no secrets."""
    tx.connection.execute(
        insert(audit_events).values(
            at=tx.now,
            actor_kind=actor.kind,
            user_id=actor.user_id,
            token_id=actor.token_id,
            actor_name=actor.name,
            request_id=actor.request_id,
            reason=actor.reason,
            action=action,
            object_type=object_type,
            object_id=object_id,
            before=dict(before) if before is not None else None,
            after=dict(after) if after is not None else None,
        )
    )


@dataclass(frozen=True, slots=True)
class Change:
    """What an event tells to those whom its object belongs to: what was done, when, by which kind of actor; not who, not why."""

    at: datetime
    action: str
    actor_kind: str


def list_changes(
    tx: Tx, object_type: str, object_id: int, actions: Collection[str], limit: int
) -> list[Change]:
    """Which of these actions were done to an object? The newest up to a limit, oldest first."""
    columns = (audit_events.c[name] for name in Change.__slots__)
    of_object = (audit_events.c.object_type == object_type) & (audit_events.c.object_id == object_id)
    query = (
        select(*columns)
        .where(of_object & audit_events.c.action.in_(sorted(actions)))
        .order_by(audit_events.c.id.desc())
        .limit(limit)
    )
    return [Change(*row) for row in tx.connection.execute(query)][::-1]
