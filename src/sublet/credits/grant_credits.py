"""Grant credits to a user (the operator's `sublet credits grant`)."""

from sublet.accounts.fields import check_reason
from sublet.accounts.find import lock_user
from sublet.audit import Actor
from sublet.credits.fields import check_credits
from sublet.credits.ledger import Entry
from sublet.credits.model import Movement
from sublet.credits.movement import move, next_reference
from sublet.db import Tx
from sublet.errors import validation_failed


def grant_credits(tx: Tx, actor: Actor, identifier: str, credit_count: int, reason: str) -> Movement:
    """Give credits to a user; the reason is what the user's history says of it.

    Raises, in this order:
        NotFound: no such user.
        ValidationFailed: all wrong fields: credits (1 or more), reason (required).
    """
    user = lock_user(tx, identifier)
    text, errors = check_reason(reason, required=True)
    errors = [*check_credits("credits", credit_count), *errors]
    if errors:
        raise validation_failed(errors)
    reference = next_reference(tx, user, "grant")
    entry = Entry(user.id, "grant", credit_count, reference, f"Grant: {text}")
    return move(tx, actor, user, "credits.grant", entry)
