"""Which name servers serve a platform domain's zone, as far as its settings know them: the primary, and the secondaries to watch."""

from collections.abc import Sequence

from sublet.config import PrimarySettings
from sublet.dns.parent_servers import ParentServer
from sublet.platform_domains.model import PlatformDomain


def name_servers(
    platform_domain: PlatformDomain, built_in: Sequence[tuple[str, int]], primaries: Sequence[PrimarySettings]
) -> tuple[ParentServer, ...]:
    """Return the servers of a platform domain's zone, the one that is written to first.

    `built_in` is where the built-in name servers answer, `primaries` are those of the settings. A server that is written to goes
    by the `soa_mname` of the zone, never by its name or address in the settings: those are the operator's. A primary that the
    settings don't have has no address.
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
