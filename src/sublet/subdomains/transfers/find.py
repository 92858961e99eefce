"""Find the transfer that a path names by its id, for the user who sent or received it."""

from sublet.accounts import store as account_store
from sublet.accounts.find import refuse_suspended
from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, NotFound, TransferNotFound
from sublet.ids import parse_id
from sublet.subdomains.transfers import store
from sublet.subdomains.transfers.model import PENDING, NameTransfer


def not_found() -> TransferNotFound:
    """Return the refusal for a missing transfer. Another user's, and one outside the token's restrictions, get the same one."""
    return TransferNotFound("You have no such transfer. Check the id; GET /transfers lists yours.")


def find_own_transfer(tx: Tx, actor: Actor, user: User, identifier: str) -> NameTransfer:
    """Return the transfer that the user sent or received.

    Raises:
        TransferNotFound: there is none, or the token is not for its name.
    """
    found = _find(tx, actor, identifier)
    if found is None or not (is_sender(found, user) or is_receiver(found, user)):
        raise not_found()
    return found


def find_sent(tx: Tx, actor: Actor, user: User, identifier: str) -> NameTransfer:
    """Return the transfer that the user sent.

    Raises:
        TransferNotFound: there is none, or the token is not for its name.
    """
    found = find_own_transfer(tx, actor, user, identifier)
    if not is_sender(found, user):
        raise not_found()
    return found


def find_received(tx: Tx, actor: Actor, user: User, identifier: str) -> NameTransfer:
    """Return the transfer that is addressed to the user.

    Raises:
        TransferNotFound: there is none, or the token is not for its name.
    """
    found = find_own_transfer(tx, actor, user, identifier)
    if not is_receiver(found, user):
        raise not_found()
    return found


def is_sender(transfer: NameTransfer, user: User) -> bool:
    """True if the user started the transfer."""
    return transfer.from_user_id == user.id


def is_receiver(transfer: NameTransfer, user: User) -> bool:
    """True if the transfer is addressed to the user, or the user answered it under an earlier address."""
    if transfer.to_user_id is not None:
        return transfer.to_user_id == user.id
    return transfer.recipient_email == user.email


def _find(tx: Tx, actor: Actor, identifier: str) -> NameTransfer | None:
    transfer_id = parse_id(identifier)
    found = store.find_transfer(tx, transfer_id) if transfer_id is not None else None
    return found if found is not None and actor.restrictions.allows_name(found.subdomain) else None


def lock_both(tx: Tx, actor: Actor, identifier: str) -> tuple[User, User | None]:
    """Return the acting user and the transfer's sender (None without such a transfer), both locked in order of id.

    Raises, in this order:
        NotFound: the actor is not a user.
        AccountSuspended: the acting user is suspended.
    """
    found = _find(tx, actor, identifier)
    ids = {actor.user_id or 0, *([found.from_user_id] if found is not None else [])}
    locked = account_store.lock_users(tx, ids)
    user = locked.get(actor.user_id or 0)
    if user is None or user.deleted_at is not None:
        raise NotFound("There is no such user. Check the token.")
    refuse_suspended(user)
    return user, locked.get(found.from_user_id) if found is not None else None


def just_ended() -> Conflict:
    """Return the refusal of an answer that comes a moment too late."""
    return Conflict("This transfer has just ended. See GET /transfers.")


def refuse_ended(tx: Tx, transfer: NameTransfer) -> None:
    """Raise `Conflict` unless a transfer is pending."""
    state = transfer.state_at(tx.now)
    if state != PENDING:
        raise Conflict(
            f"This transfer is {state}. Only a pending one can be answered or withdrawn; see GET /transfers."
        )
