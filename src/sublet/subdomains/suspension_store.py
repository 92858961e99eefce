"""All SQL of suspending the names of one user together, and of what the audit tells of suspensions."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement, select, update

from sublet.audit import AuditEvent, list_events
from sublet.db import Tx
from sublet.subdomains.model import Subdomain
from sublet.subdomains.store import NOT_PURGED, next_generation, select_subdomains, stream, subdomains

_ACTIONS = ("suspend", "unsuspend")


def _suspendable(user_id: int) -> ColumnElement[bool]:
    return (subdomains.c.user_id == user_id) & NOT_PURGED & subdomains.c.suspended_at.is_(None)


def _held_with(user_id: int) -> ColumnElement[bool]:
    return (subdomains.c.user_id == user_id) & NOT_PURGED & subdomains.c.held_with_user


def list_suspendable(tx: Tx, user_id: int) -> Iterator[Subdomain]:
    """Which names of this user, live or in the trash, are not suspended? Locked; in the order of their numbers."""
    return _locked(tx, _suspendable(user_id))


def list_held_with(tx: Tx, user_id: int) -> Iterator[Subdomain]:
    """Which names of this user, live or in the trash, were suspended with it? Locked; in the order of their numbers."""
    return _locked(tx, _held_with(user_id))


def _locked(tx: Tx, wanted: ColumnElement[bool]) -> Iterator[Subdomain]:
    # First the locks, in the one order in which whoever changes several names takes them; then what is true under them.
    order = select(subdomains.c.id).where(wanted).order_by(subdomains.c.id)
    tx.connection.execute(order.with_for_update(key_share=True)).all()
    return stream(tx, select_subdomains().where(wanted).order_by(subdomains.c.id))


def suspend_all(tx: Tx, user_id: int, reason: str) -> None:
    """Suspend with a user what `list_suspendable` found."""
    _follow(tx, _suspendable(user_id), suspended_at=tx.now, suspended_reason=reason, held_with_user=True)


def unsuspend_all(tx: Tx, user_id: int) -> None:
    """Let go what `list_held_with` found."""
    _follow(
        tx,
        _held_with(user_id),
        suspended_at=None,
        suspended_reason=None,
        held_with_user=False,
        unsuspended_at=tx.now,
    )


def keep_suspended(tx: Tx, user_id: int) -> None:
    """Leave what `list_held_with` found suspended on its own."""
    tx.connection.execute(update(subdomains).where(_held_with(user_id)).values(held_with_user=False))


def _follow(tx: Tx, wanted: ColumnElement[bool], **values: Any) -> None:
    """Change names, whose dates the sweep then looks at; of those that were or may be in the DNS it is the next generation."""
    changed = values | {"updated_at": tx.now, "due_at": tx.now}
    in_dns = subdomains.c.generation > 0
    tx.connection.execute(
        update(subdomains).where(wanted & in_dns).values(**changed, **next_generation(tx.now))
    )
    tx.connection.execute(update(subdomains).where(wanted & ~in_dns).values(**changed))


def list_suspensions(tx: Tx, user_id: int) -> list[AuditEvent]:
    """What does the audit tell of suspensions of this user and of its names, whatever became of them? Oldest first."""
    names = select(subdomains.c.id).where(subdomains.c.user_id == user_id)
    found = [
        *list_events(tx, "user", [user_id], [f"user.{each}" for each in _ACTIONS]),
        *list_events(tx, "subdomain", names, [f"subdomain.{each}" for each in _ACTIONS]),
    ]
    return sorted(found, key=lambda event: event.id)
