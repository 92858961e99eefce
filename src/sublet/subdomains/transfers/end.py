"""End transfers: they are declined, withdrawn or expired, or their name is moved, deleted or suspended."""

from collections.abc import Collection, Iterable

from sublet import audit
from sublet.accounts.model import User
from sublet.accounts.store import find_user
from sublet.audit import SYSTEM, Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.mail.letter import name_page, render
from sublet.mail.outbox import enqueue
from sublet.subdomains.transfers import store
from sublet.subdomains.transfers.find import find_own_transfer, just_ended, lock_requester, refuse_ended
from sublet.subdomains.transfers.model import DECLINED, EXPIRED, WITHDRAWN, NameTransfer


def decline(tx: Tx, actor: Actor, identifier: str) -> Outcome:
    """Decline a pending transfer. The sender gets a mail, and may offer the name again.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        TransferNotFound: no such transfer is addressed to the user, or the token is not for its name.
        Conflict: the transfer is not pending.
    """
    requester = lock_requester(tx, actor)
    transfer = find_own_transfer(tx, actor, requester, identifier, direction="received")
    refuse_ended(tx, transfer)
    if not end(tx, actor, transfer, DECLINED, requester.holder):
        raise just_ended()
    return Outcome(transfer.id)


def withdraw(tx: Tx, actor: Actor, identifier: str) -> Outcome:
    """Withdraw a pending transfer. The recipient gets no mail.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        TransferNotFound: the user sent no such transfer, or the token is not for its name.
        Conflict: the transfer is not pending.
    """
    requester = lock_requester(tx, actor)
    transfer = find_own_transfer(tx, actor, requester, identifier, direction="sent")
    refuse_ended(tx, transfer)
    if not end(tx, actor, transfer, WITHDRAWN):
        raise just_ended()
    return Outcome(transfer.id)


_ACTIONS = {
    DECLINED: "name_transfer.decline",
    WITHDRAWN: "name_transfer.withdraw",
    EXPIRED: "name_transfer.expire",
}


def end(tx: Tx, actor: Actor, transfer: NameTransfer, state: str, receiver: User | None = None) -> bool:
    """End a pending transfer, and mail the sender if it is declined or expired.

    Return False if another transaction ended the transfer first.
    """
    if not store.end(tx, transfer.id, state, receiver.id if receiver is not None else None):
        return False
    audit.record(tx, actor, _ACTIONS[state], transfer.id, after={"subdomain": transfer.subdomain})
    if state == WITHDRAWN:
        return True
    sender = find_user(tx, transfer.from_user_id)
    assert sender is not None  # noqa: S101 - user rows are never deleted
    message = render(
        "transfer_ended",
        name=sender.name,
        fqdn=transfer.subdomain,
        recipient=transfer.recipient_email,
        state=state,
    )
    reference = f"name_transfer:{transfer.id}:{state}"
    enqueue(tx, sender, message, reference=reference, page=name_page(transfer.subdomain))
    return True


def end_transfers_of_names(tx: Tx, actor: Actor, subdomain_ids: Collection[int]) -> None:
    """End the pending transfers of names that are moved, deleted or suspended.

    The caller must have locked the names' users.
    """
    _withdraw_all(tx, actor, store.list_pending(tx, subdomain_ids))


def end_transfers_from(tx: Tx, actor: Actor, user_id: int) -> None:
    """End the pending transfers that a user sent, because all names of the user are suspended."""
    _withdraw_all(tx, actor, store.list_pending_of_sender(tx, user_id))


def end_transfers_to(tx: Tx, actor: Actor, user: User, emails: Collection[str]) -> None:
    """Decline the pending transfers to these addresses of a user who is being deleted."""
    for each in store.list_pending_to(tx, emails):
        if each.expires_at <= tx.now:
            end(tx, actor, each, EXPIRED)
        else:
            end(tx, actor, each, DECLINED, user)


def _withdraw_all(tx: Tx, actor: Actor, transfers: Iterable[NameTransfer]) -> None:
    for each in transfers:
        end(tx, actor, each, EXPIRED if each.expires_at <= tx.now else WITHDRAWN)


def end_overdue_transfers(tx: Tx, limit: int) -> int:
    """End up to `limit` expired transfers, and return their number."""
    overdue = store.list_overdue(tx, limit)
    for each in overdue:
        end(tx, SYSTEM, each, EXPIRED)
    return len(overdue)
