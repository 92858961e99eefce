"""Reply to a ticket as staff: the operator's verb (docs/spec-choices.md, "Tickets")."""

from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.tickets.find import lock_for_staff
from sublet.tickets.lifecycle import AUTHOR_NAME_CHARACTERS_MAX, check_line
from sublet.tickets.mail_requester import mail_requester
from sublet.tickets.reply import add_message


def staff_reply(
    tx: Tx,
    actor: Actor,
    identifier: str,
    message: str | None,
    author_name: str,
    *,
    message_format: str | None = None,
) -> Outcome:
    """Add a message of staff to any user's ticket, which is then answered; return the ticket's id.

    `author_name` is what the user sees as the author. The answer goes to the ticket's requester by mail too. Not checked:
    that the actor is staff; only the operator's edge calls this. A suspended user's ticket can be answered.

    Raises, in this order:
        TicketNotFound: there is no such ticket.
        TicketClosed: it is closed.
        ValidationFailed: all wrong fields: author_name, message, message_format.
    """
    ticket = lock_for_staff(tx, identifier)
    message_id = add_message(
        tx,
        actor,
        ticket,
        action="ticket.staff_reply",
        author_type="staff",
        author_name=author_name,
        message=message,
        message_format=message_format,
        errors_before=tuple(check_line("author_name", author_name, AUTHOR_NAME_CHARACTERS_MAX)),
    )
    mail_requester(tx, ticket, message_id, author_name, message or "")
    return Outcome(ticket.id)
