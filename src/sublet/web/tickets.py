"""The pages of support tickets: the list, a new ticket, and a ticket with its messages."""

from typing import Any

from starlette.responses import Response

from sublet.errors import Refusal
from sublet.web.page import PageCall

PAGE_LIMIT = 50
NAMES_MAX = 200
"""The maximum number of names that the form of a new ticket offers. The newest names are."""
FILTERS = ("status", "type", "cursor")
STATUSES = ("open", "answered", "closed")
TYPE_DEFAULT = "support"
TYPE_WORDS = {TYPE_DEFAULT: "Support", "contact": "A question", "abuse": "Abuse"}


async def show_list(call: PageCall) -> Response:
    """Show the tickets."""
    filters = {name: call.request.query_params.get(name, "") for name in FILTERS}
    shown: dict[str, Any] = {
        "filters": filters,
        "statuses": [(each, each) for each in STATUSES],
        "types": list(TYPE_WORDS.items()),
    }
    try:
        found = await call.api("list_tickets", query={**filters, "limit": PAGE_LIMIT})
    except Refusal as refusal:
        return call.render("tickets", refusal=refusal, tickets=[], page=None, **shown)
    return call.render("tickets", tickets=found.tickets, page=found.page, **shown)


async def show_new(call: PageCall) -> Response:
    """Show the form of a new ticket."""
    return await _render_form(call)


async def open_ticket(call: PageCall) -> Response:
    """Open a ticket."""
    members = {name: call.form.text(name) for name in ("subject", "message", "type")}
    try:
        members["fqdn"] = await _complete_name(call, call.form.text("fqdn"))
        opened = await call.api("open_ticket", members)
    except Refusal as refusal:
        return await _render_form(call, refusal)
    number = opened.ticket.ticket_number
    return call.redirect(
        f"/tickets/{number}", f"Your ticket {number} is open. You get the answer by mail too."
    )


async def show_one(call: PageCall) -> Response:
    """Show a ticket."""
    return await _render_ticket(call)


async def reply(call: PageCall) -> Response:
    """Reply to a ticket."""
    number = call.parameters["id"]
    try:
        await call.api("reply", {"message": call.form.text("message")}, id=number)
    except Refusal as refusal:
        return await _render_ticket(call, refusal)
    return call.redirect(f"/tickets/{number}", "Your reply is sent.")


async def _complete_name(call: PageCall, typed: str | None) -> str | None:
    """Return the user's name with the typed label if there is exactly one, otherwise the typed text."""
    if not typed or "." in typed:
        return typed
    found = await call.api("list_subdomains", query={"q": typed, "limit": NAMES_MAX})
    own = [each.fqdn for each in found.subdomains if each.label == typed.lower()]
    return own[0] if len(own) == 1 else typed


async def _render_form(call: PageCall, refusal: Refusal | None = None) -> Response:
    fqdn = call.request.query_params.get("fqdn", "")
    names = await call.api("list_subdomains", query={"limit": NAMES_MAX})
    return call.render(
        "ticket_new",
        refusal=refusal,
        types=list(TYPE_WORDS.items()),
        default=TYPE_DEFAULT,
        fqdn=fqdn,
        names=[each.fqdn for each in names.subdomains],
    )


async def _render_ticket(call: PageCall, refusal: Refusal | None = None) -> Response:
    ticket = (await call.api("get_ticket", id=call.parameters["id"])).ticket
    return call.render("ticket", refusal=refusal, ticket=ticket, type_words=TYPE_WORDS)
