"""Who may change something: the check at the start of every registrant's verb."""

from sublet.accounts import store
from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import AccountSuspended, NotFound


def lock_acting_user(tx: Tx, actor: Actor) -> User:
    """Return the user who acts, locked: everything of one user happens one after the other.

    Raises:
        NotFound: the actor is no user (the operator's commands name one instead).
        AccountSuspended: a suspended user may read and open tickets, nothing else.
    """
    user = store.lock_user(tx, actor.user_id) if actor.user_id is not None else None
    if user is None:
        raise NotFound("There is no such user. Check the token.")
    if user.suspended_at is not None:
        raise AccountSuspended(
            "This account is suspended: it may read and open tickets, nothing else. Open a ticket to ask why."
        )
    return user
