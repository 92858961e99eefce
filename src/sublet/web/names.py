"""The list of the user's names, with filters, search and pages."""

from starlette.responses import Response

from sublet.subdomains.shapes import SubdomainShape
from sublet.web.page import PageCall

ATTENTION_MAX = 10
"""The maximum number of shown names for each reason."""
ATTENTION: tuple[tuple[dict[str, object], str], ...] = (
    ({"status": "failed"}, "its publication failed"),
    ({"status": "expired"}, "it has expired"),
    ({"health": "broken"}, "its nameservers don't work"),
    ({"renewal_available": True}, "it can be renewed"),
)


async def show_list(call: PageCall) -> Response:
    """Show the names, or those that match the filters."""
    filters = call.filters("q", "status", "domain", "health", "cursor")
    found = await call.find_page("list_subdomains", filters)
    attention = [] if call.refusal or any(filters.values()) else await _find_attention(call)
    return call.render("names", filters=filters, found=found, attention=attention)


async def _find_attention(call: PageCall) -> list[tuple[SubdomainShape, str]]:
    """Return the names that need attention, each once with its reason, the most urgent first."""
    found: dict[int, tuple[SubdomainShape, str]] = {}
    for query, words in ATTENTION:
        answer = await call.api("list_subdomains", query={**query, "limit": ATTENTION_MAX})
        for each in answer.subdomains:
            found.setdefault(each.id, (each, words))
    return list(found.values())
