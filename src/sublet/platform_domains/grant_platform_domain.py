"""Grant a restricted platform domain to an organization (the operator's `sublet domain grant`)."""

from dataclasses import dataclass

from sublet import audit
from sublet.accounts.model import Organization
from sublet.accounts.organizations import find_organization
from sublet.audit import Actor
from sublet.db import Tx
from sublet.platform_domains import store
from sublet.platform_domains.find import find_platform_domain
from sublet.platform_domains.model import PlatformDomain


@dataclass(frozen=True, slots=True)
class PlatformDomainGrant:
    """Whether an organization now has a platform domain granted; `changed` is False when that was so before."""

    platform_domain: PlatformDomain
    organization: Organization
    granted: bool
    changed: bool


def grant_platform_domain(tx: Tx, actor: Actor, identifier: str, organization: str) -> PlatformDomainGrant:
    """Let an organization (name, slug or id) see a restricted platform domain; granting it again changes nothing.

    It counts only while the platform domain is restricted, and may be granted before.

    Raises, in this order:
        NotFound: no such platform domain; no such organization.
        Conflict: several organizations are meant.
    """
    platform_domain = find_platform_domain(tx, identifier)
    granted_to = find_organization(tx, organization)
    if platform_domain.id in store.granted_platform_domain_ids(tx, granted_to.id):
        return PlatformDomainGrant(platform_domain, granted_to, granted=True, changed=False)
    store.insert_grant(tx, platform_domain.id, granted_to.id)
    audit.record(
        tx,
        actor,
        "platform_domain.grant",
        "platform_domain",
        platform_domain.id,
        after={"organization_id": granted_to.id},
    )
    return PlatformDomainGrant(platform_domain, granted_to, granted=True, changed=True)
