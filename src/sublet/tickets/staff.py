"""The staff's verbs on tickets (docs/spec-choices.md, "Tickets").

Not checked: that the actor is staff; only the operator's commands call them.
"""

from sublet import audit
from sublet.accounts import store as account_store
from sublet.accounts.find import find_member, list_addresses, refuse_deleted
from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.errors import check_one_of, validation_failed
from sublet.ids import ticket_number
from sublet.mail.letter import Message
from sublet.mail.outbox import enqueue
from sublet.structs import replace
from sublet.subdomains.find import lock_for_operator, refuse_purged
from sublet.tickets import store
from sublet.tickets.find import find_for_staff, lock_for_staff
from sublet.tickets.lifecycle import (
    AUTHOR_NAME_CHARACTERS_MAX,
    SUBJECT_CHARACTERS_MAX,
    check_line,
    check_message,
    refuse_closed,
    status_after_message,
)
from sublet.tickets.model import (
    MESSAGE_FORMAT_DEFAULT,
    MESSAGE_FORMATS,
    PRIORITIES,
    TICKET_TYPES,
    NewMessage,
    Ticket,
)
from sublet.tickets.open_ticket import add_ticket
from sublet.tickets.reply import add_message


def staff_open(
    tx: Tx,
    actor: Actor,
    identifier: str,
    subject: str | None,
    message: str | None,
    author_name: str,
    *,
    ticket_type: str = "abuse",
    message_format: str | None = None,
    priority: str | None = None,
) -> Outcome:
    """Open a ticket about a name for the name's user, and return the ticket's id.

    The name may be in the trash.

    The new ticket has the status `answered`. The user gets the message by mail. The user can read the whole
    ticket. Confidential details belong in the actor's reason, which only the audit shows.

    Raises, in this order:
        NotFound: there is no such name, or its user is deleted.
        Conflict: the name was purged.
        ValidationFailed: all invalid fields: subject, author_name, message, type, message_format, priority.
    """
    subdomain = lock_for_operator(tx, identifier)
    user = find_member(tx, subdomain.user_id).user
    refuse_deleted(user)
    refuse_purged(subdomain)
    errors = [
        *check_line("subject", subject, SUBJECT_CHARACTERS_MAX),
        *check_line("author_name", author_name, AUTHOR_NAME_CHARACTERS_MAX),
        *check_message(message),
        *check_one_of("type", ticket_type, TICKET_TYPES),
        *check_one_of("message_format", message_format, MESSAGE_FORMATS),
        *check_one_of("priority", priority, PRIORITIES),
    ]
    if errors or subject is None or message is None:
        raise validation_failed(errors)
    added = NewMessage("staff", author_name, message, message_format or MESSAGE_FORMAT_DEFAULT)
    ticket_id, message_id = add_ticket(
        tx,
        actor,
        user,
        requester_email=list_addresses(tx, user)[0],
        subdomain_id=subdomain.id,
        ticket_type=ticket_type,
        status=status_after_message("open", "staff"),
        subject=subject,
        message=added,
        priority=priority,
    )
    mail_requester(tx, find_for_staff(tx, str(ticket_id)), message_id, added)
    return Outcome(ticket_id)


def staff_reply(
    tx: Tx,
    actor: Actor,
    identifier: str,
    message: str | None,
    author_name: str,
    *,
    message_format: str | None = None,
) -> Outcome:
    """Add a message of staff to any user's ticket.

    The ticket's status becomes answered. Return the ticket's id.

    The user sees `author_name` as the author, and gets the message by mail, even if the user is suspended.

    Raises, in this order:
        TicketNotFound: there is no such ticket.
        TicketClosed: the ticket is closed.
        ValidationFailed: all invalid fields: author_name, message, message_format.
    """
    ticket = lock_for_staff(tx, identifier)
    refuse_closed(ticket.status)
    errors = [
        *check_line("author_name", author_name, AUTHOR_NAME_CHARACTERS_MAX),
        *check_message(message),
        *check_one_of("message_format", message_format, MESSAGE_FORMATS),
    ]
    if errors or message is None:
        raise validation_failed(errors)
    added = NewMessage("staff", author_name, message, message_format or MESSAGE_FORMAT_DEFAULT)
    message_id = add_message(tx, actor, ticket, "ticket.staff_reply", added)
    mail_requester(tx, ticket, message_id, added)
    return Outcome(ticket.id)


