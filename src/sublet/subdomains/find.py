"""Find a subdomain by the id or fqdn in a path (spec, part 4)."""

from collections.abc import Collection, Iterable
from datetime import datetime
from math import ceil
from typing import TypeVar

from sublet import audit
from sublet.accounts import store as account_store
from sublet.accounts.model import Registrant
from sublet.audit import Actor
from sublet.dates import is_future
from sublet.db import Database, Tx
from sublet.dns.names import shown
from sublet.errors import Conflict, NotFound, RateLimited, SubdomainNotFound, SubdomainSuspended
from sublet.ids import parse_id
from sublet.limits import DAY
from sublet.restrictions import Restrictions
from sublet.subdomains import store
from sublet.subdomains.lifecycle import derive_status, is_allowed, is_gone, restorable_until
from sublet.subdomains.model import ShownSubdomain, Subdomain
from sublet.subdomains.naming import canonical_domain

S = TypeVar("S", bound=ShownSubdomain)


def not_found() -> SubdomainNotFound:
    """Return the refusal for a missing or purged name.

    Names of other users, and names that the token is not for, get the same refusal, so that it reveals
    nothing about them.
    """
    return SubdomainNotFound("You have no such subdomain. Check the spelling in the list of your names.")


def find_in_account(tx: Tx, actor: Actor, identifier: str) -> Subdomain:
    """Return the user's live subdomain with this id or name (in any case, with or without the final dot, in
    U-labels or A-labels).

    Raises:
        SubdomainNotFound: the user has no such name, the token is not for the name, or the name is in the
            trash. If it is in the trash, the message says how to restore it, and `details` has `in_trash` and
            `restorable_until` (None while the name is suspended).
    """
    return _require_live(_lookup(tx, actor, identifier), tx.now)


def list_in_account(tx: Tx, actor: Actor, names: Iterable[str]) -> list[Subdomain]:
    """Return those of the names, in any spelling, that are live and the user's, and that the token is for."""
    assert actor.holder_id is not None  # noqa: S101 - a user acts
    fqdns = [fqdn for each in names if (fqdn := canonical_domain(each))]
    found = store.list_own_subdomains(tx, actor.holder_id, fqdns)
    return [each for each in found if each.trashed_at is None and actor.restrictions.allows_name(each.fqdn)]


async def fetch_in_account(db: Database, registrant: Registrant, identifier: str) -> ShownSubdomain:
    """Return a registrant's live subdomain with this id or name, or raise the errors of `find_in_account`.

    Runs on the event loop.
    """
    subdomain_id, fqdn = parse_id(identifier), canonical_domain(identifier)
    found = None
    if subdomain_id is not None:
        found = await db.fetch(store.OWN_BY_ID, owner_id=registrant.holder.id, subdomain_id=subdomain_id)
    elif fqdn is not None:
        found = await db.fetch(store.OWN_BY_NAME, owner_id=registrant.holder.id, name=fqdn)
    return _require_live(_if_allowed(registrant.restrictions, found), db.now())


def _require_live(subdomain: S | None, now: datetime) -> S:
    if subdomain is None or is_gone(subdomain, now):
        raise not_found()
    if subdomain.trashed_at is not None:
        is_suspended = subdomain.suspended_at is not None
        raise SubdomainNotFound(
            "This subdomain is in the trash, and suspended. Open a ticket to ask for a review."
            if is_suspended
            else "This subdomain is in the trash. Restore it first.",
            details={"in_trash": True, "restorable_until": restorable_until(subdomain)},
        )
    return subdomain


def find_in_account_or_trash(tx: Tx, actor: Actor, identifier: str) -> Subdomain:
    """Return the user's subdomain, live or in the trash.

    Raises:
        SubdomainNotFound: the user has no such name, the token is not for the name, or its time in the trash
            is over.
    """
    subdomain = _lookup(tx, actor, identifier)
    if subdomain is None or is_gone(subdomain, tx.now):
        raise not_found()
    return subdomain


def refuse_unless_allowed(subdomain: Subdomain, verb: str, now: datetime) -> None:
    """Raise unless the name's state allows a verb (`lifecycle.is_allowed`).

    Raises:
        SubdomainSuspended: the operator suspended the name. The message gives the reason.
        Conflict: the state doesn't allow the verb.
    """
    if is_allowed(subdomain, verb, now):
        return
    if subdomain.suspended_at is not None:
        reason = subdomain.suspended_reason or "no reason was given"
        raise SubdomainSuspended(
            f"This subdomain is suspended ({reason}). Open a ticket to ask for a review."
        )
    status = derive_status(subdomain, now)
    raise Conflict(
        f"This subdomain is {status}, and {verb} is not possible in that state. Its timeline says what is "
        "possible.",
        details={"status": status},
    )


def refuse_over_changes_per_day(
    tx: Tx, subdomain_id: int, action: str, changed: str, changes_per_day: int
) -> None:
    """Raise `RateLimited` if a name was changed `changes_per_day` times within 24 hours. 0 means no limit.

    `action` is that of the changes' audit events, and `changed` what they change, for the message.

    The caller has locked the name's holder, so all changes are counted.
    """
    if changes_per_day == 0:
        return
    oldest_at = audit.nth_newest_at(tx, "subdomain", subdomain_id, action, changes_per_day)
    if oldest_at is None or oldest_at + DAY <= tx.now or is_future(oldest_at, tx.now):
        return
    again_at = oldest_at + DAY
    raise RateLimited(
        f"The {changed} of this name can be changed {changes_per_day} times within 24 hours. Try again "
        f"after {again_at:%Y-%m-%d %H:%M} UTC.",
        retry_after_seconds=ceil((again_at - tx.now).total_seconds()),
    )


def _lookup(tx: Tx, actor: Actor, identifier: str) -> Subdomain | None:
    found = store.find_subdomain_of_user(
        tx, actor.holder_id, subdomain_id=parse_id(identifier), fqdn=canonical_domain(identifier)
    )
    return _if_allowed(actor.restrictions, found)


def _if_allowed(restrictions: Restrictions, found: S | None) -> S | None:
    return found if found is not None and restrictions.allows_name(found.fqdn) else None


def lock_for_operator(tx: Tx, identifier: str, other_users: Collection[int] = ()) -> Subdomain:
    """Lock a subdomain's user and `other_users` in order of id, and return the result of `find_for_operator`.

    The locks serialize changes to the users' names.

    Raises:
        NotFound: there is no such name.
    """
    subdomain = find_for_operator(tx, identifier)
    while True:
        locked = account_store.lock_users(tx, {subdomain.user_id, *other_users})
        # Read again: the transaction that held the lock before may have changed the name, or moved it to
        # another user.
        subdomain = find_for_operator(tx, identifier)
        if subdomain.user_id in locked:
            return subdomain


def find_for_operator(tx: Tx, identifier: str) -> Subdomain:
    """Return any user's subdomain without a lock: by id in any state, by name unless it is released.

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


def refuse_purged(subdomain: Subdomain) -> None:
    """Raise `Conflict` if a name was purged, and so has no holder."""
    if subdomain.purged_at is not None:
        raise Conflict(f"{subdomain.fqdn} was purged and has no holder. Give a name that has a holder.")


def reread(tx: Tx, subdomain: Subdomain) -> Subdomain:
    """Return the current row of a subdomain, after changes in this transaction."""
    found = store.find_subdomain(tx, subdomain.id)
    assert found is not None  # noqa: S101 - rows are never deleted
    return found
