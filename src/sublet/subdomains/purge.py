"""Purge a subdomain from the trash (the operator's `sublet subdomain purge`, before the sweep does it)."""

from sublet import audit
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict
from sublet.subdomains import delegation_store, store
from sublet.subdomains.find import lock_for_operator, reread
from sublet.subdomains.model import Subdomain


def purge(tx: Tx, actor: Actor, identifier: str, *, release: bool = False) -> Subdomain:
    """End a name's time in the trash: nobody can restore it, and its delegation is forgotten. It then cools off.

    With `release` the cooling-off ends too, and anybody may register the name at once.

    Raises, in this order:
        NotFound: no such name.
        Conflict: it is not in the trash; it was purged already (and is to be released no further); it is to be released, and
            the name servers have not confirmed yet that nothing stands there, or other names have nameservers below it.
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
    # Locked, so that no other name gets a nameserver below it meanwhile (`refuse_unregistered`).
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
    """Mark a name in the trash as purged and forget its delegation; nothing is checked here.

    `follow` has the DNS look once more, as at any change; without it the generation stays, for a name of which it is
    confirmed that nothing stands there.
    """
    followed = store.followed_by_dns(subdomain, tx.now) if follow else {}
    delegation_store.clear_delegation(tx, subdomain, purged_at=tx.now, **followed)
    audit.record(
        tx, actor, "subdomain.purge", "subdomain", subdomain.id, after={"purged_at": tx.now.isoformat()}
    )


def end_cooling_off(tx: Tx, actor: Actor, subdomain: Subdomain) -> None:
    """Let a purged name be registered again; nothing is checked here."""
    store.update_subdomain(tx, subdomain.id, released_at=tx.now)
    delegation_store.delete_hosts(tx, subdomain.id)
    audit.record(
        tx, actor, "subdomain.release", "subdomain", subdomain.id, after={"released_at": tx.now.isoformat()}
    )
