"""Handlers of support tickets (spec, part 4, "Support tickets")."""

from sublet.db import Tx
from sublet.http import shapes
from sublet.http.bodies import ReplyBody, TicketBody, TicketsQuery
from sublet.http.endpoints import Answer, Call
from sublet.http.idempotency import write_once
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
    found = await call.context.db.read(store.list_own, user_id, wanted, query.limit + 1, after)
    items, page, headers = make_page(call, "tickets", found, lambda each: Position(each.last_message_at, each.id))
    return Answer(shapes.TicketsAnswer(tickets=[ticket_shape(item) for item in items], page=page), headers)
