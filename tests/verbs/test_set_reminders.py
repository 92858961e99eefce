"""Turning reminders on and off (PUT /me/reminders); on both databases."""

from sublet.accounts.set_reminders import set_reminders
from sublet.accounts.users import UserEdit, edit_user, suspend_user
from sublet.audit import Actor
from sublet.errors import AccountSuspended, NotFound, ValidationFailed
from support.registry import OPERATOR, Registry


def test_reminders_are_turned_off_and_on(registry: Registry) -> None:
    assert registry.write(set_reminders, registry.actor(), True).user.reminders
    assert registry.changes("user.set_reminders") == []
    for enabled in (False, False, True):
        assert registry.write(set_reminders, registry.actor(), enabled).user.reminders is enabled
    on, off = {"reminders": True}, {"reminders": False}
    assert registry.changes("user.set_reminders") == [(on, off), (off, on)]


def test_reminders_refusals(registry: Registry) -> None:
    caught = registry.refused(ValidationFailed, set_reminders, registry.actor(), None)
    assert [(each.field, each.code) for each in caught.errors] == [("enabled", "required")]
    registry.refused(NotFound, set_reminders, Actor("operator"), True)
    registry.write(suspend_user, OPERATOR, "ann@example.org")
    registry.refused(AccountSuspended, set_reminders, registry.actor(), None)


def test_the_operator_turns_reminders_off(registry: Registry) -> None:
    edited = registry.write(edit_user, OPERATOR, "ann@example.org", UserEdit(reminders=False))
    assert edited.user.reminders is False
    assert registry.changes("user.edit") == [({"reminders": True}, {"reminders": False})]
