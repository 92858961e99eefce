"""Delete a subdomain, which moves it to the trash (spec, part 3, rule 1)."""

from sublet import audit
from sublet.accounts.find import lock_acting_user
from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.subdomains import store
from sublet.subdomains.find import find_in_account, refuse_unless_allowed
from sublet.subdomains.model import Subdomain


def delete(tx: Tx, actor: Actor, identifier: str) -> Outcome:
    """Move a name to the trash: it leaves the account and the zone, and can be restored for a while.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        SubdomainNotFound: the user has no such name, or it is in the trash already.
        SubdomainSuspended: the operator suspended it.
    """
    user = lock_acting_user(tx, actor)
    subdomain = find_in_account(tx, user.id, identifier)
    refuse_unless_allowed(subdomain, "delete", tx.now)
    move_to_trash(tx, actor, subdomain)
    return Outcome(subdomain.id)


def move_to_trash(tx: Tx, actor: Actor, subdomain: Subdomain, *, action: str = "subdomain.delete") -> None:
    """Move a live name to the trash, without checks. `action` is the name of the audit event."""
    followed = store.followed_by_dns(subdomain)
    store.update_subdomain(tx, subdomain.id, trashed_at=tx.now, **followed)
    audit.record(tx, actor, action, subdomain.id, after={"trashed_at": tx.now.isoformat()})
