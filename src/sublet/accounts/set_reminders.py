"""Turn mail on dates of one's names on or off (PUT /me/reminders; docs/spec-choices.md, "Mail")."""

from sublet import audit
from sublet.accounts import store
from sublet.accounts.find import find_user, lock_acting_user, member_of
from sublet.accounts.model import Member
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import FieldError, validation_failed


def set_reminders(tx: Tx, actor: Actor, enabled: bool | None) -> Member:  # noqa: FBT001 - it is the request's one member
    """Store whether the acting user wants reminders, from now on; the same again leaves no event.

    Mail that waits in the outbox already is sent all the same. Answers to tickets don't ask for it.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        ValidationFailed: `enabled` was not sent.
    """
    user = lock_acting_user(tx, actor)
    if enabled is None:
        raise validation_failed([FieldError("enabled", "required", "Send true or false.")])
    if enabled != user.reminders:
        store.update_user(tx, user.id, reminders=enabled)
        audit.record(
            tx,
            actor,
            "user.set_reminders",
            "user",
            user.id,
            before={"reminders": user.reminders},
            after={"reminders": enabled},
        )
    return member_of(tx, find_user(tx, str(user.id)))
