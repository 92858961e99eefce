"""Open a ticket (spec, part 4, POST /support/tickets)."""

from sublet import audit
from sublet.accounts.find import lock_requesting_holder
from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.errors import FieldError, SubdomainNotFound, check_one_of, validation_failed
from sublet.ids import MAX_ID, ticket_number
from sublet.mail.operator_notices import notify_operator
from sublet.subdomains.find import find_in_account_or_trash
from sublet.subdomains.model import Subdomain
from sublet.subdomains.naming import canonical_domain
from sublet.tickets import store
from sublet.tickets.lifecycle import (
    SUBJECT_CHARACTERS_MAX,
    check_line,
    check_message,
    default_priority,
)
from sublet.tickets.model import (
    MESSAGE_FORMAT_DEFAULT,
    MESSAGE_FORMATS,
    TICKET_TYPES,
    TYPE_DEFAULT,
    NewMessage,
    TicketRequest,
)


def open_ticket(tx: Tx, actor: Actor, command: TicketRequest) -> Outcome:
    """Open a ticket with its first message, notify the operator, and return the ticket's id.

    Suspended users can open tickets too.

    The request may give a subdomain by id, by name, or by both. The subdomain may be in the trash.

    Raises, in this order:
        NotFound: the actor is not a user.
        ValidationFailed: all invalid fields: subject, message, type, message_format, and the subdomain. Its
            codes are `ticket_subdomain_invalid` (the user has no such subdomain, the token is not for it, or
            the fields give different subdomains; spec, part 7, rule 5) and `required` (the token is for some
            names only, and the request gives no subdomain).
    """
    user, holder = lock_requesting_holder(tx, actor)
    errors = [
        *check_line("subject", command.subject, SUBJECT_CHARACTERS_MAX),
        *check_message(command.message),
        *check_one_of("type", command.type, TICKET_TYPES),
        *check_one_of("message_format", command.message_format, MESSAGE_FORMATS),
    ]
    subdomain = _find_subdomain_of_request(tx, actor, command, errors)
    if errors or command.subject is None or command.message is None:
        raise validation_failed(errors)
    ticket_type = command.type or TYPE_DEFAULT
    ticket_id, message_id = add_ticket(
        tx,
        actor,
        holder,
        requester_email=user.email,
        subdomain_id=subdomain.id if subdomain is not None else None,
        ticket_type=ticket_type,
        status="open",
        subject=command.subject,
        message=NewMessage(
            "user", user.name, command.message, command.message_format or MESSAGE_FORMAT_DEFAULT
        ),
    )
    number = ticket_number(ticket_id)
    notify_operator(
        tx,
        "ticket",
        f"{number} is a new ticket of type {ticket_type}. Read it with `sublet ticket show {number}`.",
        reference=f"ticket:{ticket_id}:{message_id}",
        quoted=f"{command.subject}\n\n{command.message}",
        user_id=holder.id,
    )
    return Outcome(ticket_id)


def _find_subdomain_of_request(
    tx: Tx, actor: Actor, command: TicketRequest, errors: list[FieldError]
) -> Subdomain | None:
    """Return the subdomain that the fields of the request give, and append the errors in these fields to
    `errors`.
    """
    identifiers: dict[str, str | None] = {}
    if command.subdomain_id is not None:
        identifiers["subdomain_id"] = (
            str(command.subdomain_id) if 0 < command.subdomain_id <= MAX_ID else None
        )
    # `subdomain` may be a name or an id, like `{fqdn}` in a path (spec, part 4).
    if command.subdomain is not None:
        identifiers["subdomain"] = command.subdomain
    if command.fqdn is not None:
        identifiers["fqdn"] = canonical_domain(command.fqdn)
    if not identifiers and not actor.restrictions.allows_all_names:
        sentence = "This token is for some names only. Send the name that the ticket is about."
        errors.append(FieldError("fqdn", "required", sentence))
    first: tuple[str, Subdomain] | None = None
    for field, identifier in identifiers.items():
        found = _find_subdomain_of_user(tx, actor, identifier)
        if found is None:
            sentence = "You have no such subdomain. Check the name, or leave it out."
            errors.append(FieldError(field, "ticket_subdomain_invalid", sentence))
        elif first is None:
            first = (field, found)
        elif found.id != first[1].id:
            sentence = f"`{field}` and `{first[0]}` are different subdomains. Give only one of these fields."
            errors.append(FieldError(field, "ticket_subdomain_invalid", sentence))
    return first[1] if first is not None else None


def _find_subdomain_of_user(tx: Tx, actor: Actor, identifier: str | None) -> Subdomain | None:
    if identifier is None:
        return None
    try:
        return find_in_account_or_trash(tx, actor, identifier)
    except SubdomainNotFound:
        return None


def add_ticket(
    tx: Tx,
    actor: Actor,
    holder: User,
    *,
    requester_email: str,
    subdomain_id: int | None,
    ticket_type: str,
    status: str,
    subject: str,
    message: NewMessage,
    priority: str | None = None,
) -> tuple[int, int]:
    """Store a ticket with its first message, without checks. Return the ids of the ticket and the message.

    `priority` defaults to the type's `default_priority`.
    """
    priority = priority or default_priority(ticket_type)
    ticket_id = store.insert_ticket(
        tx,
        user_id=holder.id,
        subdomain_id=subdomain_id,
        type=ticket_type,
        status=status,
        priority=priority,
        subject=subject,
        requester_email=requester_email,
    )
    message_id = store.insert_message(tx, ticket_id, message)
    after = {
        "type": ticket_type,
        "status": status,
        "priority": priority,
        "subdomain_id": subdomain_id,
        "subject_characters": len(subject),
        "message_id": message_id,
        "message_characters": len(message.message),
        "message_format": message.message_format,
    }
    audit.record(tx, actor, "ticket.open", ticket_id, after=after)
    return ticket_id, message_id