def set_priority(tx: Tx, actor: Actor, identifier: str, priority: str) -> Outcome:
    """Set the priority of any user's ticket, and return the ticket's id.

    Setting the current priority changes nothing.

    The user can see the priority, but gets no mail about the change.

    Raises, in this order:
        TicketNotFound: there is no such ticket.
        TicketClosed: the ticket is closed.
        ValidationFailed: the priority is invalid.
    """
    ticket = lock_for_staff(tx, identifier)
    refuse_closed(ticket.status)
    if errors := check_one_of("priority", priority, PRIORITIES):
        raise validation_failed(errors)
    if priority != ticket.priority:
        store.update_priority(tx, ticket.id, priority)
        before, after = {"priority": ticket.priority}, {"priority": priority}
        audit.record(tx, actor, "ticket.set_priority", ticket.id, before=before, after=after)
    return Outcome(ticket.id)


CLOSING = NewMessage(
    "system",
    "System",
    "This ticket was closed. If you need more help, open a new ticket, and mention the number of this "
    "ticket in it.",
)


def close(tx: Tx, actor: Actor, identifier: str) -> Outcome:
    """Close and thereby archive any user's ticket. Return the ticket's id.

    The message `CLOSING` is added to the ticket and mailed. Only the audit shows the actor's reason.

    Raises, in this order:
        TicketNotFound: there is no such ticket.
        TicketClosed: the ticket is closed already.
    """
    ticket = lock_for_staff(tx, identifier)
    refuse_closed(ticket.status)
    message_id = close_without_mail(tx, actor, ticket)
    mail_requester(tx, replace(ticket, status="closed"), message_id, CLOSING)
    return Outcome(ticket.id)


def close_without_mail(tx: Tx, actor: Actor, ticket: Ticket) -> int:
    """Close a ticket that isn't closed, and return the id of the system's message."""
    message_id = store.insert_message(tx, ticket.id, CLOSING)
    store.update_status(tx, ticket.id, "closed")
    before, after = {"status": ticket.status}, {"status": "closed"}
    audit.record(tx, actor, "ticket.close", ticket.id, before=before, after=after)
    return message_id


def mail_reference(ticket_id: int, message_id: int) -> str:
    """Return the unique reference of the mail that contains a ticket's message."""
    return f"ticket:{ticket_id}:message:{message_id}"


def mail_requester(tx: Tx, ticket: Ticket, message_id: int, message: NewMessage) -> None:
    """Enqueue a mail with a message of staff or the system to the ticket's `requester_email`, or to the
    owners of the organization if the requester is deleted.

    Suspended users and users who turned off reminders get this mail too, because the ticket is theirs.
    """
    user = account_store.find_user(tx, ticket.user_id)
    assert user is not None  # noqa: S101 - the foreign key ensures it
    enqueue(
        tx,
        user,
        Message(mail_subject(ticket), mail_text(ticket, message)),
        reference=mail_reference(ticket.id, message_id),
        page=f"/tickets/{ticket_number(ticket.id)}",
        recipient=ticket.requester_email if "@" in ticket.requester_email else None,
    )


def mail_subject(ticket: Ticket) -> str:
    """Return the subject of a mail about a ticket.

    The subject stays the same until the ticket is closed, so that mail programs group the mails.
    """
    prefix = "Closed" if ticket.status == "closed" else "Re"
    return f"{prefix}: [{ticket_number(ticket.id)}] {ticket.subject}"


def mail_text(ticket: Ticket, message: NewMessage) -> str:
    """Return the text of a mail: a message of staff or the system without changes, then how to reply."""
    number = ticket_number(ticket.id)
    if ticket.status == "closed":
        advice = "If you need more help, open a new ticket on the page Help."
    else:
        advice = "Reply on the page of the ticket."
    about = f", about {ticket.subdomain}" if ticket.subdomain else ""
    return (
        f"{message.author_name} wrote in your ticket {number}{about}:\n"
        "\n"
        f"{message.message.strip()}\n"
        "\n"
        "-- \n"
        f'Your ticket {number}, "{ticket.subject}", was opened on {ticket.created_at:%Y-%m-%d}.\n'
        f"Answers to this mail are not read. {advice}\n"
    )
