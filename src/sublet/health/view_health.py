"""View the health of a name's delegation, or plan a check (GET and POST /subdomains/{fqdn}/health;
docs/spec-choices.md, "Delegation health").
"""

from datetime import datetime

from msgspec import Struct

from sublet.accounts.find import refuse_suspended
from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, NameserverRequired
from sublet.health import store
from sublet.health.due_checks import is_checked, target_of
from sublet.health.model import DueCheck, Finding, Health, HealthChange, Level
from sublet.health.schedule import leaves_at
from sublet.structs import replace
from sublet.subdomains.child_state_store import ChildStates
from sublet.subdomains.find import find_in_account, refuse_unless_allowed
from sublet.subdomains.lifecycle import is_published
from sublet.subdomains.model import Subdomain


class HealthView(Struct, frozen=True):
    """A name with the health of its delegation (None if it isn't checked), and the changes of its state, the
    newest first, if they were read.

    `refused` are findings about refused requests of the name's zone. `leaves_at` is when the name leaves the
    DNS if it stays broken.
    """

    subdomain: Subdomain
    health: Health | None
    states: ChildStates
    refused: tuple[Finding, ...] = ()
    leaves_at: datetime | None = None
    changes: tuple[HealthChange, ...] = ()


def view_health(tx: Tx, actor: Actor, identifier: str) -> HealthView:
    """Return the health of a user's name.

    Raises:
        SubdomainNotFound: the user has no such name, the token isn't for the name, or the name is in the
            trash.
    """
    view = health_of(tx, find_in_account(tx, actor, identifier))
    return replace(view, changes=tuple(store.list_changes(tx, view.subdomain.id)))


def health_of(tx: Tx, subdomain: Subdomain) -> HealthView:
    """Return the health of a name, without the changes of its state."""
    health, states = store.find_health_with_states(tx, subdomain.id)
    refused = [
        Finding(code, Level.NOTICE, subdomain.fqdn, f"{request} is refused ({known.refusal}).", known.message)
        for code, request, known in (
            ("ds_refused", "The change that the zone asks for by its CDS records", states.automatic_ds),
            ("csync_refused", "The change that the zone asks for by its CSYNC record", states.csync),
        )
        if known.message is not None
    ]
    at = None if health is None else leaves_at(health, states.broken_days)
    return HealthView(subdomain, health, states, tuple(refused), at)


def plan_health_check(tx: Tx, actor: Actor, user: User, identifier: str) -> DueCheck:
    """Return the check that a user requests for a name (POST /subdomains/{fqdn}/health).

    Raises, in this order:
        AccountSuspended: the user is suspended.
        SubdomainNotFound: the user has no such name, the token isn't for the name, or the name is in the
            trash.
        SubdomainSuspended: the operator suspended the name, so it isn't in the DNS.
        NameserverRequired: the name has no nameserver, and no alias.
        Conflict: the last change of the name is not published yet.
    """
    refuse_suspended(user)
    subdomain = find_in_account(tx, actor, identifier)
    refuse_unless_allowed(subdomain, "update_nameservers", tx.now)
    if not is_checked(subdomain):
        raise NameserverRequired(
            "This subdomain has no nameserver and no CNAME record to check. Set one of them first."
        )
    if not is_published(subdomain):
        raise Conflict("The last change is not published yet. Try again once it is.")
    return DueCheck(subdomain.id, subdomain.generation, target_of(tx, subdomain))
