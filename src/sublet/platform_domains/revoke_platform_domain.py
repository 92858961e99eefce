"""Take back the grant of a platform domain (the operator's `sublet domain revoke`)."""

from sublet import audit
from sublet.accounts.organizations import find_organization
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import NotFound
from sublet.platform_domains import store
from sublet.platform_domains.find import find_platform_domain
from sublet.platform_domains.grant_platform_domain import PlatformDomainGrant


def revoke_platform_domain(tx: Tx, actor: Actor, identifier: str, organization: str) -> PlatformDomainGrant:
    """End new registrations of an organization under a restricted platform domain; the names that it holds stay.

    Raises, in this order:
        NotFound: no such platform domain; no such organization.
        Conflict: several organizations are meant.
        NotFound: it was not granted.
    """
    platform_domain = find_platform_domain(tx, identifier)
    revoked_from = find_organization(tx, organization)
    if not store.delete_grant(tx, platform_domain.id, revoked_from.id):
        raise NotFound(f"{platform_domain.domain} was not granted to {revoked_from.name}. No action needed.")
    audit.record(
        tx,
        actor,
        "platform_domain.revoke",
        "platform_domain",
        platform_domain.id,
        before={"organization_id": revoked_from.id},
    )
    return PlatformDomainGrant(platform_domain, revoked_from, granted=False, changed=True)
