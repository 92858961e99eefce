"""My names: the list with filter, search and pages."""

from starlette.responses import Response

from sublet.errors import Refusal
from sublet.web.page import PageCall

PAGE_LIMIT = 50
FILTERS = ("q", "status", "domain", "health", "cursor")


async def show_list(call: PageCall) -> Response:
    """Show the names, or those that match the filters."""
    asked = {name: call.request.query_params.get(name, "") for name in FILTERS}
    try:
        found = await call.api("list_subdomains", query={**asked, "limit": PAGE_LIMIT})
    except Refusal as refusal:
        return call.render("names", refusal=refusal, asked=asked, names=[], page=None)
    return call.render("names", asked=asked, names=found.subdomains, page=found.page)
