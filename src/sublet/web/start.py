"""The start page, open to all: the offers, and the search for available names."""

import asyncio
import re
import unicodedata
from collections.abc import Sequence
from contextlib import suppress

from starlette.responses import Response

from sublet.errors import Refusal, ValidationFailed
from sublet.platform_domains.api import PlatformDomainShape
from sublet.subdomains.api import AvailabilityShape
from sublet.web.page import PageCall

SUGGESTIONS_MAX = 3
DOMAINS_MAX = 20
"""The maximum number of platform domains in a search."""
LABEL_CHARACTERS_MAX = 63
_SPELLED = str.maketrans(
    {"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "\u0131": "i"}
)
"""Letters that have no decomposition in Unicode."""


async def show(call: PageCall) -> Response:
    """Show the offers, and with `q` the platform domains under which this label is available."""
    wanted = call.request.query_params.get("q", "").strip().lower()
    domains = (await call.api("platform_domains", query={"limit": DOMAINS_MAX})).platform_domains
    found: list[AvailabilityShape] = []
    suggested: list[AvailabilityShape] = []
    if wanted:
        label, typed = split_name(wanted, domains)
        names = [wanted] if typed or "." in wanted else [f"{wanted}.{each.domain}" for each in domains]
        try:
            found = await asyncio.gather(*(find_availability(call, fqdn) for fqdn in names))
        except Refusal as refusal:
            call.refusal = refusal
        if not any(is_available(each) for each in found):
            suggested = await suggest_names(call, label, typed, domains)
    return await call.render("start", domains=domains, wanted=wanted, found=found, suggested=suggested)


def split_name(name: str, domains: Sequence[PlatformDomainShape]) -> tuple[str, str]:
    """Return the label and the platform domain of a name, which is the longest of those that it is under.

    The platform domain is empty if the name has none.
    """
    above = [each.domain for each in domains if name.endswith(f".{each.domain}")]
    domain = max(above, key=len, default="")
    return (name.removesuffix(f".{domain}"), domain) if domain else (name, "")


async def suggest_names(
    call: PageCall, label: str, domain: str, domains: Sequence[PlatformDomainShape]
) -> list[AvailabilityShape]:
    """Return available names like a text, under a platform domain, which is the first open one by default."""
    domain = domain or next((each.domain for each in domains if each.registration_open), "")
    found: list[AvailabilityShape] = []
    for each in suggest_labels(label) if domain else ():
        with suppress(ValidationFailed):
            availability = await find_availability(call, f"{each}.{domain}")
            found += [availability] if is_available(availability) else []
        if len(found) == SUGGESTIONS_MAX:
            break
    return found


def suggest_labels(text: str) -> list[str]:
    """Return labels like a text, the closest first, such as `my-cafe-bar` for `my café & bar`.

    Not checked: that names with these labels are available.
    """
    folded = unicodedata.normalize("NFKD", text[:1000].casefold()).translate(_SPELLED)
    words = re.findall(r"[a-z0-9]+", "".join(each for each in folded if not unicodedata.combining(each)))
    if not words:
        return []
    joined, close = "-".join(words), "".join(words)
    found = (joined, close, f"my-{joined}", f"{joined}-home", f"the-{joined}")
    return [
        each
        for each in dict.fromkeys(found)
        if len(each) <= LABEL_CHARACTERS_MAX and each != text and not each.startswith("xn-")
    ]


def is_available(availability: AvailabilityShape) -> bool:
    """True if the name can be registered, perhaps with more credits."""
    return bool(availability.available or availability.modes)


async def find_availability(call: PageCall, fqdn: str) -> AvailabilityShape:
    """Return whether and in which modes a name can be registered."""
    found: AvailabilityShape = (await call.api("availability", query={"fqdn": fqdn})).availability
    return found
