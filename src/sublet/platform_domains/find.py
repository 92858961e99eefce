"""Find a platform domain, also a hidden one, by the name or id that the operator gave."""

from sublet.db import Tx
from sublet.dns.names import InvalidName, parse_domain_name, shown
from sublet.errors import NotFound
from sublet.ids import parse_id
from sublet.platform_domains import store
from sublet.platform_domains.model import PlatformDomain


def find_platform_domain(tx: Tx, identifier: str) -> PlatformDomain:
    """Return the platform domain with this name (in any form) or id.

    Raises:
        NotFound: no such platform domain.
    """
    platform_domain_id = parse_id(identifier)
    if platform_domain_id is not None:
        found = store.find_platform_domain(tx, platform_domain_id)
    else:
        try:
            found = store.find_platform_domain_by_name(tx, parse_domain_name(identifier))
        except InvalidName:
            found = None
    if found is None:
        raise NotFound(f"There is no platform domain `{shown(identifier)}`. See `sublet domain list`.")
    return found
