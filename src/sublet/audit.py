"""The audit: one append-only event for each change, in its transaction, with actor, time, reason and difference."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Column,
    ForeignKey,
    Index,
    Integer,
    Select,
    String,
    Table,
    bindparam,
    insert,
    select,
)

from sublet.db import Prepared, Tx
from sublet.restrictions import UNRESTRICTED, Restrictions
from sublet.schema import BIG_ID, Instant, metadata

ACTOR_KINDS = ("user", "operator", "system")


@dataclass(frozen=True, slots=True)
class Actor:
    """The actor of a request: a user (with token or session, restrictions and request), the operator (by name), or the system."""

    kind: str
    user_id: int | None = None
    token_id: int | None = None
    name: str | None = None
    request_id: str | None = None
    reason: str | None = None
    restrictions: Restrictions = UNRESTRICTED
    session_id: int | None = None


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
    Column("session_id", BIG_ID),
    Index("ix_audit_events_object_type_object_id", "object_type", "object_id", "id"),
    sqlite_autoincrement=True,
)
_BY_A_USER = audit_events.c.user_id.is_not(None)
Index(
    "ix_audit_events_user_id",
    audit_events.c.user_id,
    audit_events.c.id,
    sqlite_where=_BY_A_USER,
    postgresql_where=_BY_A_USER,
)

erasures = Table(
    "erasures",
    metadata,
    Column("user_id", ForeignKey("users.id"), primary_key=True, autoincrement=False),
)
"""The user that the transaction erases. While there is a row, the triggers allow changes of texts in audit events and transfers."""


_ADDED = Prepared(insert(audit_events))


def record(
    tx: Tx,
    actor: Actor,
    action: str,
    object_id: int,
    *,
    object_type: str | None = None,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Append one event. `before` and `after` have the values that differ, and no secrets.

    `action` is noun.verb ("subdomain.renew"). The noun is the object's type, unless `object_type` names another.
    """
    _ADDED.run(tx, **_event(tx, actor, action, object_id, object_type, before, after))


def record_many(
    tx: Tx,
    actor: Actor,
    action: str,
    after: Mapping[int, Mapping[str, Any]],
    *,
    before: Mapping[int, Mapping[str, Any]] | None = None,
) -> None:
    """Append an event of the same action for each of many objects. `after` and `before` have the values by id."""
    rows = [
        _event(tx, actor, action, object_id, None, before[object_id] if before else None, values)
        for object_id, values in after.items()
    ]
    _ADDED.run_many(tx, rows)


def _event(
    tx: Tx,
    actor: Actor,
    action: str,
    object_id: int,
    object_type: str | None,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
) -> dict[str, Any]:
    return {
        "at": tx.now,
        "actor_kind": actor.kind,
        "user_id": actor.user_id,
        "token_id": actor.token_id,
        "session_id": actor.session_id,
        "actor_name": actor.name,
        "request_id": actor.request_id,
        "reason": actor.reason,
        "action": action,
        "object_type": object_type or action.partition(".")[0],
        "object_id": object_id,
        "before": before,
        "after": after,
    }


_NEWEST_AT = Prepared(select(audit_events.c.at).order_by(audit_events.c.id.desc()).limit(1))


def newest_at(tx: Tx) -> datetime | None:
    """Return the time of the newest change, or None."""
    row = _NEWEST_AT.one_or_none(tx)
    return row[0] if row is not None else None


@dataclass(frozen=True, slots=True)
class Change:
    """An event as the owner of its object sees it: without the actor's identity and the reason."""

    at: datetime
    action: str
    actor_kind: str
    after: Mapping[str, Any] | None = None


_CHANGES = Prepared(
    select(*(audit_events.c[name] for name in Change.__slots__))
    .where(
        (audit_events.c.object_type == bindparam("of_type"))
        & (audit_events.c.object_id == bindparam("of"))
        & audit_events.c.action.in_(bindparam("done", expanding=True))
    )
    .order_by(audit_events.c.id.desc())
    .limit(bindparam("at_most"))
)


