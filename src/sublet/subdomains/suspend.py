"""Suspend and unsuspend a name, or a user with all names (`sublet subdomain suspend`, `sublet user suspend --with-names`)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sublet import audit
from sublet.accounts.fields import check_reason
from sublet.accounts.find import find_member, lock_user
from sublet.accounts.model import Member
from sublet.accounts.users import suspend_user, unsuspend_user
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, validation_failed
from sublet.subdomains import store
from sublet.subdomains.find import lock_for_operator, refuse_gone, reread
from sublet.subdomains.lifecycle import derive_status, provisioning_status
from sublet.subdomains.model import Subdomain
from sublet.subdomains.store import delegation_columns


def suspend(tx: Tx, actor: Actor, identifier: str, reason: str | None = None) -> Subdomain:
    """Hold a name: it leaves the zone, and its user can only read it. One in the trash can't be restored while held.

    The audit keeps what was published then.

    Raises, in this order:
        NotFound: no such name.
        ValidationFailed: the reason is too long or doesn't print.
        Conflict: its time in the trash is over; it is suspended already. No action needed.
    """
    subdomain = lock_for_operator(tx, identifier)
    reason, errors = check_reason(reason)
    if errors:
        raise validation_failed(errors)
    refuse_gone(subdomain)
    if subdomain.suspended_at is not None:
        raise Conflict(f"{subdomain.fqdn} is suspended already. No action needed.")
    followed = store.followed_by_dns(subdomain, tx.now)
    store.update_subdomain(tx, subdomain.id, suspended_at=tx.now, suspended_reason=reason, **followed)
    audit.record(
        tx,
        actor,
        "subdomain.suspend",
        "subdomain",
        subdomain.id,
        before=evidence_of(subdomain, tx.now),
        after={"suspended_at": tx.now.isoformat(), "suspended_reason": reason},
    )
    return reread(tx, subdomain)


def unsuspend(tx: Tx, actor: Actor, identifier: str) -> Subdomain:
    """Let a held name go: it comes back into the zone as it is stored. Its term ran on meanwhile.

    Its grace, or its time in the trash, counts from now where it would be over sooner: its user could do nothing till now.

    Raises, in this order:
        NotFound: no such name.
        Conflict: its time in the trash is over; it is not suspended. No action needed.
    """
    subdomain = lock_for_operator(tx, identifier)
    refuse_gone(subdomain)
    if subdomain.suspended_at is None:
        raise Conflict(f"{subdomain.fqdn} is not suspended. No action needed.")
    followed = store.followed_by_dns(subdomain, tx.now)
    store.update_subdomain(
        tx,
        subdomain.id,
        suspended_at=None,
        suspended_reason=None,
        held_with_user=False,
        unsuspended_at=tx.now,
        **followed,
    )
    audit.record(
        tx,
        actor,
        "subdomain.unsuspend",
        "subdomain",
        subdomain.id,
        before={
            "fqdn": subdomain.fqdn,
            "suspended_at": subdomain.suspended_at.isoformat(),
            "suspended_reason": subdomain.suspended_reason,
        },
    )
    return reread(tx, subdomain)


def evidence_of(subdomain: Subdomain, now: datetime) -> dict[str, Any]:
    """Return a name as it is before it is suspended, for the audit: whose it is, its status, what is to be published, what is.

    `provisioning_status` published means that exactly this delegation stands in the zone; pending or failed, that an older one may:
    the one of `published_generation`, read back at `published_at` under the zone's `published_serial`.
    """
    return {
        "fqdn": subdomain.fqdn,
        "user_id": subdomain.user_id,
        "status": derive_status(subdomain, now),
        "provisioning_status": provisioning_status(subdomain),
        **delegation_columns(subdomain.delegation),
        "generation": subdomain.generation,
        "published_generation": subdomain.published_generation,
        "published_at": _text(subdomain.published_at),
        "published_serial": subdomain.published_serial,
        "registered_at": _text(subdomain.registered_at),
        "expires_at": _text(subdomain.expires_at),
        "trashed_at": _text(subdomain.trashed_at),
    }


def _text(at: datetime | None) -> str | None:
    return at.isoformat() if at is not None else None


REASON = "its account was suspended"
"""What the names' user reads of them: why the account was is the operator's, and may name who complained."""


@dataclass(frozen=True, slots=True)
class SuspendedTogether:
    """A user, and the names that were suspended, or let go, with it."""

    member: Member
    names: tuple[str, ...]


def suspend_with_names(tx: Tx, actor: Actor, identifier: str, reason: str | None = None) -> SuspendedTogether:
    """Stop a user and hold all its names, live and in the trash, in one transaction: they leave the zone.

    Names that are suspended already stay so on their own: `unsuspend_with_names` does not let them go. Of a user that was suspended
    without its names these are held now. The audit keeps of each name what was published then.

    Raises, in this order:
        NotFound: no such user.
        ValidationFailed: the reason is too long or doesn't print.
        Conflict: suspended already, and no name of it is left to hold.
    """
    user = lock_user(tx, identifier)
    _, errors = check_reason(reason)
    if errors:
        raise validation_failed(errors)
    held = list(store.list_suspendable(tx, user.id))
    if user.suspended_at is None:
        suspend_user(tx, actor, str(user.id), reason)
    elif not held:
        raise Conflict(f"{user.email} is suspended already, and so are all its names. No action needed.")
    # From here on it must succeed.
    store.suspend_all(tx, user.id, REASON)
    said = {"suspended_at": tx.now.isoformat(), "suspended_reason": REASON, "with_user": True}
    audit.record_many(
        tx,
        actor,
        "subdomain.suspend",
        "subdomain",
        {each.id: said for each in held},
        before={each.id: evidence_of(each, tx.now) for each in held},
    )
    member = find_member(tx, user.id)
    return SuspendedTogether(member, tuple(each.fqdn for each in held))


def unsuspend_with_names(
    tx: Tx, actor: Actor, identifier: str, *, keep_names: bool = False
) -> SuspendedTogether:
    """Let a suspended user act again; the names that were suspended with it come back into the zone as they are stored.

    Names that were suspended on their own stay so. With `keep_names` all do, each on its own from then on: they can be let go one by
    one. Grace and time in the trash count anew, as in `unsuspend`.

    Raises, in this order:
        NotFound: no such user.
        Conflict: it is not suspended.
    """
    user = lock_user(tx, identifier)
    member = unsuspend_user(tx, actor, str(user.id))
    if keep_names:
        store.keep_suspended(tx, user.id)
        return SuspendedTogether(member, ())
    held = list(store.list_held_with(tx, user.id))
    store.unsuspend_all(tx, user.id)
    said = {
        each.id: {
            "fqdn": each.fqdn,
            "suspended_at": each.suspended_at.isoformat() if each.suspended_at is not None else None,
            "suspended_reason": each.suspended_reason,
        }
        for each in held
    }
    audit.record_many(
        tx,
        actor,
        "subdomain.unsuspend",
        "subdomain",
        {each.id: {"with_user": True} for each in held},
        before=said,
    )
    return SuspendedTogether(member, tuple(each.fqdn for each in held))
