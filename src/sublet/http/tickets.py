"""Handlers of support tickets (spec, part 4, "Support tickets")."""

from typing import Any

from sublet.db import Tx
from sublet.http import shapes
from sublet.http.bodies import ReplyBody, TicketBody, TicketsQuery
from sublet.http.endpoints import Answer, Call
from sublet.http.idempotency import Done, write_once
from sublet.http.paging import make_page, position_of
from sublet.http.render import ticket_detail_shape, ticket_shape
from sublet.ids import Position
from sublet.tickets import store
from sublet.tickets.find import find_own
from sublet.tickets.model import OpenTicket, Ticket, TicketFilter
from sublet.tickets.open_ticket import open_ticket
from sublet.tickets.reply import reply


async def list_tickets(call: Call[None, TicketsQuery]) -> Answer:
    """The user's tickets, most recent first."""
    after = position_of(call, "tickets")
    query = call.query
    wanted = TicketFilter(status=query.status, type=query.type, archived=query.archived)
    user_id = call.registrant.user.id
    found = await call.context.db.read_apart(store.list_own, user_id, wanted, query.limit + 1, after)
    items, page, headers = make_page(
        call, "tickets", found, lambda each: Position(each.last_message_at, each.id)
    )
    return Answer(shapes.TicketsAnswer(tickets=[ticket_shape(item) for item in items], page=page), headers)


async def get_ticket(call: Call[None, None]) -> Answer:
    """One of the user's own tickets, with its messages."""
    return await _ticket(call, call.path["id"])


async def open_(call: Call[TicketBody, None]) -> Answer:
    """Open a ticket."""
    body = call.body
    command = OpenTicket(
        subject=body.subject,
        message=body.message,
        type=body.type,
        subdomain_id=body.subdomain_id,
        subdomain=body.subdomain,
        fqdn=body.fqdn,
        message_format=body.message_format,
    )
    done = await write_once(call, 201, open_ticket, call.actor(), command)
    return await _ticket(call, str(done.outcome.id), done)


async def reply_(call: Call[ReplyBody, None]) -> Answer:
    """Reply to one of the user's own tickets that is not closed."""
    body = call.body
    done = await write_once(
        call, 200, reply, call.actor(), call.path["id"], body.message, body.message_format
    )
    return await _ticket(call, str(done.outcome.id), done)


async def _ticket(call: Call[Any, Any], identifier: str, done: Done | None = None) -> Answer:
    def read(tx: Tx) -> Ticket:
        return find_own(tx, call.registrant.user.id, identifier)

    ticket = await call.context.db.read(read)
    answer = shapes.TicketAnswer(ticket=ticket_detail_shape(ticket))
    return Answer(answer, done.headers, done.status) if done else Answer(answer)
