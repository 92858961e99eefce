"""Which platform domains a user sees: the others are as if they did not exist (spec, part 1, rule 5)."""

from collections.abc import Collection

from sublet.platform_domains.model import PlatformDomain


def is_visible(platform_domain: PlatformDomain, granted_ids: Collection[int]) -> bool:
    """Tell whether an organization with these grants sees a platform domain, in the list and for registering (whether it is open is another question).

    Hidden hides it from everyone; restricted hides it from those it wasn't granted to. Names already held are not
    asked for this: they stay visible, changeable and renewable.
    """
    return not platform_domain.hidden and (
        not platform_domain.restricted or platform_domain.id in granted_ids
    )
