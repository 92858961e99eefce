"""The API of support tickets (spec, part 4, "Support tickets")."""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from sublet.db import Tx
from sublet.errors import (
    AccountSuspended,
    Conflict,
    PreconditionFailed,
    TicketClosed,
    TicketNotFound,
    ValidationFailed,
)
from sublet.ids import Position
from sublet.operations import tags
from sublet.operations.call import Answer, Call
from sublet.operations.conditional import only_if_match
from sublet.operations.idempotency import write_once
from sublet.operations.operation import API, Operations, Parameter, not_sensitive
from sublet.operations.paging import Paging
from sublet.operations.shapes import (
    NOW,
    PAGE,
    Body,
    HostName,
    Id,
    Moment,
    PageQuery,
    PageShape,
    Shape,
    Success,
    one_of,
)
from sublet.tickets import store
from sublet.tickets.find import find_own_ticket_with_messages
from sublet.tickets.model import (
    AUTHOR_TYPES,
    MESSAGE_FORMATS,
    PRIORITIES,
    TICKET_STATUSES,
    TICKET_TYPES,
    TicketFilter,
    TicketRequest,
)
from sublet.tickets.open_ticket import open_ticket
from sublet.tickets.reply import reply

api = Operations(API, tags.TICKETS, id=Parameter("The ticket's id or its number.", "T-000123"))

_TICKET: dict[str, Any] = {
    "id": 123,
    "ticket_number": "T-000123",
    "type": "support",
    "status": "open",
    "priority": "normal",
    "subject": "How do I add a second nameserver?",
    "requester_email": "ada@example.org",
    "subdomain": "blog.example.net",
    "archived": False,
    "created_at": NOW,
    "last_message_at": NOW,
    "updated_at": NOW,
}

_MESSAGE = {
    "id": 301,
    "author_type": "user",
    "author_name": "Ada",
    "message": "My provider gave me two. Where does the second one go?",
    "message_format": "text",
    "created_at": NOW,
}

_OPEN_TICKET = {"ticket": {**_TICKET, "messages": [_MESSAGE]}}


class MessageShape(Shape):
    """A message of a ticket, as it was sent."""

    id: Id
    author_type: Annotated[str, one_of(AUTHOR_TYPES)]
    author_name: str
    message: str
    message_format: Annotated[str, one_of(MESSAGE_FORMATS)]
    created_at: Moment


class TicketShape(Shape):
    """A ticket as lists show it."""

    id: Id
    ticket_number: Annotated[str, Meta(pattern="^T-[0-9]{6,}$")]
    type: Annotated[str, one_of(TICKET_TYPES)]
    status: Annotated[str, one_of(TICKET_STATUSES)]
    priority: Annotated[str, one_of(PRIORITIES)]
    subject: str
    requester_email: str
    subdomain: HostName | None
    archived: bool
    created_at: Moment
    last_message_at: Moment
    updated_at: Moment


class TicketDetailShape(TicketShape):
    """A ticket with its messages, oldest first."""

    changed_by_requests: ClassVar = ("id", "messages")

    messages: list[MessageShape]


class TicketsAnswer(Success, kw_only=True):
    """The user's tickets, most recent first."""

    tickets: list[TicketShape]
    page: PageShape


class TicketAnswer(Success, kw_only=True):
    """One ticket with its messages."""

    ticket: TicketDetailShape


class TicketBody(Body):
    """A new ticket.

    `subdomain_id`, `subdomain` or `fqdn` names the user's subdomain that the ticket is about.
    """

    required_members: ClassVar[tuple[str, ...]] = ("subject", "message")

    subject: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    message: Annotated[str, Meta(min_length=1, max_length=20_000)] | None = None
    type: Annotated[str, Meta(extra_json_schema={"enum": list(TICKET_TYPES)})] | None = None
    subdomain_id: Annotated[int, Meta(ge=1)] | None = None
    subdomain: Annotated[str, Meta(max_length=254)] | None = None
    fqdn: Annotated[str, Meta(max_length=254)] | None = None
    message_format: Annotated[str, Meta(extra_json_schema={"enum": list(MESSAGE_FORMATS)})] | None = None


