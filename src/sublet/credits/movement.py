"""The part that the operator's movements of credits share: number, post, audit."""

from sublet import audit
from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.credits import store
from sublet.credits.ledger import Entry
from sublet.credits.model import Movement
from sublet.db import Tx


def next_reference(tx: Tx, user: User, kind: str) -> str:
    """Return the reference of a user's next movement of a kind, `grant:7:3`: the third grant of user 7.

    Made with the balance locked, so that two at once can't count alike; the unique reference holds it all the same.
    """
    store.lock_balance(tx, user.id)
    return f"{kind}:{user.id}:{store.count_movements(tx, user.id, kind) + 1}"


def move(tx: Tx, actor: Actor, user: User, action: str, entry: Entry) -> Movement:
    """Post an entry and record it in the audit; what may be moved was checked before.

    Raises:
        Conflict: as `store.post`.
    """
    transfer_id = store.post(tx, entry)
    payment = store.find_payment(tx, transfer_id)
    assert payment is not None  # noqa: S101 - just posted
    audit.record(
        tx,
        actor,
        action,
        "transfer",
        transfer_id,
        after={
            "user_id": user.id,
            "credits": payment.credits,
            "balance_after": payment.balance_after,
            "amount": payment.amount,
            "currency": payment.currency,
            "description": payment.description,
            "reference": payment.reference,
        },
    )
    return Movement(payment, user.email)
