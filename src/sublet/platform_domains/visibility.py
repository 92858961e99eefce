"""Decide which organizations see hidden and restricted platform domains (a rule)."""

from collections.abc import Collection

from sublet.platform_domains.model import PlatformDomain


def is_visible(platform_domain: PlatformDomain, granted_ids: Collection[int]) -> bool:
    """True if an organization with these grants sees a platform domain in the list and may register under it
    (spec, part 1, rule 5).

    Names that the organization holds under it stay visible, changeable and renewable in any case.
    """
    return not platform_domain.hidden and (
        not platform_domain.restricted or platform_domain.id in granted_ids
    )
