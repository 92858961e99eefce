"""Correct a user's balance (the operator's `sublet credits adjust`)."""

from sublet.accounts.fields import check_reason
from sublet.accounts.find import lock_user
from sublet.audit import Actor
from sublet.counted import counted
from sublet.credits import store
from sublet.credits.fields import CREDITS_MAX
from sublet.credits.ledger import Entry
from sublet.credits.model import Movement
from sublet.credits.movement import move, next_reference
from sublet.db import Tx
from sublet.errors import Conflict, FieldError, validation_failed


def adjust_credits(
    tx: Tx, actor: Actor, identifier: str, credit_count: int, reason: str | None = None
) -> Movement:
    """Add credits to a user's balance or, below 0, take them from it; a correction is another transfer.

    Raises, in this order:
        NotFound: no such user.
        ValidationFailed: all wrong fields: credits (not 0), reason.
        Conflict: the balance would fall below 0.
    """
    user = lock_user(tx, identifier)
    text, errors = check_reason(reason)
    if credit_count == 0 or abs(credit_count) > CREDITS_MAX:
        message = f"Give a whole number of credits to add, or below 0 to take, up to {CREDITS_MAX}; not 0."
        errors = [FieldError("credits", "value_invalid", message), *errors]
    if errors:
        raise validation_failed(errors)
    balance = store.lock_balance(tx, user.id)
    if balance + credit_count < 0:
        raise Conflict(
            f"The balance of {user.email} is {counted(balance, 'credit')}; {-credit_count} can't be taken from it. Take less."
        )
    description = f"Adjustment: {text}" if text else "Adjustment"
    entry = Entry(user.id, "adjustment", credit_count, next_reference(tx, user, "adjustment"), description)
    return move(tx, actor, user, "credits.adjust", entry)
