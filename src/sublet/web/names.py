"""The list of the user's names, with filters, search and pages."""

from starlette.responses import Response

from sublet.errors import Refusal
from sublet.http.response_structs import SubdomainShape
from sublet.web.page import PageCall

PAGE_LIMIT = 50
ATTENTION_MAX = 10
"""The maximum number of shown names for each reason."""
ATTENTION: tuple[tuple[dict[str, object], str], ...] = (
    ({"status": "failed"}, "its publication failed"),
    ({"status": "expired"}, "it has expired"),
    ({"health": "broken"}, "its nameservers don't work"),
    ({"renewal_available": True}, "it can be renewed"),
)
FILTERS = ("q", "status", "domain", "health", "cursor")


async def show_list(call: PageCall) -> Response:
    """Show the names, or those that match the filters."""
    filters = {name: call.request.query_params.get(name, "") for name in FILTERS}
    try:
        found = await call.api("list_subdomains", query={**filters, "limit": PAGE_LIMIT})
        attention = [] if any(filters.values()) else await _find_attention(call)
    except Refusal as refusal:
        return call.render("names", refusal=refusal, filters=filters, names=[], attention=[], page=None)
    return call.render("names", filters=filters, names=found.subdomains, attention=attention, page=found.page)


async def _find_attention(call: PageCall) -> list[tuple[SubdomainShape, str]]:
    """Return the names that need attention, each once with its reason, the most urgent first."""
    found: dict[int, tuple[SubdomainShape, str]] = {}
    for query, words in ATTENTION:
        answer = await call.api("list_subdomains", query={**query, "limit": ATTENTION_MAX})
        for each in answer.subdomains:
            found.setdefault(each.id, (each, words))
    return list(found.values())
