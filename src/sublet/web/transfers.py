"""The pages of transfers: sent and received offers of names."""

from starlette.responses import Response

from sublet.errors import Refusal
from sublet.web.page import PageCall

PAGE_LIMIT = 50
STATES = ("pending", "accepted", "declined", "withdrawn", "expired")
FILTERS = ("state", "direction", "cursor")


async def show_list(call: PageCall) -> Response:
    """Show the offers."""
    filters = {name: call.request.query_params.get(name, "") for name in FILTERS}
    states = [(each, each) for each in STATES]
    try:
        found = await call.api("list_transfers", query={**filters, "limit": PAGE_LIMIT})
    except Refusal as refusal:
        return call.render(
            "transfers", refusal=refusal, filters=filters, states=states, transfers=[], page=None
        )
    return call.render(
        "transfers", filters=filters, states=states, transfers=found.transfers, page=found.page
    )


async def show_one(call: PageCall) -> Response:
    """Show an offer."""
    return await _render_offer(call)


async def accept(call: PageCall) -> Response:
    """Accept an offered name."""
    return await _end_offer(call, "accept", "{} is yours now.")


async def decline(call: PageCall) -> Response:
    """Decline an offered name."""
    return await _end_offer(call, "decline", "{} stays with its holder.")


async def withdraw(call: PageCall) -> Response:
    """Withdraw an own offer."""
    return await _end_offer(call, "withdraw", "The offer of {} is withdrawn.")


async def _end_offer(call: PageCall, operation: str, message: str) -> Response:
    try:
        answered = await call.api(operation, id=str(call.parameters["id"]))
    except Refusal as refusal:
        return await _render_offer(call, refusal)
    return call.redirect("/transfers", message.format(answered.transfer.subdomain))


async def _render_offer(call: PageCall, refusal: Refusal | None = None) -> Response:
    transfer = (await call.api("get_transfer", id=str(call.parameters["id"]))).transfer
    return call.render("offer", refusal=refusal, transfer=transfer)
