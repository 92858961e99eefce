"""The page of credits: the balance, the packages on sale, and the history."""

from starlette.responses import Response

from sublet.web.page import PageCall


async def show(call: PageCall) -> Response:
    """Show the balance, the packages, the free quota, and a page of the history."""
    filters = call.filters("cursor")
    held = await call.api("credits")
    usage = (await call.api("free_subdomains")).usage
    found = await call.find_page("payments", filters)
    return call.render("credits", held=held, usage=usage, filters=filters, found=found)
