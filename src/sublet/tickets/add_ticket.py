"""Add a ticket with its first message: what a user's and staff's opening of one share."""

from sublet import audit
from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.db import Tx
from sublet.tickets import store
from sublet.tickets.lifecycle import first_priority


def add_ticket(
    tx: Tx,
    actor: Actor,
    user: User,
    *,
    subdomain_id: int | None,
    ticket_type: str,
    status: str,
    subject: str,
    author_type: str,
    author_name: str,
    message: str,
    message_format: str,
    priority: str | None = None,
) -> tuple[int, int]:
    """Add a ticket of a user, all of it checked, with its event; return its id and its message's.

    It keeps the user's address of now as `requester_email`. Without a priority it has that of its type.
    """
    priority = priority or first_priority(ticket_type)
    ticket_id = store.insert_ticket(
        tx,
        user_id=user.id,
        subdomain_id=subdomain_id,
        type=ticket_type,
        status=status,
        priority=priority,
        subject=subject,
        requester_email=user.email,
    )
    message_id = store.insert_message(
        tx,
        ticket_id,
        author_type=author_type,
        author_name=author_name,
        message=message,
        message_format=message_format,
    )
    audit.record(
        tx,
        actor,
        "ticket.open",
        "ticket",
        ticket_id,
        after={
            "type": ticket_type,
            "status": status,
            "priority": priority,
            "subdomain_id": subdomain_id,
            "subject_characters": len(subject),
            "message_id": message_id,
            "message_characters": len(message),
            "message_format": message_format,
        },
    )
    return ticket_id, message_id
