"""Reply to a ticket as its user (spec, part 4, POST /support/tickets/{id}/reply)."""

from sublet import audit
from sublet.accounts.find import lock_acting_user
from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.errors import FieldError, validation_failed
from sublet.tickets import store
from sublet.tickets.find import find_own
from sublet.tickets.lifecycle import (
    MESSAGE_FORMAT_DEFAULT,
    check_message,
    check_message_format,
    refuse_closed,
    refuse_full,
    status_after_message,
)
from sublet.tickets.model import Ticket


def reply(
    tx: Tx, actor: Actor, identifier: str, message: str | None, message_format: str | None = None
) -> Outcome:
    """Add the user's message to the user's own ticket, which is then open. Return the ticket's id.

    Raises, in this order:
        AccountSuspended: the user is suspended. A suspended user may open a ticket instead.
        TicketNotFound: the user has no such ticket.
        TicketClosed: it is closed (spec, part 3, rule 3).
        Conflict: it has the maximum number of messages.
        ValidationFailed: all invalid fields: message, message_format.
    """
    user = lock_acting_user(tx, actor)
    ticket = find_own(tx, user.id, identifier)
    refuse_closed(ticket.status)
    refuse_full(store.count_messages(tx, ticket.id))
    add_message(
        tx,
        actor,
        ticket,
        action="ticket.reply",
        author_type="user",
        author_name=user.name,
        message=message,
        message_format=message_format,
    )
    return Outcome(ticket.id)


def add_message(
    tx: Tx,
    actor: Actor,
    ticket: Ticket,
    *,
    action: str,
    author_type: str,
    author_name: str,
    message: str | None,
    message_format: str | None,
    errors_before: tuple[FieldError, ...] = (),
) -> int:
    """Add a message to a ticket, and return the message's id. The replies of users and of staff share this.

    `errors_before` are errors that the caller found; they are reported together with those found here. Not checked: whether the author may
    write in this ticket.

    Raises, in this order:
        TicketClosed: it is closed.
        ValidationFailed: all invalid fields: the caller's, message, message_format.
    """
    status = status_after_message(ticket.status, author_type)
    errors = [*errors_before, *check_message(message), *check_message_format(message_format)]
    if errors or message is None:
        raise validation_failed(errors)
    # From here on it must succeed.
    message_format = message_format or MESSAGE_FORMAT_DEFAULT
    message_id = store.insert_message(
        tx,
        ticket.id,
        author_type=author_type,
        author_name=author_name,
        message=message,
        message_format=message_format,
    )
    store.update_status(tx, ticket.id, status)
    audit.record(
        tx,
        actor,
        action,
        ticket.id,
        before={"status": ticket.status},
        after={
            "status": status,
            "message_id": message_id,
            "message_characters": len(message),
            "message_format": message_format,
        },
    )
    return message_id
