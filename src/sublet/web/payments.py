"""The page of credits: the balance, the packages on sale, and the history."""

from starlette.responses import Response

from sublet.errors import Refusal
from sublet.web.page import PageCall

PAGE_LIMIT = 50


async def show(call: PageCall) -> Response:
    """Show the balance, the packages, the free quota, and a page of the history."""
    filters = {"cursor": call.request.query_params.get("cursor", "")}
    held = await call.api("credits")
    usage = (await call.api("free_subdomains")).usage
    try:
        found = await call.api("payments", query={**filters, "limit": PAGE_LIMIT})
    except Refusal as refusal:
        return call.render(
            "credits", refusal=refusal, held=held, usage=usage, filters=filters, payments=[], page=None
        )
    return call.render(
        "credits", held=held, usage=usage, filters=filters, payments=found.payments, page=found.page
    )
