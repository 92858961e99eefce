"""View the automatic DS of a name (GET /subdomains/{fqdn}/automatic-ds, an extension: docs/spec-choices.md,
"Automatic DS").
"""

from dataclasses import dataclass

from sublet.audit import Actor, list_events
from sublet.db import Tx
from sublet.subdomains.child_state_store import ChildStates, find_child_states
from sublet.subdomains.ds_sources import CHANGES_OF_DS, SourcedDs, ds_sources
from sublet.subdomains.find import find_in_account
from sublet.subdomains.model import Subdomain


@dataclass(frozen=True, slots=True)
class AutomaticDsView:
    """A name's automatic DS and CSYNC states with the policies of its platform domain, and its DS records
    with their sources.
    """

    states: ChildStates
    ds_records: tuple[SourcedDs, ...]


def view_automatic_ds(tx: Tx, actor: Actor, identifier: str) -> AutomaticDsView:
    """Return the automatic DS of a user's name.

    Raises:
        SubdomainNotFound: the user has no such name, the token isn't for the name, or the name is in the
            trash.
    """
    subdomain = find_in_account(tx, actor, identifier)
    return automatic_ds_of(tx, subdomain, find_child_states(tx, subdomain.id))


def automatic_ds_of(tx: Tx, subdomain: Subdomain, states: ChildStates) -> AutomaticDsView:
    """Return the automatic DS of a name with these states."""
    events = list_events(tx, "subdomain", [subdomain.id], CHANGES_OF_DS)
    return AutomaticDsView(states, tuple(ds_sources(subdomain.delegation.ds_records, events)))
