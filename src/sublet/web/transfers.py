"""The pages of transfers: sent and received offers of names."""

from starlette.responses import Response

from sublet.web.page import PageCall

STATES = ("pending", "accepted", "declined", "withdrawn", "expired")


async def show_list(call: PageCall) -> Response:
    """Show the offers."""
    filters = call.filters("state", "direction", "cursor")
    found = await call.find_page("list_transfers", filters)
    return call.render("transfers", filters=filters, states=[(each, each) for each in STATES], found=found)


async def show_one(call: PageCall) -> Response:
    """Show an offer."""
    transfer = (await call.api("get_transfer", id=str(call.parameters["id"]))).transfer
    return call.render("offer", transfer=transfer)


async def accept(call: PageCall) -> Response:
    """Accept an offered name, and show it."""
    fqdn = (await call.api("accept", id=str(call.parameters["id"]))).transfer.subdomain
    return call.redirect(f"/names/{fqdn}", f"{fqdn} is yours now.")


async def decline(call: PageCall) -> Response:
    """Decline an offered name."""
    return await _end_offer(call, "decline", "{} stays with its holder.")


async def withdraw(call: PageCall) -> Response:
    """Withdraw an own offer."""
    return await _end_offer(call, "withdraw", "The offer of {} is withdrawn.")


async def _end_offer(call: PageCall, operation: str, message: str) -> Response:
    answered = await call.api(operation, id=str(call.parameters["id"]))
    return call.redirect("/transfers", message.format(answered.transfer.subdomain))
