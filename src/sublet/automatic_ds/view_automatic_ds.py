"""View the automatic DS of a name (GET /subdomains/{fqdn}/automatic-ds, an extension: docs/spec-choices.md, "Automatic DS")."""

from dataclasses import dataclass

from sublet.audit import Actor, list_events
from sublet.db import Tx
from sublet.platform_domains.store import find_platform_domain
from sublet.subdomains.child_state_store import AutomaticDs, CsyncState, find_automatic_ds, find_csync_state
from sublet.subdomains.ds_sources import CHANGES_OF_DS, SourcedDs, ds_sources
from sublet.subdomains.find import find_in_account
from sublet.subdomains.model import Subdomain


@dataclass(frozen=True, slots=True)
class AutomaticDsView:
    """A name with the policies of its platform domain, its stored automatic DS and CSYNC state, and its DS records with their sources."""

    subdomain: Subdomain
    policy: str
    known: AutomaticDs
    ds_records: tuple[SourcedDs, ...]
    follows_csync: bool
    csync: CsyncState


def view_automatic_ds(tx: Tx, actor: Actor, identifier: str) -> AutomaticDsView:
    """Return the automatic DS of a user's name.

    Raises:
        SubdomainNotFound: the user has no such name, the token isn't for the name, or the name is in the trash.
    """
    subdomain = find_in_account(tx, actor, identifier)
    platform_domain = find_platform_domain(tx, subdomain.platform_domain_id)
    events = list_events(tx, "subdomain", [subdomain.id], CHANGES_OF_DS)
    return AutomaticDsView(
        subdomain,
        platform_domain.automatic_ds if platform_domain is not None else "off",
        find_automatic_ds(tx, subdomain.id),
        tuple(ds_sources(subdomain.delegation.ds_records, events)),
        platform_domain is not None and platform_domain.csync,
        find_csync_state(tx, subdomain.id),
    )
