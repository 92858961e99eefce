"""The audit: an append-only event for each change, in the transaction of the change, with actor, time, reason
and changed values.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct
from sqlalchemy import (
    JSON,
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    Select,
    String,
    Table,
    bindparam,
    column,
    insert,
    select,
    table,
    update,
)

from sublet.db import Prepared, Tx
from sublet.restrictions import UNRESTRICTED, Restrictions
from sublet.schema import BIG_ID, Instant, metadata

ACTOR_KINDS = ("user", "operator", "system")


class Actor(Struct, frozen=True):
    """The actor of a change: a user (with token or session, restrictions, request and address), the operator
    (with name), or the system.

    `account_id` is the account of the organization that the token or session acts for; None if the token or
    session acts for its own user.
    """

    kind: str
    user_id: int | None = None
    token_id: int | None = None
    name: str | None = None
    request_id: str | None = None
    reason: str | None = None
    restrictions: Restrictions = UNRESTRICTED
    address: str | None = None
    account_id: int | None = None
    session_id: int | None = None

    @property
    def holder_id(self) -> int | None:
        """The id of the user or account whose names, credits and tickets the actor sees and changes.

        Stores filter by this id.
        """
        return self.user_id if self.account_id is None else self.account_id


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
    Column("address", String(45)),
    Column("owner_id", BIG_ID),
    Column("session_id", BIG_ID),
    Index("ix_audit_events_object_type_object_id", "object_type", "object_id", "id"),
    sqlite_autoincrement=True,
)
_HAS_USER = audit_events.c.user_id.is_not(None)
Index(
    "ix_audit_events_user_id",
    audit_events.c.user_id,
    audit_events.c.id,
    sqlite_where=_HAS_USER,
    postgresql_where=_HAS_USER,
)
_HAS_OWNER, _HAS_ADDRESS = audit_events.c.owner_id.is_not(None), audit_events.c.address.is_not(None)
Index(
    "ix_audit_events_owner_id",
    audit_events.c.owner_id,
    audit_events.c.id,
    sqlite_where=_HAS_OWNER,
    postgresql_where=_HAS_OWNER,
)
Index("ix_audit_events_address", audit_events.c.at, sqlite_where=_HAS_ADDRESS, postgresql_where=_HAS_ADDRESS)
ADDRESS_KEPT_FOR = timedelta(days=90)
"""The time after which the client's address in an event is deleted."""

erasures = Table(
    "erasures",
    metadata,
    Column("user_id", ForeignKey("users.id"), primary_key=True, autoincrement=False),
)
"""The user that the current transaction erases. While this table has a row, triggers allow changes of texts
in audit events and transfers.
"""


_INSERT = Prepared(insert(audit_events))
_OWNER_COLUMNS = {
    "subdomain": ("subdomains", "user_id"),
    "token": ("tokens", "user_id"),
    "session": ("sessions", "user_id"),
    "ticket": ("tickets", "user_id"),
    "transfer": ("transfers", "user_id"),
    "name_transfer": ("name_transfers", "from_user_id"),
}
"""The table of each object type, and the table's column with the owner."""


def _insert_with_owner(name: str, owner: str) -> Prepared:
    rows = table(name, column("id", BIG_ID), column(owner, BIG_ID))
    of_object = select(rows.c[owner]).where(rows.c.id == bindparam("owned_id", type_=BIG_ID))
    return Prepared(insert(audit_events).values(owner_id=of_object.scalar_subquery()))


_INSERT_WITH_OWNER = {each: _insert_with_owner(*names) for each, names in _OWNER_COLUMNS.items()}
_WITHOUT_OWNER = ("subdomain.publish", "subdomain.publish_failed", "subdomain.hand_over")
"""The publisher's events. They are stored without an owner, so that the activity of an account doesn't list
them.
"""


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
    """Append an event. `before` and `after` have the changed values, without secrets.

    `action` is noun.verb ("subdomain.renew"). `object_type` defaults to the noun.
    """
    event = _event_values(tx, actor, action, object_id, object_type, before, after)
    statement, values = _choose_insert(event, is_for_organization=actor.account_id is not None)
    statement.run(tx, **values)


def record_many(
    tx: Tx,
    actor: Actor,
    action: str,
    after: Mapping[int, Mapping[str, Any]],
    *,
    before: Mapping[int, Mapping[str, Any]] | None = None,
) -> None:
    """Append an event of the same action for each of many objects.

    `after` and `before` have the changed values by id.
    """
    rows = [
        _event_values(tx, actor, action, object_id, None, before[object_id] if before else None, values)
        for object_id, values in after.items()
    ]
    insertions = [_choose_insert(each, is_for_organization=actor.account_id is not None) for each in rows]
    if insertions:
        insertions[0][0].run_many(tx, [values for _, values in insertions])


def _choose_insert(event: dict[str, Any], *, is_for_organization: bool) -> tuple[Prepared, dict[str, Any]]:
    """Return the statement that inserts an event, and its parameters.

    It stores the object's owner unless the actor is the owner.

    `is_for_organization` is true if the actor acts for an organization, which then owns the object.
    """
    kind, object_id = event["object_type"], event["object_id"]
    is_own = event["user_id"] is not None and not is_for_organization and kind != "name_transfer"
    if is_own or event["action"] in _WITHOUT_OWNER:
        return _INSERT, event
    if kind == "user":
        return _INSERT, {**event, "owner_id": object_id}
    if kind in _INSERT_WITH_OWNER:
        return _INSERT_WITH_OWNER[kind], {**event, "owned_id": object_id}
    if event["user_id"] is None:
        # Without a user or an owner, the deletion of a user doesn't find the event, and couldn't erase the
        # address.
        return _INSERT, {**event, "address": None}
    return _INSERT, event


