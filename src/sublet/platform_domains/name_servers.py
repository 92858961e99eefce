"""List the known name servers of a platform domain's zone: its primary, and the secondaries to watch."""

from collections.abc import Sequence

from sublet.config import PrimarySettings
from sublet.dns.parent_servers import ParentServer
from sublet.platform_domains.model import PlatformDomain


def name_servers(
    platform_domain: PlatformDomain, built_in: Sequence[tuple[str, int]], primaries: Sequence[PrimarySettings]
) -> tuple[ParentServer, ...]:
    """Return the servers of a platform domain's zone: its primary or the built-in name servers, then the
    secondaries.

    `built_in` has the addresses of the built-in name servers, `primaries` has the primaries in the settings.
    The name of the primary in the result is the zone's `soa_mname`, because the name in the settings is only
    for the operator. Its address is None if the settings don't have the primary.
    """
    if platform_domain.primary:
        found = next((each for each in primaries if each.name == platform_domain.primary), None)
        address = (found.address, found.port) if found is not None else None
        first = [ParentServer(platform_domain.soa_mname, "primary", address)]
    else:
        first = [ParentServer(platform_domain.soa_mname, "built_in", each) for each in built_in]
    return (
        *first,
        *(
            ParentServer(each.host, "secondary", (each.address, each.port))
            for each in platform_domain.secondaries
        ),
    )
