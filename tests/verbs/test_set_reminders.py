"""Turning reminders on and off (PUT /me/reminders); on both databases."""

from typing import Any

from sqlalchemy import select

from sublet.accounts.set_reminders import set_reminders
from sublet.accounts.users import UserEdit, edit_user, suspend_user
from sublet.audit import Actor, audit_events
from sublet.db import Tx
from sublet.errors import AccountSuspended, NotFound, ValidationFailed
from support.registry import OPERATOR, Registry


def actions(registry: Registry) -> list[tuple[str, Any, Any]]:
    def read(tx: Tx) -> list[tuple[str, Any, Any]]:
        query = select(audit_events.c.action, audit_events.c.before, audit_events.c.after)
        return [tuple(row) for row in tx.connection.execute(query.order_by(audit_events.c.id))]

    return registry.read(read)


def test_reminders_are_turned_off_and_on(registry: Registry) -> None:
    assert registry.write(set_reminders, registry.actor(), True).user.reminders
    assert "user.set_reminders" not in {action for action, _, _ in actions(registry)}
    for enabled in (False, False, True):
        assert registry.write(set_reminders, registry.actor(), enabled).user.reminders is enabled
    assert [each for each in actions(registry) if each[0] == "user.set_reminders"] == [
        ("user.set_reminders", {"reminders": True}, {"reminders": False}),
        ("user.set_reminders", {"reminders": False}, {"reminders": True}),
    ]


def test_reminders_refusals(registry: Registry) -> None:
    caught = registry.refused(ValidationFailed, set_reminders, registry.actor(), None)
    assert [(each.field, each.code) for each in caught.errors] == [("enabled", "required")]
    registry.refused(NotFound, set_reminders, Actor("operator"), True)
    registry.write(suspend_user, OPERATOR, "ann@example.org")
    registry.refused(AccountSuspended, set_reminders, registry.actor(), None)


def test_the_operator_turns_reminders_off(registry: Registry) -> None:
    edited = registry.write(edit_user, OPERATOR, "ann@example.org", UserEdit(reminders=False))
    assert edited.user.reminders is False
    assert actions(registry)[-1] == ("user.edit", {"reminders": True}, {"reminders": False})
