"""`sublet ticket …`: the users' tickets, read and answered by staff."""

import sys
from typing import Annotated, Any

import typer

from sublet.cli.commands import new_app
from sublet.cli.output import Answer, Table, facts, shown_cell
from sublet.cli.session import Session, change, question
from sublet.dns.names import shown
from sublet.errors import FieldError, validation_failed
from sublet.ids import ticket_number
from sublet.mail.store import find_by_reference
from sublet.subdomains.naming import canonical_domain
from sublet.tickets.find import show_for_staff
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

TicketName = Annotated[str, typer.Argument(metavar="TICKET", help="The ticket's number (T-000123) or id.")]
Message = Annotated[
    str | None, typer.Option("--message", metavar="TEXT", help="Without it, it is read from stdin.")
]
Author = Annotated[str, typer.Option("--author", metavar="NAME", help="Whom the user sees as the author.")]
MessageFormat = Annotated[
    str | None, typer.Option("--format", metavar="FORMAT", help=f"One of {', '.join(MESSAGE_FORMATS)}.")
]
_PRIORITIES = f"One of {', '.join(PRIORITIES)}"
AUTHOR_NAME = "Support"


def _describe(ticket: Ticket, *, with_messages: bool = True) -> dict[str, Any]:
    own = {name: getattr(ticket, name) for name in Ticket.__slots__ if name != "messages"}
    messages = {"messages": ticket.messages} if with_messages else {}
    return {"id": own.pop("id"), "number": ticket_number(ticket.id), **own, **messages}


def _mailed(session: Session, ticket: Ticket) -> tuple[str, ...]:
    """Return the line about the mail that brings the newest message of ours; none where there is no such mail."""
    ours = [each for each in ticket.messages if each.author_type != "user"]
    mail = session.read(find_by_reference, mail_reference(ticket.id, ours[-1].id)) if ours else None
    if mail is None:
        return ()
    if session.settings.mail_transport == "log":
        return (f"Not mailed to {mail.recipient}: mail_transport is log.",)
    return (f"Mailed to {mail.recipient}.",)


@question(app, "list")
def list_(
    session: Session,
    status: Annotated[
        str | None, typer.Option("--status", metavar="STATUS", help=f"One of {', '.join(TICKET_STATUSES)}.")
    ] = None,
    type_: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help=f"One of {', '.join(TICKET_TYPES)}.")
    ] = None,
    subdomain: Annotated[
        str | None,
        typer.Option("--subdomain", metavar="NAME", help="About this name, whoever holds or held it."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="Most rows.")] = 100,
) -> Answer:
    """List tickets of all users, the last spoken in first."""
    errors = [
        FieldError(field, "value_invalid", f"Give one of {', '.join(allowed)}.")
        for field, text, allowed in (("status", status, TICKET_STATUSES), ("type", type_, TICKET_TYPES))
        if text is not None and text not in allowed
    ]
    fqdn = canonical_domain(subdomain) if subdomain is not None else None
    if subdomain is not None and fqdn is None:
        errors.append(
            FieldError(
                "subdomain",
                "value_invalid",
                f"`{shown(subdomain)}` is no full name. Give it with its domain.",
            )
        )
    if errors:
        raise validation_failed(errors)
    tickets = session.read(list_tickets, TicketFilter(status=status, type=type_, subdomain=fqdn), limit)
    rows = tuple(
        (
            ticket_number(each.id),
            each.status,
            each.priority,
            each.type,
            each.requester_email,
            each.subdomain,
            each.subject,
            each.last_message_at,
        )
        for each in tickets
    )
    columns = ("number", "status", "priority", "type", "from", "about", "subject", "last message")
    return Answer(
        [_describe(each, with_messages=False) for each in tickets],
        table=Table(columns, rows, "There are no such tickets."),
    )


@question(app, "show")
def show(session: Session, ticket: TicketName) -> Answer:
    """Show a ticket with all its messages."""
    found = session.read(show_for_staff, ticket)
    lines = list(
        facts(
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
        head = f"── {shown_cell(message.created_at)}, {message.author_name} ({message.author_type})"
        lines += ["", head, message.message]
    return Answer(_describe(found), tuple(lines))


@change(app, "open")
def open_(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The full name, or the subdomain's id.")],
    subject: Annotated[str, typer.Option("--subject", metavar="TEXT", help="One line.")],
    message: Message = None,
    type_: Annotated[
        str, typer.Option("--type", metavar="TYPE", help=f"One of {', '.join(TICKET_TYPES)}.")
    ] = "abuse",
    priority: Annotated[
        str | None,
        typer.Option("--priority", metavar="PRIORITY", help=f"{_PRIORITIES}; else that of the type."),
    ] = None,
    author: Author = AUTHOR_NAME,
    message_format: MessageFormat = None,
) -> Answer:
    """Open a ticket about a name with the user who holds it, who reads all of it; abuse, unless said otherwise."""
    text = sys.stdin.read() if message is None else message
    done = session.write(
        staff_open,
        name,
        subject,
        text,
        author,
        ticket_type=type_,
        message_format=message_format,
        priority=priority,
    )
    found = session.read(show_for_staff, str(done.id))
    line = f"{ticket_number(done.id)} is opened with {found.requester_email}, about {found.subdomain}."
    return Answer(_describe(found), (line, *_mailed(session, found)))


@change(app, "reply")
def reply(
    session: Session,
    ticket: TicketName,
    message: Message = None,
    author: Author = AUTHOR_NAME,
    message_format: MessageFormat = None,
) -> Answer:
    """Answer a ticket as staff."""
    text = sys.stdin.read() if message is None else message
    done = session.write(staff_reply, ticket, text, author, message_format=message_format)
    found = session.read(show_for_staff, str(done.id))
    return Answer(
        _describe(found), (f"{ticket_number(done.id)} is {found.status}.", *_mailed(session, found))
    )


@change(app, "edit")
def edit(
    session: Session,
    ticket: TicketName,
    priority: Annotated[str, typer.Option("--priority", metavar="PRIORITY", help=f"{_PRIORITIES}.")],
) -> Answer:
    """Change a ticket's priority; its user sees it and gets no mail."""
    done = session.write(set_priority, ticket, priority)
    found = session.read(show_for_staff, str(done.id))
    return Answer(_describe(found), (f"{ticket_number(done.id)} has the priority {found.priority}.",))


@change(app, "close")
def close(session: Session, ticket: TicketName) -> Answer:
    """Close a ticket; that is final."""
    done = session.write(close_verb, ticket)
    found = session.read(show_for_staff, str(done.id))
    return Answer(_describe(found), (f"{ticket_number(done.id)} is closed.", *_mailed(session, found)))
