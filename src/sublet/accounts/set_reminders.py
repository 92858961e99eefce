"""Turn reminders by mail on or off (PUT /me/reminders; docs/spec-choices.md, "Mail")."""

from sublet import audit
from sublet.accounts import store
from sublet.accounts.find import find_member, lock_acting_user
from sublet.accounts.model import Member
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import FieldError, TokenRestricted, validation_failed


def set_reminders(tx: Tx, actor: Actor, enabled: bool | None) -> Member:  # noqa: FBT001 - the request has no other member
    """Turn the acting user's reminders on or off, and return the user.

    An unchanged value leaves no audit event.

    Mail that is already in the outbox is still sent. Mail about tickets doesn't depend on this setting.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        TokenRestricted: the token is for an organization, or restricted to some names.
        ValidationFailed: `enabled` is missing.
    """
    user = lock_acting_user(tx, actor)
    if actor.account_id is not None:
        raise TokenRestricted(
            "Reminders are a setting of a user, and this token is for an organization. Use a token of your "
            "own.",
            details={"restriction": "organization_id"},
        )
    if not actor.restrictions.allows_all_names:
        raise TokenRestricted(
            "Reminders are about all names, and this token is restricted to some names. Use a token "
            "without `names`.",
            details={"restriction": "names"},
        )
    if enabled is None:
        raise validation_failed([FieldError("enabled", "required", "Give true or false.")])
    if enabled != user.reminders:
        store.update_user(tx, user.id, reminders=enabled)
        before, after = {"reminders": user.reminders}, {"reminders": enabled}
        audit.record(tx, actor, "user.set_reminders", user.id, before=before, after=after)
    return find_member(tx, user.id)
