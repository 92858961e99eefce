"""The SQL of suspensions of users with all their names."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, Select, select, update

from sublet.audit import AuditEvent, audit_events, list_events
from sublet.db import Tx
from sublet.subdomains.model import Subdomain
from sublet.subdomains.store import (
    NEXT_GENERATION,
    NOT_PURGED,
    generation_parameters,
    read_subdomains,
    select_subdomains,
    subdomains,
)

_SUSPENSION_ACTIONS = ("suspend", "unsuspend")
_TRANSFER = "subdomain.transfer"


def _suspendable(user_id: int) -> ColumnElement[bool]:
    return (subdomains.c.user_id == user_id) & NOT_PURGED & subdomains.c.suspended_at.is_(None)


def _is_suspended_with_user(user_id: int) -> ColumnElement[bool]:
    return (subdomains.c.user_id == user_id) & NOT_PURGED & subdomains.c.held_with_user


def list_suspendable(tx: Tx, user_id: int, limit: int) -> list[Subdomain]:
    """Lock and return up to `limit` of a user's names, live or in the trash, that are not suspended, in order
    of id.
    """
    return _locked(tx, _suspendable(user_id), limit)


def list_suspended_with_user(tx: Tx, user_id: int, limit: int) -> list[Subdomain]:
    """Lock and return up to `limit` of a user's names, live or in the trash, that were suspended with the
    user, in order of id.
    """
    return _locked(tx, _is_suspended_with_user(user_id), limit)


def _locked(tx: Tx, wanted: ColumnElement[bool], limit: int) -> list[Subdomain]:
    # Lock before reading, because rows may change until they are locked. Lock in order of id, so that
    # transactions don't deadlock.
    order = select(subdomains.c.id).where(wanted).order_by(subdomains.c.id).limit(limit)
    tx.connection.execute(order.with_for_update(key_share=True)).all()
    query = select_subdomains().where(wanted).order_by(subdomains.c.id).limit(limit)
    return read_subdomains(Subdomain, tx.connection.execute(query))


def suspend_names(tx: Tx, names: Collection[Subdomain], reason: str) -> None:
    """Suspend names of `list_suspendable` together with their user."""
    _change_suspension(tx, names, suspended_at=tx.now, suspended_reason=reason, held_with_user=True)


def unsuspend_names(tx: Tx, names: Collection[Subdomain]) -> None:
    """End the suspensions of names of `list_suspended_with_user`."""
    _change_suspension(
        tx,
        names,
        suspended_at=None,
        suspended_reason=None,
        held_with_user=False,
        unsuspended_at=tx.now,
    )


def keep_suspended(tx: Tx, user_id: int) -> None:
    """Make the suspensions of the names of `list_suspended_with_user` independent of
    the user's suspension.
    """
    tx.connection.execute(
        update(subdomains).where(_is_suspended_with_user(user_id)).values(held_with_user=False)
    )


def _change_suspension(tx: Tx, names: Collection[Subdomain], **values: Any) -> None:
    """Change names, and make them due. Names that are, or may be, in the DNS get their next generation."""
    wanted = subdomains.c.id.in_([each.id for each in names])
    changed = values | {"updated_at": tx.now, "due_at": tx.now}
    in_dns = subdomains.c.generation > 0
    with_next_generation = update(subdomains).where(wanted & in_dns).values(**changed, **NEXT_GENERATION)
    tx.connection.execute(with_next_generation, generation_parameters(tx.now))
    tx.connection.execute(update(subdomains).where(wanted & ~in_dns).values(**changed))


def list_suspensions(tx: Tx, user_id: int) -> list[AuditEvent]:
    """Return the audit events of the suspensions of a user, and of names in any state while the user held
    them, oldest first.
    """
    once_held = (subdomains.c.user_id == user_id) | subdomains.c.id.in_(_moved_from(user_id))
    found = list_events(tx, "user", [user_id], [f"user.{each}" for each in _SUSPENSION_ACTIONS])
    of_names = list_events(
        tx,
        "subdomain",
        select(subdomains.c.id).where(once_held),
        [_TRANSFER, *(f"subdomain.{each}" for each in _SUSPENSION_ACTIONS)],
    )
    query = select(subdomains.c.id, subdomains.c.user_id).where(once_held)
    holders = {row[0]: row[1] for row in tx.connection.execute(query)}
    # Go back in time from the current holders. The event of a transfer has the former holder.
    for event in reversed(of_names):
        if event.action == _TRANSFER and event.before is not None:
            holders[event.object_id] = event.before["user_id"]
        elif holders[event.object_id] == user_id:
            found.append(event)
    return sorted(found, key=lambda event: event.id)


def _moved_from(user_id: int) -> Select[tuple[int]]:
    """Return a query for the ids of names that were transferred from a user. It reads all transfers."""
    events = audit_events.c
    is_transfer = (events.object_type == "subdomain") & (events.action == _TRANSFER)
    return select(events.object_id).where(is_transfer & (events.before["user_id"].as_integer() == user_id))
