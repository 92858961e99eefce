"""Decline the transfer of a name (POST /transfers/{id}/decline; docs/spec-choices.md, "Transfers of names")."""

from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.subdomains.transfers.end import end
from sublet.subdomains.transfers.find import find_received, just_ended, lock_requester, refuse_ended
from sublet.subdomains.transfers.model import DECLINED


def decline(tx: Tx, actor: Actor, identifier: str) -> Outcome:
    """Decline a pending transfer. The sender gets a mail, and may offer the name again.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        TransferNotFound: no such transfer is addressed to the user, or the token is not for its name.
        Conflict: the transfer is not pending.
    """
    requester = lock_requester(tx, actor)
    transfer = find_received(tx, actor, requester, identifier)
    refuse_ended(tx, transfer)
    if not end(tx, actor, transfer, DECLINED, requester.holder):
        raise just_ended()
    return Outcome(transfer.id)
