"""Find a ticket by its id, or by its number such as `T-000123` in upper or lower case (spec, part 4)."""

from sublet.accounts import store as account_store
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import TicketNotFound
from sublet.ids import parse_id, parse_ticket_number
from sublet.structs import replace
from sublet.tickets import store
from sublet.tickets.model import Ticket


def find_own_ticket(tx: Tx, actor: Actor, identifier: str) -> Ticket:
    """Return a user's ticket by id or number, without its messages.

    Raises:
        TicketNotFound: the user has no such ticket, or the token is not for the ticket's name. Another user's
            ticket is not found either.
    """
    ticket = _find(tx, identifier, actor.holder_id)
    if ticket is None or not _is_allowed(actor, ticket):
        raise TicketNotFound("You have no such ticket. Check the number in the list of your tickets.")
    return ticket


def _is_allowed(actor: Actor, ticket: Ticket) -> bool:
    """True if the token is for the ticket's name. Tickets without a name need a token for all names."""
    restrictions = actor.restrictions
    if ticket.subdomain is None:
        return restrictions.allows_all_names
    return restrictions.allows_name(ticket.subdomain)


def find_for_staff(tx: Tx, identifier: str) -> Ticket:
    """Return any user's ticket by id or number, without its messages.

    Raises:
        TicketNotFound: there is no such ticket.
    """
    ticket = _find(tx, identifier)
    if ticket is None:
        raise TicketNotFound("There is no such ticket. See `sublet ticket list`.")
    return ticket


def lock_for_staff(tx: Tx, identifier: str) -> Ticket:
    """Lock a ticket's user, to serialize changes to the user's tickets.

    Return the ticket without its messages.

    Raises:
        TicketNotFound: there is no such ticket.
    """
    account_store.lock_user(tx, find_for_staff(tx, identifier).user_id)
    # Read again: the transaction that held the lock before may have closed the ticket.
    return find_for_staff(tx, identifier)


def find_own_ticket_with_messages(tx: Tx, actor: Actor, identifier: str) -> Ticket:
    """Return a user's ticket by id or number, with its messages, oldest first.

    Raises:
        TicketNotFound: the user has no such ticket, or the token is not for the ticket's name.
    """
    return _with_messages(tx, find_own_ticket(tx, actor, identifier))


def find_for_staff_with_messages(tx: Tx, identifier: str) -> Ticket:
    """Return any user's ticket by id or number, with its messages, oldest first.

    Raises:
        TicketNotFound: there is no such ticket.
    """
    return _with_messages(tx, find_for_staff(tx, identifier))


def _with_messages(tx: Tx, ticket: Ticket) -> Ticket:
    return replace(ticket, messages=store.list_messages(tx, ticket.id))


def _find(tx: Tx, identifier: str, user_id: int | None = None) -> Ticket | None:
    number = parse_ticket_number(identifier)
    ticket_id = number if number is not None else parse_id(identifier)
    return store.find_ticket(tx, ticket_id, user_id=user_id) if ticket_id is not None else None
