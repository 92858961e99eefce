"""Reply to a ticket: the user's verb (spec, part 4, POST /support/tickets/{id}/reply)."""

from sublet import audit
from sublet.accounts.find import lock_requesting_holder, refuse_suspended
from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.errors import check_one_of, validation_failed
from sublet.ids import ticket_number
from sublet.mail.operator_notices import notify_operator
from sublet.tickets import store
from sublet.tickets.find import find_own_ticket
from sublet.tickets.lifecycle import check_message, refuse_closed, refuse_full, status_after_message
from sublet.tickets.model import MESSAGE_FORMAT_DEFAULT, MESSAGE_FORMATS, NewMessage, Ticket


def reply(
    tx: Tx, actor: Actor, identifier: str, message: str | None, message_format: str | None = None
) -> Outcome:
    """Add a message of the user to one of their tickets.

    The ticket's status becomes open. Notify the operator. Return the ticket's id.

    Raises, in this order:
        AccountSuspended: the user is suspended. Suspended users can open a new ticket.
        TicketNotFound: the user has no such ticket, or the token is not for the ticket's name.
        TicketClosed: the ticket is closed (spec, part 3, rule 3).
        Conflict: the ticket has the maximum number of messages.
        ValidationFailed: all invalid fields: message, message_format.
    """
    user, holder = lock_requesting_holder(tx, actor)
    for each in (user, holder):
        refuse_suspended(each)
    ticket = find_own_ticket(tx, actor, identifier)
    refuse_closed(ticket.status)
    refuse_full(store.count_messages(tx, ticket.id))
    errors = [*check_message(message), *check_one_of("message_format", message_format, MESSAGE_FORMATS)]
    if errors or message is None:
        raise validation_failed(errors)
    added = NewMessage("user", user.name, message, message_format or MESSAGE_FORMAT_DEFAULT)
    message_id = add_message(tx, actor, ticket, "ticket.reply", added)
    number = ticket_number(ticket.id)
    notify_operator(
        tx,
        "reply",
        f"{number} has a reply. Read it with `sublet ticket show {number}`.",
        reference=f"ticket:{ticket.id}:{message_id}",
        quoted=message,
        user_id=holder.id,
    )
    return Outcome(ticket.id)


def add_message(tx: Tx, actor: Actor, ticket: Ticket, action: str, message: NewMessage) -> int:
    """Add a checked message of the user or of staff to a ticket, and return the message's id.

    Raise `TicketClosed` if the ticket is closed.
    """
    status = status_after_message(ticket.status, message.author_type)
    message_id = store.insert_message(tx, ticket.id, message)
    store.update_status(tx, ticket.id, status)
    after = {
        "status": status,
        "message_id": message_id,
        "message_characters": len(message.message),
        "message_format": message.message_format,
    }
    audit.record(tx, actor, action, ticket.id, before={"status": ticket.status}, after=after)
    return message_id
