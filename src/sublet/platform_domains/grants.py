"""`sublet domain grant` and `sublet domain revoke`: let organizations register under restricted platform
domains.
"""

from dataclasses import dataclass

from sublet import audit
from sublet.accounts.model import Organization
from sublet.accounts.organizations import find_organization
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import NotFound
from sublet.platform_domains import store
from sublet.platform_domains.find import find_platform_domain
from sublet.platform_domains.model import PlatformDomain


@dataclass(frozen=True, slots=True)
class PlatformDomainGrant:
    """The result of granting or revoking.

    `granted` is the new state; `changed` is False if the state was the same before.
    """

    platform_domain: PlatformDomain
    organization: Organization
    granted: bool
    changed: bool


def grant_platform_domain(tx: Tx, actor: Actor, identifier: str, organization: str) -> PlatformDomainGrant:
    """Grant a platform domain to an organization (name, slug or id). A second grant changes nothing.

    A grant has an effect only while the platform domain is restricted.

    Raises, in this order:
        NotFound: no such platform domain; no such organization.
        Conflict: several organizations match.
    """
    platform_domain = find_platform_domain(tx, identifier)
    granted_to = find_organization(tx, organization)
    if platform_domain.id in store.granted_platform_domain_ids(tx, granted_to.id):
        return PlatformDomainGrant(platform_domain, granted_to, granted=True, changed=False)
    store.insert_grant(tx, platform_domain.id, granted_to.id)
    after = {"organization_id": granted_to.id}
    audit.record(tx, actor, "platform_domain.grant", platform_domain.id, after=after)
    return PlatformDomainGrant(platform_domain, granted_to, granted=True, changed=True)


def revoke_platform_domain(tx: Tx, actor: Actor, identifier: str, organization: str) -> PlatformDomainGrant:
    """End new registrations of an organization under a restricted platform domain.

    Names that the organization holds stay.

    Raises, in this order:
        NotFound: no such platform domain; no such organization.
        Conflict: several organizations match.
        NotFound: the platform domain was not granted to the organization.
    """
    platform_domain = find_platform_domain(tx, identifier)
    revoked_from = find_organization(tx, organization)
    if not store.delete_grant(tx, platform_domain.id, revoked_from.id):
        raise NotFound(f"{platform_domain.domain} was not granted to {revoked_from.name}. No action needed.")
    before = {"organization_id": revoked_from.id}
    audit.record(tx, actor, "platform_domain.revoke", platform_domain.id, before=before)
    return PlatformDomainGrant(platform_domain, revoked_from, granted=False, changed=True)
