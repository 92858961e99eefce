"""Withdraw the transfer of a name (DELETE /transfers/{id}; docs/spec-choices.md, "Transfers of names")."""

from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.subdomains.transfers.end import end
from sublet.subdomains.transfers.find import find_sent, just_ended, lock_requester, refuse_ended
from sublet.subdomains.transfers.model import WITHDRAWN


def withdraw(tx: Tx, actor: Actor, identifier: str) -> Outcome:
    """Withdraw a pending transfer. The recipient gets no mail.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        TransferNotFound: the user sent no such transfer, or the token is not for its name.
        Conflict: the transfer is not pending.
    """
    requester = lock_requester(tx, actor)
    transfer = find_sent(tx, actor, requester, identifier)
    refuse_ended(tx, transfer)
    if not end(tx, actor, transfer, WITHDRAWN):
        raise just_ended()
    return Outcome(transfer.id)