def list_changes(
    tx: Tx, object_type: str, object_id: int, actions: Collection[str], limit: int
) -> list[Change]:
    """Return the newest events of these actions on an object, up to a limit, oldest first."""
    rows = _CHANGES.all(tx, of_type=object_type, of=object_id, done=sorted(actions), at_most=limit)
    return [Change(*row) for row in rows][::-1]


_NTH_NEWEST = Prepared(
    select(audit_events.c.at)
    .where(
        (audit_events.c.object_type == bindparam("of_type"))
        & (audit_events.c.object_id == bindparam("of"))
        & (audit_events.c.action == bindparam("done"))
    )
    .order_by(audit_events.c.id.desc())
    .limit(1)
    .offset(bindparam("newer", type_=Integer))
)


def nth_newest_at(tx: Tx, object_type: str, object_id: int, action: str, number: int) -> datetime | None:
    """Return the time of the `number`th newest event of an action on an object, or None if there are fewer."""
    row = _NTH_NEWEST.one_or_none(tx, of_type=object_type, of=object_id, done=action, newer=number - 1)
    return row[0] if row is not None else None


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """An event as the operator sees it."""

    id: int
    at: datetime
    actor_kind: str
    user_id: int | None
    token_id: int | None
    actor_name: str | None
    request_id: str | None
    reason: str | None
    action: str
    object_type: str
    object_id: int
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    session_id: int | None = None


_EVENTS = select(*(audit_events.c[name] for name in AuditEvent.__slots__))


def list_events(
    tx: Tx, object_type: str, ids: Collection[int] | Select[tuple[int]], actions: Collection[str]
) -> list[AuditEvent]:
    """Return the events of these actions on these objects, oldest first."""
    events = audit_events.c
    of_objects = (events.object_type == object_type) & events.object_id.in_(ids)
    query = _EVENTS.where(of_objects & events.action.in_(sorted(actions)))
    return [AuditEvent(*row) for row in tx.connection.execute(query.order_by(events.id))]


def find_event(tx: Tx, event_id: int) -> AuditEvent | None:
    """Return the event with this id, or None."""
    row = tx.connection.execute(_EVENTS.where(audit_events.c.id == event_id)).one_or_none()
    return AuditEvent(*row) if row is not None else None


@dataclass(frozen=True, slots=True)
class EventFilter:
    """The filters of `search_events`; None means any. Events at `until` don't match.

    `actor` is a kind of actor or an operator's name. `objects` are types and ids, of which one has to match.
    """

    actor: str | None = None
    user_id: int | None = None
    objects: Collection[tuple[str, int]] | None = None
    action: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def search_events(tx: Tx, wanted: EventFilter, limit: int) -> list[AuditEvent]:
    """Return the newest events that match the filters, the newest first. Without a user and objects it may read all events."""
    events = audit_events.c
    query = _EVENTS.order_by(events.id.desc()).limit(limit)
    if wanted.actor is not None:
        is_kind = wanted.actor in ACTOR_KINDS
        query = query.where((events.actor_kind if is_kind else events.actor_name) == wanted.actor)
    if wanted.user_id is not None:
        query = query.where(events.user_id == wanted.user_id)
    if wanted.action is not None:
        query = query.where(events.action == wanted.action)
    if wanted.since is not None:
        query = query.where(events.at >= wanted.since)
    if wanted.until is not None:
        query = query.where(events.at < wanted.until)
    if wanted.objects is None:
        return [AuditEvent(*row) for row in tx.connection.execute(query)]
    # One query an object, because the index has the events of each in order.
    found = [
        AuditEvent(*row)
        for object_type, object_id in wanted.objects
        for row in tx.connection.execute(
            query.where((events.object_type == object_type) & (events.object_id == object_id))
        )
    ]
    return sorted(found, key=lambda event: event.id, reverse=True)[:limit]