def _event_values(
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
        "address": actor.address,
    }


_NEWEST_AT = Prepared(select(audit_events.c.at).order_by(audit_events.c.id.desc()).limit(1))


def newest_at(tx: Tx) -> datetime | None:
    """Return the time of the newest change, or None."""
    row = _NEWEST_AT.one_or_none(tx)
    return row[0] if row is not None else None


class Change(Struct, frozen=True):
    """An event as the owner of its object sees it, without the actor's identity and the reason."""

    at: datetime
    action: str
    actor_kind: str
    after: Mapping[str, Any] | None = None
    before: Mapping[str, Any] | None = None


_CHANGES = Prepared(
    select(*(audit_events.c[name] for name in Change.__struct_fields__))
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
    """Return up to `limit` of the newest events of these actions on an object, oldest first."""
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
    """Return the time of the `number`th newest event of an action on an object.

    None if there are fewer events.
    """
    row = _NTH_NEWEST.one_or_none(tx, of_type=object_type, of=object_id, done=action, newer=number - 1)
    return row[0] if row is not None else None


class AuditEvent(Struct, frozen=True):
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
    address: str | None
    owner_id: int | None
    session_id: int | None = None


_EVENTS = select(*(audit_events.c[name] for name in AuditEvent.__struct_fields__))


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


class ActivityFilter(Struct, frozen=True):
    """The filters of `list_activity`. None means any. Events at `until` don't match."""

    action: str | None = None
    token_id: int | None = None
    since: datetime | None = None
    until: datetime | None = None


class EventFilter(ActivityFilter, frozen=True, kw_only=True):
    """The filters of `search_events`. None means any.

    `actor` is a kind of actor or an operator's name. `objects` are types with ids; an event must match one of
    them.
    """

    actor: str | None = None
    user_id: int | None = None
    objects: Collection[tuple[str, int]] | None = None


def _select_newest(wanted: ActivityFilter, limit: int) -> Select[Any]:
    """Return the query of up to `limit` events that match the filters, newest first."""
    events = audit_events.c
    query = _EVENTS.order_by(events.id.desc()).limit(limit)
    if wanted.action is not None:
        query = query.where(events.action == wanted.action)
    if wanted.token_id is not None:
        query = query.where(events.token_id == wanted.token_id)
    if wanted.since is not None:
        query = query.where(events.at >= wanted.since)
    if wanted.until is not None:
        query = query.where(events.at < wanted.until)
    return query


def search_events(tx: Tx, wanted: EventFilter, limit: int) -> list[AuditEvent]:
    """Return up to `limit` events that match the filters, newest first.

    Without a user and objects it may read all events.
    """
    events = audit_events.c
    query = _select_newest(wanted, limit)
    if wanted.actor is not None:
        is_kind = wanted.actor in ACTOR_KINDS
        query = query.where((events.actor_kind if is_kind else events.actor_name) == wanted.actor)
    if wanted.user_id is not None:
        query = query.where(events.user_id == wanted.user_id)
    if wanted.objects is None:
        return [AuditEvent(*row) for row in tx.connection.execute(query)]
    # One query for each object, because the index has the events of one object sorted by id.
    found = [
        AuditEvent(*row)
        for object_type, object_id in wanted.objects
        for row in tx.connection.execute(
            query.where((events.object_type == object_type) & (events.object_id == object_id))
        )
    ]
    return sorted(found, key=lambda event: event.id, reverse=True)[:limit]


def list_activity(
    tx: Tx, user_id: int, wanted: ActivityFilter, limit: int, before_id: int | None = None
) -> list[AuditEvent]:
    """Return up to `limit` events that a user caused, or that others caused on the user's objects, newest
    first.

    `before_id` is the id of the last event on the previous page. Other actors' events from before schema 0014
    have no owner, and are left out.
    """
    events = audit_events.c
    query = _select_newest(wanted, limit)
    if before_id is not None:
        query = query.where(events.id < before_id)
    # Two queries, because each column has an index with its events sorted by id.
    found = {
        row[0]: AuditEvent(*row)
        for column in (events.user_id, events.owner_id)
        for row in tx.connection.execute(query.where(column == user_id))
    }
    return sorted(found.values(), key=lambda event: event.id, reverse=True)[:limit]


def _old_addresses(tx: Tx) -> ColumnElement[bool]:
    return _HAS_ADDRESS & (audit_events.c.at <= tx.now - ADDRESS_KEPT_FOR)


def has_old_addresses(tx: Tx) -> bool:
    """True if an event older than `ADDRESS_KEPT_FOR` has an address."""
    query = select(audit_events.c.id).where(_old_addresses(tx)).limit(1)
    return tx.connection.execute(query).first() is not None


def delete_old_addresses(tx: Tx, limit: int) -> int:
    """Delete up to `limit` addresses of old events, and return their number."""
    query = select(audit_events.c.id).where(_old_addresses(tx)).order_by(audit_events.c.at).limit(limit)
    ids = tx.connection.execute(query).scalars().all()
    if ids:
        tx.connection.execute(update(audit_events).where(audit_events.c.id.in_(ids)).values(address=None))
    return len(ids)
