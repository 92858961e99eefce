"""Purge a subdomain from the trash (the operator's `sublet subdomain purge`; the sweep does the same later)."""

from sublet import audit
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict
from sublet.subdomains import delegation_store, store
from sublet.subdomains.find import lock_for_operator, reread
from sublet.subdomains.model import Subdomain


def purge(tx: Tx, actor: Actor, identifier: str, *, release: bool = False) -> Subdomain:
    """Purge a name: its user can't restore it any more, and its delegation is deleted. The cooling-off period begins.

    With `release` that period ends at once, and any user can register the name.

    Raises, in this order:
        NotFound: no such name.
        Conflict: it is not in the trash; it was purged already, and `release` doesn't apply; `release` is given, but its removal
            from the DNS is not published yet, or other names have nameservers below it.
    """
    subdomain = lock_for_operator(tx, identifier)
    if subdomain.trashed_at is None:
        raise Conflict(f"{subdomain.fqdn} is not in the trash. Ask its user to delete it first.")
    if subdomain.released_at is not None or (subdomain.purged_at is not None and not release):
        raise Conflict(f"{subdomain.fqdn} was purged already. See `sublet subdomain show`.")
    if release and subdomain.generation != subdomain.published_generation:
        raise Conflict(
            f"{subdomain.fqdn} can't be released yet: its removal from the DNS is not published; try again shortly."
        )
    # The lock keeps other names from getting a nameserver below this one (`refuse_unregistered`).
    store.lock_subdomains(tx, [subdomain.id])
    if release and delegation_store.has_dependents(tx, subdomain.fqdn):
        raise Conflict(
            f"{subdomain.fqdn} can't be released yet: other names have nameservers below it. Purge it without --release; "
            "the worker then removes those nameservers. Release it once they are out of the DNS."
        )
    if subdomain.purged_at is None:
        end_trash(tx, actor, subdomain, follow=not release)
    if release:
        end_cooling_off(tx, actor, subdomain)
    return reread(tx, subdomain)


def end_trash(tx: Tx, actor: Actor, subdomain: Subdomain, *, follow: bool = True) -> None:
    """Mark a name in the trash as purged and delete its delegation, without any checks.

    `follow` makes it a change that the publisher follows. Without it the generation stays: the removal is published already.
    """
    followed = store.followed_by_dns(subdomain) if follow else {}
    delegation_store.clear_delegation(tx, subdomain, purged_at=tx.now, **followed)
    audit.record(tx, actor, "subdomain.purge", subdomain.id, after={"purged_at": tx.now.isoformat()})


def end_cooling_off(tx: Tx, actor: Actor, subdomain: Subdomain) -> None:
    """Release a purged name, so that any user can register it, without any checks."""
    store.update_subdomain(tx, subdomain.id, released_at=tx.now)
    delegation_store.delete_hosts(tx, subdomain.id)
    audit.record(tx, actor, "subdomain.release", subdomain.id, after={"released_at": tx.now.isoformat()})
