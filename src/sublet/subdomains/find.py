"""Find the subdomain that a path names by id or by fqdn in any form (spec, part 4)."""

from collections.abc import Collection
from datetime import datetime
from typing import TypeVar

from sublet.accounts import store as account_store
from sublet.audit import Actor
from sublet.db import Database, Tx
from sublet.dns.names import shown
from sublet.errors import Conflict, NotFound, SubdomainNotFound, SubdomainSuspended
from sublet.ids import parse_id
from sublet.subdomains import store
from sublet.subdomains.lifecycle import derive_status, is_allowed, is_gone, restorable_until
from sublet.subdomains.model import ShownSubdomain, Subdomain
from sublet.subdomains.naming import canonical_domain

S = TypeVar("S", bound=ShownSubdomain)


def not_found() -> SubdomainNotFound:
    """Return the refusal for a missing or purged name.

    Another user's name, and one outside the token's restrictions, get the same one, so that the answers can't be told apart.
    """
    return SubdomainNotFound("You have no such subdomain. Check the name; GET /subdomains lists yours.")


def find_in_account(tx: Tx, actor: Actor, identifier: str) -> Subdomain:
    """Return the user's subdomain with this id or name (in any case, with or without the final dot, in U-labels or A-labels).

    Raises:
        SubdomainNotFound: the user has no such name, or the token is not for it. If it is in the user's trash, `details` has `in_trash` and `restorable_until` (None
            while it is suspended, because its dates don't advance then), and the message says how to restore it.
    """
    return _require_live(_lookup(tx, actor, identifier), tx.now)


async def fetch_in_account(db: Database, actor: Actor, identifier: str) -> ShownSubdomain:
    """Return the subdomain that `find_in_account` would return, as it is shown, or raise the same. Runs on the event loop."""
    subdomain_id, fqdn = parse_id(identifier), canonical_domain(identifier)
    found = None
    if subdomain_id is not None:
        found = await db.fetch(store.OWN_BY_ID, owner_id=actor.holder_id, subdomain_id=subdomain_id)
    elif fqdn is not None:
        found = await db.fetch(store.OWN_BY_NAME, owner_id=actor.holder_id, name=fqdn)
    return _require_live(_if_allowed(actor, found), db.now())


def _require_live(subdomain: S | None, now: datetime) -> S:
    if subdomain is None or is_gone(subdomain, now):
        raise not_found()
    if subdomain.trashed_at is not None:
        is_suspended = subdomain.suspended_at is not None
        raise SubdomainNotFound(
            "This subdomain is in the trash, and suspended. Open a ticket to have it looked at."
            if is_suspended
            else "This subdomain is in the trash. Send POST …/restore to bring it back.",
            details={"in_trash": True, "restorable_until": restorable_until(subdomain)},
        )
    return subdomain


def find_in_account_or_trash(tx: Tx, actor: Actor, identifier: str) -> Subdomain:
    """Return the user's subdomain, live or in the trash.

    Raises:
        SubdomainNotFound: the user has no such name, the token is not for it, or its time in the trash is over.
    """
    subdomain = _lookup(tx, actor, identifier)
    if subdomain is None or is_gone(subdomain, tx.now):
        raise not_found()
    return subdomain


def refuse_unless_allowed(subdomain: Subdomain, verb: str, now: datetime) -> None:
    """Raise unless the name's state allows a verb (`lifecycle.is_allowed`).

    Raises:
        SubdomainSuspended: the operator suspended it, live or in the trash; the message gives the reason.
        Conflict: the verb is for another state.
    """
    if is_allowed(subdomain, verb, now):
        return
    if subdomain.suspended_at is not None:
        reason = subdomain.suspended_reason or "no reason was given"
        raise SubdomainSuspended(
            f"This subdomain is suspended ({reason}). Open a ticket to have it looked at."
        )
    raise Conflict(
        f"This subdomain is {derive_status(subdomain, now)}; {verb} is not possible in that state. See `allowed_actions` of GET …/timeline."
    )


def _lookup(tx: Tx, actor: Actor, identifier: str) -> Subdomain | None:
    subdomain_id, fqdn = parse_id(identifier), canonical_domain(identifier)
    found = None
    if subdomain_id is not None:
        found = store.find_own(tx, actor.holder_id, subdomain_id=subdomain_id)
    elif fqdn is not None:
        found = store.find_own(tx, actor.holder_id, fqdn=fqdn)
    return _if_allowed(actor, found)


def _if_allowed(actor: Actor, found: S | None) -> S | None:
    return found if found is not None and actor.restrictions.allows_name(found.fqdn) else None


def lock_for_operator(tx: Tx, identifier: str, other_users: Collection[int] = ()) -> Subdomain:
    """Return a subdomain as `find_for_operator` does, and lock its user, so that changes of one user run one after the other.

    `other_users` are ids of users to lock too, all in order of id.

    Raises:
        NotFound: there is no such name.
    """
    subdomain = find_for_operator(tx, identifier)
    while True:
        locked = account_store.lock_users(tx, {subdomain.user_id, *other_users})
        # Read again: the transaction that held the lock before may have changed it, or moved it to another user.
        subdomain = find_for_operator(tx, identifier)
        if subdomain.user_id in locked:
            return subdomain


def find_for_operator(tx: Tx, identifier: str) -> Subdomain:
    """Return any user's subdomain: by id in any state, even purged; by name the row that holds the name.

    Raises:
        NotFound: there is no such name.
    """
    subdomain_id = parse_id(identifier)
    fqdn = canonical_domain(identifier)
    found = None
    if subdomain_id is not None:
        found = store.find_subdomain(tx, subdomain_id)
    elif fqdn is not None:
        found = store.find_unreleased(tx, fqdn)
    if found is None:
        raise NotFound(f"There is no subdomain `{shown(identifier)}`. See `sublet subdomain list`.")
    return found


def refuse_gone(subdomain: Subdomain) -> None:
    """Raise `Conflict` if a name was purged: its row is history, and only reserves the name for a while."""
    if subdomain.purged_at is not None:
        raise Conflict(f"{subdomain.fqdn} was purged and has no holder. Give a name that is held.")


def reread(tx: Tx, subdomain: Subdomain) -> Subdomain:
    """Return a subdomain as it is stored now."""
    found = store.find_subdomain(tx, subdomain.id)
    assert found is not None  # noqa: S101 - rows are never deleted
    return found
