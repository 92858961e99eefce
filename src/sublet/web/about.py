"""The page about a name, open to all: the answer of RDAP in words."""

from starlette.responses import Response

from sublet.config import abuse_contact, contact_url
from sublet.dns.names import to_unicode
from sublet.rdap.shapes import Domain
from sublet.web.page import PageCall

STATUS_WORDS = {
    "active": ("active", "In the DNS"),
    "inactive": ("idle", "Registered, not in the DNS"),
    "pending create": ("provisioning", "On its way into the DNS"),
    "pending update": ("provisioning", "Its last change is on its way into the DNS"),
    "server hold": ("suspended", "Suspended by the operator, not in the DNS"),
}
"""The state of a chip, and the words, for each status of RDAP."""


async def show(call: PageCall) -> Response:
    """Show what RDAP answers about a name, and how to report it."""
    found: Domain = await call.api("rdap_domain", fqdn=call.parameters["fqdn"])
    contact = abuse_contact(call.shared.calls.context.settings)
    return await call.render(
        "about",
        name=found,
        shown_name=to_unicode(found.ldh_name),
        state=STATUS_WORDS[found.status[0]],
        events={each.event_action: each.event_date for each in found.events},
        contact=contact,
        contact_url=contact_url(contact),
    )
