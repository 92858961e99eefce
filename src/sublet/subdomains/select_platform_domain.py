"""Which platform domain a request means (spec, part 4, POST /subdomains: one of three ways to select it)."""

from sublet.accounts.model import User
from sublet.db import Tx
from sublet.dns.names import ancestors
from sublet.errors import FieldError, PlatformDomainNotFound
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.visibility import is_visible
from sublet.subdomains.model import Register
from sublet.subdomains.naming import canonical_domain


def select_platform_domain(
    tx: Tx, user: User, command: Register
) -> tuple[PlatformDomain | None, list[FieldError]]:
    """Return what platform_domain_id, domain or the domain part of fqdn selects, among those that the user sees.

    The longest suffix wins where platform domains are nested. Fields: `platform_domain_required` when nothing selects one,
    `fqdn_mismatch` when id and domain select two.

    Raises:
        PlatformDomainNotFound: hidden, not granted and missing ones can't be told apart.
    """
    missing = PlatformDomainNotFound(
        "There is no such platform domain; GET /platform-domains lists those there are."
    )
    found: list[PlatformDomain] = []
    if command.platform_domain_id is not None:
        by_id = platform_domain_store.find_platform_domain(tx, command.platform_domain_id)
        if by_id is None or not _sees(tx, user, by_id):
            raise missing
        found.append(by_id)
    if command.domain is not None:
        domain = canonical_domain(command.domain)
        by_name = platform_domain_store.find_platform_domain_by_name(tx, domain) if domain else None
        if by_name is None or not _sees(tx, user, by_name):
            raise missing
        found.append(by_name)
    if not found and command.fqdn is not None:
        by_suffix = _longest_visible_suffix(tx, user, command.fqdn)
        if by_suffix is None:
            raise missing
        found.append(by_suffix)
    if not found:
        return None, [
            FieldError(
                "platform_domain_id",
                "platform_domain_required",
                "Select a platform domain by `platform_domain_id`, `domain`, or the domain part of `fqdn`.",
            )
        ]
    if found[0].id != found[-1].id:
        return found[0], [
            FieldError(
                "domain",
                "fqdn_mismatch",
                "`platform_domain_id` and `domain` select different platform domains.",
            )
        ]
    return found[0], []


def _sees(tx: Tx, user: User, platform_domain: PlatformDomain) -> bool:
    is_granted_to_some = platform_domain.restricted and not platform_domain.hidden
    granted = (
        platform_domain_store.granted_platform_domain_ids(tx, user.organization_id)
        if is_granted_to_some
        else ()
    )
    return is_visible(platform_domain, granted)


def _longest_visible_suffix(tx: Tx, user: User, fqdn: str) -> PlatformDomain | None:
    # Only the domain part must be a name; a bad label before it is the label's error, told as such.
    canonical = canonical_domain(fqdn) or canonical_domain(fqdn.partition(".")[2])
    if canonical is None:
        return None
    for candidate in platform_domain_store.find_platform_domains_among(
        tx, (canonical, *ancestors(canonical))
    ):
        if _sees(tx, user, candidate):
            return candidate
    return None
