"""Tell whoever opened a ticket by mail what was said in it; in the transaction of the message itself."""

from sublet.accounts import store as account_store
from sublet.db import Tx
from sublet.mail.outbox import enqueue
from sublet.tickets.mail_text import mail_subject, mail_text
from sublet.tickets.model import Ticket


def mail_reference(ticket_id: int, message_id: int) -> str:
    """Return the reference of the mail that brings a message of a ticket."""
    return f"ticket:{ticket_id}:message:{message_id}"


def mail_requester(tx: Tx, ticket: Ticket, message_id: int, author_name: str, message: str) -> None:
    """Put a message of staff or the system into the outbox, to the address that the ticket was opened from.

    It is an answer that was asked for: a suspended user gets it, and one that wants no reminders.
    """
    user = account_store.find_user(tx, ticket.user_id)
    assert user is not None  # noqa: S101 - the foreign key holds it
    enqueue(
        tx,
        user,
        reference=mail_reference(ticket.id, message_id),
        subject=mail_subject(ticket),
        text=mail_text(ticket, author_name, message),
        recipient=ticket.requester_email,
    )
