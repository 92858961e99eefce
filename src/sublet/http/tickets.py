"""Handlers of the ticket endpoints (spec, part 4, "Support tickets")."""

from collections.abc import Iterator
from typing import Any

from sublet.db import Tx
from sublet.http import response_structs
from sublet.http.conditional import only_if_match
from sublet.http.endpoints import Answer, Call
from sublet.http.idempotency import write_once
from sublet.http.paging import read_page
from sublet.http.request_structs import ReplyBody, TicketBody, TicketsQuery
from sublet.ids import Position
from sublet.tickets import store
from sublet.tickets.find import find_own_ticket_with_messages
from sublet.tickets.model import TicketFilter, TicketRequest
from sublet.tickets.open_ticket import open_ticket
from sublet.tickets.reply import reply


async def list_tickets(call: Call[None, TicketsQuery]) -> Answer[response_structs.TicketsAnswer]:
    """List the user's tickets.

    Returns the tickets without their messages, the most recent first.
    """
    query = call.query
    wanted = TicketFilter(status=query.status, type=query.type, archived=query.archived)
    actor = call.actor()

    def find(
        tx: Tx, limit: int, after: Position | None
    ) -> Iterator[tuple[Position, response_structs.TicketShape]]:
        for each in store.list_own(tx, actor, wanted, limit, after):
            yield Position(each.last_message_at, each.id), response_structs.TicketShape.of(each)

    items, page, headers = await read_page(call, "tickets", find)
    return Answer(response_structs.TicketsAnswer(tickets=items, page=page), headers)


async def get_ticket(call: Call[None, None]) -> Answer[response_structs.TicketAnswer]:
    """Get a ticket.

    Returns the ticket with this id or number, with its messages, oldest first.
    """
    return Answer(await call.context.db.read(_answer, call, call.path["id"]))


async def open_ticket_(call: Call[TicketBody, None]) -> Answer[response_structs.TicketAnswer]:
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
    done = await write_once(call, 201, open_ticket, call.actor(), command)
    return done.answer(await call.context.db.read(_answer, call, str(done.outcome.id)))


async def reply_(call: Call[ReplyBody, None]) -> Answer[response_structs.TicketAnswer]:
    """Reply to a ticket.

    The ticket must be the user's own, not closed, and have fewer than 200 messages.
    """
    body = call.body
    done = await write_once(
        call,
        200,
        only_if_match(call, reply, lambda tx: _answer(tx, call, call.path["id"])),
        call.actor(),
        call.path["id"],
        body.message,
        body.message_format,
    )
    return done.answer(await call.context.db.read(_answer, call, str(done.outcome.id)))


def _answer(tx: Tx, call: Call[Any, Any], identifier: str) -> response_structs.TicketAnswer:
    return response_structs.TicketAnswer(
        ticket=response_structs.TicketDetailShape.of(
            find_own_ticket_with_messages(tx, call.actor(), identifier)
        )
    )
