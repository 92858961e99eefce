"""What a mail about a ticket says: pure, plain text, to be read without the API."""

from sublet.ids import ticket_number
from sublet.tickets.model import Ticket


def mail_subject(ticket: Ticket) -> str:
    """Return the subject of every mail about a ticket, so that mail programs keep them together; a closed one's says so."""
    word = "Closed" if ticket.status == "closed" else "Re"
    return f"{word}: [{ticket_number(ticket.id)}] {ticket.subject}"


def mail_text(ticket: Ticket, author_name: str, message: str) -> str:
    """Return the text of the mail that brings a message of staff or the system: the message first, as it was written.

    A closed ticket's footer says how to go on. Markdown stays as it was typed: it was made to be readable so.
    """
    number = ticket_number(ticket.id)
    if ticket.status == "closed":  # no reply to it would be taken
        go_on = "To go on, open a new ticket: POST /support/tickets."
    else:
        go_on = f"Reply with POST /support/tickets/{number}/reply instead."
    about = f", about {ticket.subdomain}" if ticket.subdomain else ""
    return (
        f"{author_name} wrote in your ticket {number}{about}:\n"
        "\n"
        f"{message.strip()}\n"
        "\n"
        "-- \n"
        f'Your ticket {number}, "{ticket.subject}", was opened on {ticket.created_at:%Y-%m-%d}.\n'
        f"Answers to this mail are not read. {go_on}\n"
    )
