"""The pages of support tickets: the list, a new ticket, and a ticket with its messages."""

from hashlib import sha256

from starlette.responses import Response

from sublet.dns.names import LABEL_OCTETS_MAX
from sublet.web.form import KEY_FIELD
from sublet.web.page import PageCall, set_cookie
from sublet.web.waiting import ANSWERED_FOR, READ_COOKIE, add_mark, read_mark

NAMES_MAX = 200
"""The maximum number of names that the form of a new ticket offers. The newest names are."""
STATUSES = ("open", "answered", "closed")
TYPE_DEFAULT = "support"
TYPE_WORDS = {TYPE_DEFAULT: "Support", "contact": "A question", "abuse": "Abuse"}


async def show_list(call: PageCall) -> Response:
    """Show the tickets."""
    filters = call.filters("status", "type", "cursor")
    found = await call.find_page("list_tickets", filters)
    listed = found.tickets if found else ()
    return await call.render(
        "tickets",
        filters=filters,
        statuses=[(each, each) for each in STATUSES],
        types=list(TYPE_WORDS.items()),
        unread=[
            each.id for each in listed if read_mark(each.id, each.last_message_at) in call.waiting.answers
        ],
        found=found,
    )


async def show_new(call: PageCall) -> Response:
    """Show the form of a new ticket."""
    names = await call.api("list_subdomains", query={"limit": NAMES_MAX})
    return await call.render(
        "ticket_new",
        types=list(TYPE_WORDS.items()),
        default=TYPE_DEFAULT,
        fqdn=call.request.query_params.get("fqdn", ""),
        names=[each.fqdn for each in names.subdomains],
    )


async def open_ticket(call: PageCall) -> Response:
    """Open a ticket."""
    members = {name: call.form.text(name) for name in ("subject", "message", "type")}
    members["fqdn"] = await _complete_name(call, call.form.text("fqdn"))
    # The key depends on the texts alone, so that a form that the browser has loaded again opens no second
    # ticket.
    call.form[KEY_FIELD] = sha256(repr(sorted(members.items())).encode()).hexdigest()
    opened = await call.api("open_ticket", members)
    number = opened.ticket.ticket_number
    return call.redirect(
        f"/tickets/{number}", f"Your ticket {number} is open. You get the answer by mail too."
    )


async def show_one(call: PageCall) -> Response:
    """Show a ticket. Its answer doesn't wait any more."""
    ticket = (await call.api("get_ticket", id=call.parameters["id"])).ticket
    marks = call.request.cookies.get(READ_COOKIE, "")
    marks = add_mark(marks, read_mark(ticket.id, ticket.last_message_at))
    call.waiting = call.waiting.without_read(marks)
    response = await call.render("ticket", ticket=ticket, type_words=TYPE_WORDS)
    set_cookie(response, READ_COOKIE, marks, int(ANSWERED_FOR.total_seconds()))
    return response


async def reply(call: PageCall) -> Response:
    """Reply to a ticket."""
    number = call.parameters["id"]
    await call.api("reply", {"message": call.form.text("message")}, id=number)
    return call.redirect(f"/tickets/{number}", "Your reply is stored.")


async def _complete_name(call: PageCall, typed: str | None) -> str | None:
    """Return the user's name with the typed label if there is exactly one, otherwise the typed text."""
    if not typed or "." in typed or len(typed) > LABEL_OCTETS_MAX:
        return typed
    found = await call.api("list_subdomains", query={"q": typed, "limit": NAMES_MAX})
    own = [each.fqdn for each in found.subdomains if each.label == typed.lower()]
    return own[0] if len(own) == 1 else typed
