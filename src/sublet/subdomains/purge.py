"""Purge a subdomain from the trash, for the operator (`sublet subdomain purge`) or the sweep."""

from sublet import audit
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict
from sublet.subdomains import delegation_store, store
from sublet.subdomains.find import lock_for_operator, reread
from sublet.subdomains.lifecycle import is_published
from sublet.subdomains.model import Subdomain


def purge(tx: Tx, actor: Actor, identifier: str, *, release: bool = False) -> Subdomain:
    """Purge a name: its user can no longer restore it, and its delegation or records are deleted.

    The cooling-off period begins.

    With `release` the cooling-off period ends at once, and any user can register the name.

    Raises, in this order:
        NotFound: there is no such name.
        Conflict: the name is not in the trash; it was released; it was purged, and `release` is false.
        Conflict, with `release`: the name's removal from the DNS is not published yet; other names have
            nameservers below the name.
    """
    subdomain = lock_for_operator(tx, identifier)
    if subdomain.trashed_at is None:
        raise Conflict(f"{subdomain.fqdn} is not in the trash. Run `sublet subdomain delete` first.")
    if subdomain.released_at is not None:
        raise Conflict(f"{subdomain.fqdn} was released already. See `sublet subdomain show`.")
    if subdomain.purged_at is not None and not release:
        raise Conflict(f"{subdomain.fqdn} was purged already. To end its cooling-off period, give --release.")
    if release and not is_published(subdomain):
        raise Conflict(
            f"{subdomain.fqdn} can't be released yet: its removal from the DNS is not published. Try again "
            "shortly."
        )
    # `refuse_unregistered` needs the same lock, so no other name can get a nameserver below this name before
    # the purge is committed.
    store.lock_subdomains(tx, [subdomain.id])
    if release and delegation_store.has_dependents(tx, subdomain.fqdn):
        raise Conflict(
            f"{subdomain.fqdn} can't be released yet: other names have nameservers below it. Purge it "
            "without --release, so that the worker removes these nameservers. Release it after they have "
            "left the DNS."
        )
    if subdomain.purged_at is None:
        mark_purged(tx, actor, subdomain, publish=not release)
    if release:
        mark_released(tx, actor, subdomain)
    return reread(tx, subdomain)


def mark_purged(tx: Tx, actor: Actor, subdomain: Subdomain, *, publish: bool = True) -> None:
    """Mark a name in the trash as purged and delete its delegation or records, without checks.

    With `publish` the name gets its next generation. Without `publish`, the name's removal from the DNS must
    be published already.
    """
    next_generation = store.next_generation_if_in_dns(subdomain) if publish else {}
    delegation_store.clear_content(tx, subdomain, purged_at=tx.now, **next_generation)
    audit.record(tx, actor, "subdomain.purge", subdomain.id, after={"purged_at": tx.now.isoformat()})


def mark_released(tx: Tx, actor: Actor, subdomain: Subdomain) -> None:
    """Mark a purged name as released, without checks. Then any user can register the name."""
    store.update_subdomain(tx, subdomain.id, released_at=tx.now)
    delegation_store.delete_hosts(tx, subdomain.id)
    audit.record(tx, actor, "subdomain.release", subdomain.id, after={"released_at": tx.now.isoformat()})
