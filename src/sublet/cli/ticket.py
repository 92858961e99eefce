"""`sublet ticket …`: the users' tickets, for staff."""

import sys
from collections.abc import Callable
from typing import Annotated, Any

from typer import Argument, Option

from sublet.cli.options import Limit, SubdomainName
from sublet.cli.output import Answer, format_cell, key_value_lines, select_members, table_of
from sublet.cli.session import Session, audited_command, command, new_app
from sublet.dns.names import shown
from sublet.errors import FieldError, check_one_of, validation_failed
from sublet.ids import ticket_number
from sublet.mail.store import find_by_reference
from sublet.subdomains.naming import canonical_domain
from sublet.tickets.find import find_for_staff_with_messages
from sublet.tickets.model import (
    MESSAGE_FORMATS,
    PRIORITIES,
    TICKET_STATUSES,
    TICKET_TYPES,
    Ticket,
    TicketFilter,
)
from sublet.tickets.staff import close as close_verb
from sublet.tickets.staff import mail_reference, set_priority, staff_open, staff_reply
from sublet.tickets.store import list_tickets

app = new_app("Open, read, answer, edit and close tickets.")

TicketName = Annotated[str, Argument(metavar="TICKET", help="The ticket's number (T-000123) or id.")]
Message = Annotated[str | None, Option(metavar="TEXT", help="The message; default: read from stdin.")]
Author = Annotated[str, Option(metavar="NAME", help="The author's name that the user sees.")]
MessageFormat = Annotated[
    str | None, Option("--format", metavar="FORMAT", help=f"One of {', '.join(MESSAGE_FORMATS)}.")
]
_PRIORITIES = f"One of {', '.join(PRIORITIES)}"
AUTHOR_NAME = "Support"


_MEMBERS = (*Ticket.__struct_fields__[1:-1], "archived")


def _describe(ticket: Ticket) -> dict[str, Any]:
    return {"id": ticket.id, "number": ticket_number(ticket.id), **select_members(ticket, _MEMBERS)}


def _answer(
    session: Session, ticket_id: int, describe: Callable[[Ticket], str], *, mailed: bool = True
) -> Answer:
    """Return the current ticket as an answer.

    `describe` returns the text that follows the ticket's number in the first line.
    """
    found = session.read(find_for_staff_with_messages, str(ticket_id))
    lines = (f"{ticket_number(found.id)} {describe(found)}", *(_mail_lines(session, found) if mailed else ()))
    return Answer({**_describe(found), "messages": found.messages}, lines)


def _mail_lines(session: Session, ticket: Ticket) -> tuple[str, ...]:
    """Return a line about the mail with the newest message of staff or the system, or no line if there is no
    such mail.
    """
    from_registry = [each for each in ticket.messages if each.author_type != "user"]
    mail = (
        session.read(find_by_reference, mail_reference(ticket.id, from_registry[-1].id))
        if from_registry
        else None
    )
    if mail is None:
        return ()
    if session.settings.mail_transport == "log":
        return (f"Not mailed to {mail.recipient}: mail_transport is log.",)
    return (f"Mailed to {mail.recipient}.",)


@command(app, "list")
def list_(
    session: Session,
    status: Annotated[
        str | None, Option(metavar="STATUS", help=f"One of {', '.join(TICKET_STATUSES)}.")
    ] = None,
    type_: Annotated[
        str | None, Option("--type", metavar="TYPE", help=f"One of {', '.join(TICKET_TYPES)}.")
    ] = None,
    subdomain: Annotated[
        str | None, Option(metavar="NAME", help="Only about this name, including tickets of former holders.")
    ] = None,
    limit: Limit = 100,
) -> Answer:
    """List the tickets of all users, newest message first."""
    errors = [*check_one_of("status", status, TICKET_STATUSES), *check_one_of("type", type_, TICKET_TYPES)]
    fqdn = canonical_domain(subdomain) if subdomain is not None else None
    if subdomain is not None and fqdn is None:
        message = f"`{shown(subdomain)}` is not a full name. Give the name with its domain."
        errors.append(FieldError("subdomain", "value_invalid", message))
    if errors:
        raise validation_failed(errors)
    tickets = session.read(list_tickets, TicketFilter(status=status, type=type_, subdomain=fqdn), limit)
    columns = (
        "number", "status", "priority", "type", ("from", "requester_email"), ("about", "subdomain"),
        "subject",
        "last_message_at",
    )  # fmt: skip
    found = [_describe(each) for each in tickets]
    return Answer(found, table=table_of(found, columns, "There are no such tickets."))


@command(app, "show")
def show(session: Session, ticket: TicketName) -> Answer:
    """Show a ticket with all its messages."""
    found = session.read(find_for_staff_with_messages, ticket)
    lines = list(
        key_value_lines(
            number=ticket_number(found.id),
            status=found.status,
            priority=found.priority,
            type=found.type,
            requester=found.requester_email,
            subdomain=found.subdomain,
            subject=found.subject,
        )
    )
    for message in found.messages:
        head = f"── {format_cell(message.created_at)}, {message.author_name} ({message.author_type})"
        # Indented, so that no line of a message looks like the head of another message.
        lines += ["", head, *(f"  {each}".rstrip() for each in message.message.split("\n"))]
    return Answer({**_describe(found), "messages": found.messages}, tuple(lines))


@audited_command(app, "open")
def open_(
    session: Session,
    name: SubdomainName,
    subject: Annotated[str, Option(metavar="TEXT", help="The subject, one line.")],
    message: Message = None,
    type_: Annotated[
        str, Option("--type", metavar="TYPE", help=f"One of {', '.join(TICKET_TYPES)}.")
    ] = "abuse",
    priority: Annotated[
        str | None,
        Option(metavar="PRIORITY", help=f"{_PRIORITIES}; default: the type's."),
    ] = None,
    author: Author = AUTHOR_NAME,
    message_format: MessageFormat = None,
) -> Answer:
    """Open a ticket about a name for its user, who can read the whole ticket."""
    done = session.write(
        staff_open,
        name,
        subject,
        sys.stdin.read() if message is None else message,
        author,
        ticket_type=type_,
        message_format=message_format,
        priority=priority,
    )
    return _answer(
        session, done.id, lambda found: f"is open for {found.requester_email}, about {found.subdomain}."
    )


@audited_command(app, "reply")
def reply(
    session: Session,
    ticket: TicketName,
    message: Message = None,
    author: Author = AUTHOR_NAME,
    message_format: MessageFormat = None,
) -> Answer:
    """Reply to a ticket as staff."""
    text = sys.stdin.read() if message is None else message
    done = session.write(staff_reply, ticket, text, author, message_format=message_format)
    return _answer(session, done.id, lambda found: f"is {found.status}.")


@audited_command(app, "edit")
def edit(
    session: Session,
    ticket: TicketName,
    priority: Annotated[str, Option(metavar="PRIORITY", help=f"{_PRIORITIES}.")],
) -> Answer:
    """Change a ticket's priority. The user can see the priority, but gets no mail."""
    done = session.write(set_priority, ticket, priority)
    return _answer(session, done.id, lambda found: f"has the priority {found.priority}.", mailed=False)


@audited_command(app, "close")
def close(session: Session, ticket: TicketName) -> Answer:
    """Close a ticket permanently."""
    return _answer(session, session.write(close_verb, ticket).id, lambda _: "is closed.")
