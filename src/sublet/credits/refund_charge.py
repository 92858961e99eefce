"""Refund a charge (the operator's `sublet credits refund`)."""

from sublet.accounts.fields import check_reason
from sublet.accounts.find import lock_user
from sublet.audit import Actor
from sublet.credits import store
from sublet.credits.ledger import Entry
from sublet.credits.model import Movement
from sublet.credits.movement import move
from sublet.db import Tx
from sublet.errors import Conflict, FieldError, NotFound, validation_failed


def refund_charge(
    tx: Tx, actor: Actor, transfer_id: int, credit_count: int | None = None, reason: str | None = None
) -> Movement:
    """Give back what was charged, or a part of it, once; the name that was paid for stays as it is.

    Raises, in this order:
        NotFound: there is no such movement.
        Conflict: it is no charge.
        ValidationFailed: all wrong fields: credits (1 to what was charged), reason.
        Conflict: it was refunded before. Use `sublet credits grant` to give more.
    """
    charge = store.find_payment(tx, transfer_id)
    if charge is None:
        raise NotFound(f"There is no movement {transfer_id}. See `sublet credits history`.")
    user = lock_user(tx, str(charge.user_id))
    if charge.kind != "charge":
        raise Conflict(
            f"The movement {transfer_id} is a {charge.kind}; only charges are refunded. Give the id of a charge."
        )
    text, errors = check_reason(reason)
    charged = -charge.credits
    refunded = charged if credit_count is None else credit_count
    if not 1 <= refunded <= charged:
        message = f"{charged} credits were charged. Give 1 to {charged} of them."
        errors = [FieldError("credits", "value_invalid", message), *errors]
    if errors:
        raise validation_failed(errors)
    reference = f"refund:{transfer_id}"
    if store.has_reference(tx, reference):
        raise Conflict(
            f"The charge {transfer_id} was refunded before. Use `sublet credits grant` to give more."
        )
    entry = Entry(
        user.id,
        "refund",
        refunded,
        reference,
        f"Refund: {text or charge.description}",
        subdomain_id=store.find_subdomain_id(tx, transfer_id),
        subdomain=charge.subdomain,
        refunded_transfer_id=transfer_id,
    )
    return move(tx, actor, user, "credits.refund", entry)