class ReplyBody(Body):
    """A reply to a ticket."""

    required_members: ClassVar[tuple[str, ...]] = ("message",)

    message: Annotated[str, Meta(min_length=1, max_length=20_000)] | None = None
    message_format: Annotated[str, Meta(extra_json_schema={"enum": list(MESSAGE_FORMATS)})] | None = None


class TicketsQuery(PageQuery, kw_only=True):
    """The filters of the list of tickets."""

    status: Literal["open", "answered", "closed"] | None = None
    type: Literal["contact", "abuse", "support"] | None = None
    archived: bool | None = None


@api.get(
    "/support/tickets",
    "tickets:read",
    example={"tickets": [_TICKET], "page": PAGE},
)
def list_tickets(tx: Tx, call: Call[None, TicketsQuery]) -> Answer[TicketsAnswer]:
    """List the user's tickets.

    Returns the tickets without their messages, the most recent first.
    """
    query, paging = call.query, Paging[TicketShape](call, "tickets")
    wanted = TicketFilter(status=query.status, type=query.type, archived=query.archived)
    found = store.list_own(tx, call.actor(), wanted, paging.limit, paging.after)
    items, page, headers = paging.take(
        (Position(each.last_message_at, each.id), TicketShape.of(each)) for each in found
    )
    return Answer(TicketsAnswer(tickets=items, page=page), headers)


@api.write(
    "POST",
    "/support/tickets",
    "tickets:write",
    (ValidationFailed,),
    rate_class="ticket",
    status=201,
    gate=not_sensitive("moves nothing; a person reads it"),
    example_body={
        "subject": "How do I add a second nameserver?",
        "message": "My provider gave me two. Where does the second one go?",
        "fqdn": "blog.example.net",
    },
    example=_OPEN_TICKET,
)
async def open_ticket_(call: Call[TicketBody, None]) -> Answer[TicketAnswer]:
    """Open a ticket.

    A ticket may be about one of the user's subdomains. Suspended users may open tickets too.
    """
    body = call.body
    command = TicketRequest(
        subject=body.subject,
        message=body.message,
        type=body.type,
        subdomain_id=body.subdomain_id,
        subdomain=body.subdomain,
        fqdn=body.fqdn,
        message_format=body.message_format,
    )
    done = await write_once(call, open_ticket, call.actor(), command)
    return done.answer(await call.context.db.read(_answer, call, str(done.outcome.id)))


@api.get(
    "/support/tickets/{id}",
    "tickets:read",
    (TicketNotFound,),
    has_etag=True,
    example=_OPEN_TICKET,
)
def get_ticket(tx: Tx, call: Call[None, None]) -> TicketAnswer:
    """Get a ticket.

    Returns the ticket with this id or number, with its messages, oldest first.
    """
    return _answer(tx, call, call.path["id"])


@api.write(
    "POST",
    "/support/tickets/{id}/reply",
    "tickets:write",
    (AccountSuspended, PreconditionFailed, TicketNotFound, TicketClosed, Conflict, ValidationFailed),
    rate_class="ticket",
    gate=not_sensitive("moves nothing; a person reads it"),
    example_body={"message": "Found it, thank you."},
    example=_OPEN_TICKET,
)
async def reply_(call: Call[ReplyBody, None]) -> Answer[TicketAnswer]:
    """Reply to a ticket.

    The ticket must be the user's own, not closed, and have fewer than 200 messages.
    """
    body = call.body
    done = await write_once(
        call,
        only_if_match(call, reply, lambda tx: _answer(tx, call, call.path["id"])),
        call.actor(),
        call.path["id"],
        body.message,
        body.message_format,
    )
    return done.answer(await call.context.db.read(_answer, call, str(done.outcome.id)))


def _answer(tx: Tx, call: Call[Any, Any], identifier: str) -> TicketAnswer:
    return TicketAnswer(
        ticket=TicketDetailShape.of(find_own_ticket_with_messages(tx, call.actor(), identifier))
    )
