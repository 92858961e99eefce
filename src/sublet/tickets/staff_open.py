"""Open a ticket about a name with whoever holds it: the operator's verb (docs/spec-choices.md, "Tickets")."""

from sublet.accounts import store as account_store
from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.errors import validation_failed
from sublet.subdomains.find import lock_for_operator, refuse_gone
from sublet.tickets.add_ticket import add_ticket
from sublet.tickets.find import find_for_staff
from sublet.tickets.lifecycle import (
    AUTHOR_NAME_CHARACTERS_MAX,
    MESSAGE_FORMAT_DEFAULT,
    SUBJECT_CHARACTERS_MAX,
    check_line,
    check_message,
    check_message_format,
    check_priority,
    check_type,
    status_after_message,
)
from sublet.tickets.mail_requester import mail_requester


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
    """Open a ticket of the user who holds a name (live or in the trash), about that name; return the ticket's id.

    Staff spoke in it, so it is answered, and the message goes to the user by mail. The user reads all of it: who complained, and why
    staff thinks what it does, is for the actor's reason, which is the audit's alone.

    Raises, in this order:
        NotFound: no such name.
        Conflict: it was purged: nobody holds it.
        ValidationFailed: all wrong fields: subject, author_name, message, type, message_format, priority.
    """
    subdomain = lock_for_operator(tx, identifier)
    refuse_gone(subdomain)
    errors = [
        *check_line("subject", subject, SUBJECT_CHARACTERS_MAX),
        *check_line("author_name", author_name, AUTHOR_NAME_CHARACTERS_MAX),
        *check_message(message),
        *check_type(ticket_type),
        *check_message_format(message_format),
        *check_priority(priority),
    ]
    if errors or subject is None or message is None:
        raise validation_failed(errors)
    # From here on it must succeed.
    user = account_store.find_user(tx, subdomain.user_id)
    assert user is not None  # noqa: S101 - the foreign key holds it
    ticket_id, message_id = add_ticket(
        tx,
        actor,
        user,
        subdomain_id=subdomain.id,
        ticket_type=ticket_type,
        status=status_after_message("open", "staff"),
        subject=subject,
        author_type="staff",
        author_name=author_name,
        message=message,
        message_format=message_format or MESSAGE_FORMAT_DEFAULT,
        priority=priority,
    )
    mail_requester(tx, find_for_staff(tx, str(ticket_id)), message_id, author_name, message)
    return Outcome(ticket_id)
