"""What a mail about a ticket says: pure, plain text, to be read without the API."""

from sublet.ids import ticket_number
from sublet.tickets.model import Ticket


def mail_subject(ticket: Ticket) -> str:
    """Return the subject of every mail about a ticket, so that mail programs keep them together."""
    return f"Re: [{ticket_number(ticket.id)}] {ticket.subject}"


def mail_text(ticket: Ticket, author_name: str, message: str) -> str:
    """Return the text of the mail that brings a message of staff or the system: the message first, as it was written.

    Markdown stays as it was typed: it was made to be readable so.
    """
    number = ticket_number(ticket.id)
    about = f", about {ticket.subdomain}" if ticket.subdomain else ""
    return (
        f"{author_name} wrote in your ticket {number}{about}:\n"
        "\n"
        f"{message.strip()}\n"
        "\n"
        "-- \n"
        f'Your ticket {number}, "{ticket.subject}", was opened on {ticket.created_at:%Y-%m-%d}.\n'
        f"Answers to this mail are not read. Reply with POST /support/tickets/{number}/reply instead.\n"
    )
