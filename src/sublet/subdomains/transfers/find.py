"""Find a transfer by the id in a path, for its sender or recipient."""

from msgspec import Struct

from sublet.accounts import store as account_store
from sublet.accounts.find import lock_holder
from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, TransferNotFound
from sublet.ids import parse_id
from sublet.subdomains.transfers import store
from sublet.subdomains.transfers.model import PENDING, NameTransfer


def not_found() -> TransferNotFound:
    """Return the error for a transfer that doesn't exist, isn't the user's, or is of a name outside the
    token's restrictions.
    """
    return TransferNotFound("You have no such transfer. Check its id in the list of your transfers.")


class Requester(Struct, frozen=True):
    """The person who sends a request about a transfer, and the holder of the names: the person or an
    organization.
    """

    person: User
    holder: User


def find_own_transfer(
    tx: Tx, actor: Actor, requester: Requester, identifier: str, *, direction: str | None = None
) -> NameTransfer:
    """Return a transfer that the holder sent, or that is addressed to the person; with a direction of
    `DIRECTIONS`, only one of these.

    Raises:
        TransferNotFound: there is no such transfer, or the token is not for its name.
    """
    found = _find(tx, actor, identifier)
    if found is not None and direction != "received" and is_sender(found, requester):
        return found
    if found is not None and direction != "sent" and is_receiver(found, requester):
        return found
    raise not_found()


def is_sender(transfer: NameTransfer, requester: Requester) -> bool:
    """True if the holder sent the transfer."""
    return transfer.from_user_id == requester.holder.id


def is_receiver(transfer: NameTransfer, requester: Requester) -> bool:
    """True if the transfer is addressed to the person's current address, or the holder has answered it."""
    if transfer.to_user_id is not None:
        return transfer.to_user_id == requester.holder.id
    return transfer.recipient_email == requester.person.email


def _find(tx: Tx, actor: Actor, identifier: str) -> NameTransfer | None:
    transfer_id = parse_id(identifier)
    found = store.find_transfer(tx, transfer_id) if transfer_id is not None else None
    return found if found is not None and actor.restrictions.allows_name(found.subdomain) else None


def lock_requester(tx: Tx, actor: Actor) -> Requester:
    """Lock the holder that the request is for, and return the requester.

    Raises, in this order:
        NotFound: the actor is not a user.
        TokenRevoked: the user has left the organization.
        AccountSuspended: the user or the holder is suspended.
    """
    holder = lock_holder(tx, actor)
    person = holder if holder.id == actor.user_id else account_store.find_user(tx, actor.user_id or 0)
    assert person is not None  # noqa: S101 - `lock_holder` has found it
    return Requester(person, holder)


def lock_requester_and_sender(tx: Tx, actor: Actor, identifier: str) -> tuple[Requester, User | None]:
    """Return the requester and the sender of a transfer (None if there is no such transfer).

    Lock both users in order of id.

    Raises:
        NotFound, TokenRevoked, AccountSuspended: see `lock_requester`.
    """
    found = _find(tx, actor, identifier)
    ids = {actor.user_id or 0, actor.holder_id or 0, *([found.from_user_id] if found is not None else [])}
    locked = account_store.lock_users(tx, ids)
    return lock_requester(tx, actor), locked.get(found.from_user_id) if found is not None else None


def just_ended() -> Conflict:
    """Return the error for a transfer that another transaction has just ended."""
    return Conflict("This transfer has just ended. Check the list of your transfers.")


def refuse_ended(tx: Tx, transfer: NameTransfer) -> None:
    """Raise `Conflict` unless a transfer is pending."""
    state = transfer.state_at(tx.now)
    if state != PENDING:
        raise Conflict(f"This transfer is {state}. Only pending transfers can be answered or withdrawn.")
