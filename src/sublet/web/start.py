"""The start page, open to all: the offers, and the search for available names."""

import asyncio

from starlette.responses import Response

from sublet.errors import Refusal
from sublet.subdomains.api import AvailabilityShape
from sublet.web.page import PageCall

DOMAINS_MAX = 20
"""The maximum number of platform domains in a search."""


async def show(call: PageCall) -> Response:
    """Show the offers, and with `q` the platform domains under which this label is available."""
    wanted = call.request.query_params.get("q", "").strip().lower()
    domains = (await call.api("platform_domains", query={"limit": DOMAINS_MAX})).platform_domains
    found: list[AvailabilityShape] = []
    if wanted:
        names = [wanted] if "." in wanted else [f"{wanted}.{each.domain}" for each in domains]
        try:
            found = await asyncio.gather(*(find_availability(call, fqdn) for fqdn in names))
        except Refusal as refusal:
            call.refusal = refusal
    return call.render("start", domains=domains, wanted=wanted, found=found)


async def find_availability(call: PageCall, fqdn: str) -> AvailabilityShape:
    """Return whether and in which modes a name can be registered."""
    found: AvailabilityShape = (await call.api("availability", query={"fqdn": fqdn})).availability
    return found
