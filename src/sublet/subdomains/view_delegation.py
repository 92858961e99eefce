"""What a name's delegation is to be by the registry: what the name servers' answers are held against."""

from dataclasses import dataclass

from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.delegation import delegation_warnings
from sublet.dns.records import owners_of
from sublet.dns.types import Record
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains.model import PlatformDomain
from sublet.subdomains import published_owner_store
from sublet.subdomains.find import find_in_account_or_trash
from sublet.subdomains.lifecycle import desired_records
from sublet.subdomains.model import Subdomain
from sublet.subdomains.nameservers import registry_warnings

ABSENT_OWNERS_MAX = 30
"""At how many owners is looked for what was left over: each is four questions to each server."""


@dataclass(frozen=True, slots=True)
class DelegationView:
    """A name with its platform domain, the records that are to stand in the zone, owners at which nothing is to be, and warnings."""

    subdomain: Subdomain
    platform_domain: PlatformDomain
    desired: tuple[Record, ...]
    also_absent: tuple[str, ...]
    warnings: tuple[str, ...]


def view_delegation(tx: Tx, actor: Actor, identifier: str) -> DelegationView:
    """Return what is to be in the DNS for a user's name, live or in the trash, and at which owners something may be left over.

    Those are the owners of glue that was published, or is stored and not to be published.

    Raises:
        SubdomainNotFound: the user has none such, the token is not for it, or its time in the trash is over.
    """
    subdomain = find_in_account_or_trash(tx, actor, identifier)
    platform_domain = platform_domain_store.find_platform_domain(tx, subdomain.platform_domain_id)
    assert platform_domain is not None  # noqa: S101 - a foreign key of the row
    desired = desired_records(subdomain, platform_domain.delegation_ttl_seconds)
    ever = published_owner_store.list_published_owners(tx, subdomain.id) | owners_of(
        subdomain.fqdn, subdomain.delegation
    )
    absent = ever - {record.owner for record in desired} - {subdomain.fqdn}
    warnings = (*delegation_warnings(subdomain.delegation), *registry_warnings(tx, subdomain))
    return DelegationView(
        subdomain, platform_domain, desired, tuple(sorted(absent))[:ABSENT_OWNERS_MAX], warnings
    )
