"""Compute the records that name servers should have for a name (GET /subdomains/{fqdn}/delegation)."""

from msgspec import Struct

from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.types import Record
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains.model import PlatformDomain
from sublet.subdomains import published_owner_store
from sublet.subdomains.find import find_in_account_or_trash
from sublet.subdomains.lifecycle import desired_records, has_records, stored_records
from sublet.subdomains.model import Subdomain
from sublet.subdomains.nameservers import stored_warnings

EMPTY_OWNERS_MAX = 30
"""The maximum number of owner names to check for orphaned records. Each owner name takes up to 13 queries per
server.
"""


class DelegationView(Struct, frozen=True):
    """A name, its platform domain, the `desired` records, the owner names that should have no records, and
    warnings.
    """

    subdomain: Subdomain
    platform_domain: PlatformDomain
    desired: tuple[Record, ...]
    empty_owners: tuple[str, ...]
    warnings: tuple[str, ...]


def view_delegation(tx: Tx, actor: Actor, identifier: str) -> DelegationView:
    """Return the records that should exist for a user's name, live or in the trash, and the owner names that
    should have none.

    Owner names without records are those of former glue, and of stored glue that should not be published.

    Raises:
        SubdomainNotFound: the user has no such name, the token is not for the name, or its time in the trash
            is over.
    """
    subdomain = find_in_account_or_trash(tx, actor, identifier)
    platform_domain = platform_domain_store.find_platform_domain(tx, subdomain.platform_domain_id)
    assert platform_domain is not None  # noqa: S101 - the foreign key ensures it
    ttl_seconds = platform_domain.delegation_ttl_seconds
    desired = desired_records(subdomain, ttl_seconds)
    stored = {record.owner for record in stored_records(subdomain, ttl_seconds)}
    ever = published_owner_store.list_published_owners(tx, subdomain.id) | stored
    empty = ever - {record.owner for record in desired}
    if not has_records(subdomain):
        empty -= {subdomain.fqdn}  # the queries for a delegation cover it
    warnings = stored_warnings(tx, subdomain)
    return DelegationView(
        subdomain, platform_domain, desired, tuple(sorted(empty))[:EMPTY_OWNERS_MAX], warnings
    )
