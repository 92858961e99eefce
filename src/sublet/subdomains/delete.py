"""Move a subdomain to the trash, for its user (spec, part 3, rule 1) or the operator."""

from sublet import audit
from sublet.accounts.find import lock_holder
from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.errors import Conflict
from sublet.subdomains import store
from sublet.subdomains.find import (
    find_in_account,
    lock_for_operator,
    refuse_purged,
    refuse_unless_allowed,
    reread,
)
from sublet.subdomains.model import Subdomain
from sublet.subdomains.transfers.end import end_transfers_of_names


def delete(tx: Tx, actor: Actor, identifier: str) -> Outcome:
    """Move a name to the trash.

    The name leaves the account and the zone, and can be restored until the purge.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        SubdomainNotFound: the user has no such name, the token is not for the name, or the name is in the
            trash already.
        SubdomainSuspended: the operator suspended the name.
    """
    lock_holder(tx, actor)
    subdomain = find_in_account(tx, actor, identifier)
    refuse_unless_allowed(subdomain, "delete", tx.now)
    move_to_trash(tx, actor, subdomain)
    return Outcome(subdomain.id)


def operator_delete(tx: Tx, actor: Actor, identifier: str) -> Subdomain:
    """Move a name to the trash (`sublet subdomain delete`). A suspended name stays suspended there.

    Raises, in this order:
        NotFound: there is no such name.
        Conflict: the name was purged; the name is in the trash already.
    """
    subdomain = lock_for_operator(tx, identifier)
    refuse_purged(subdomain)
    if subdomain.trashed_at is not None:
        raise Conflict(f"{subdomain.fqdn} is in the trash already. No action needed.")
    move_to_trash(tx, actor, subdomain)
    return reread(tx, subdomain)


def move_to_trash(tx: Tx, actor: Actor, subdomain: Subdomain, *, action: str = "subdomain.delete") -> None:
    """Move a live name to the trash, without checks. `action` is the name of the audit event."""
    end_transfers_of_names(tx, actor, [subdomain.id])
    next_generation = store.next_generation_if_in_dns(subdomain)
    store.update_subdomain(tx, subdomain.id, trashed_at=tx.now, **next_generation)
    audit.record(tx, actor, action, subdomain.id, after={"trashed_at": tx.now.isoformat()})
