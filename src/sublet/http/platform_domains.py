"""Handler of the platform domain list (spec, part 4, "Account and credits")."""

from collections.abc import Iterator

from sublet.db import Tx
from sublet.http import response_structs
from sublet.http.endpoints import Answer, Call
from sublet.http.paging import read_page
from sublet.http.render import platform_domain_shape
from sublet.http.request_structs import PageQuery
from sublet.ids import Position
from sublet.platform_domains import store


async def platform_domains(call: Call[None, PageQuery]) -> Answer[response_structs.PlatformDomainsAnswer]:
    """List the platform domains.

    Returns the domains under which this account may register names, with their modes and prices.
    """
    actor, organization_id = call.actor(), call.registrant.organization.id

    def find(
        tx: Tx, limit: int, after: Position | None
    ) -> Iterator[tuple[Position, response_structs.PlatformDomainShape]]:
        visible = store.list_visible(tx, actor, organization_id, limit, after)
        offers = store.list_offers_of(tx, [each.id for each in visible])
        for each in visible:
            yield Position(each.created_at, each.id), platform_domain_shape(each, offers.get(each.id, []))

    items, page, headers = await read_page(call, "platform_domains", find)
    return Answer(response_structs.PlatformDomainsAnswer(platform_domains=items, page=page), headers)
