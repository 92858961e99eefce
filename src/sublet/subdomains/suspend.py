"""Suspend and unsuspend a name, or a user with all their names (`sublet subdomain suspend`, `sublet user
suspend --with-names`).
"""

from datetime import datetime
from typing import Any

from msgspec import Struct

from sublet import audit
from sublet.accounts.fields import check_reason
from sublet.accounts.find import find_member, lock_user
from sublet.accounts.model import Member
from sublet.accounts.users import suspend_user, unsuspend_user
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, validation_failed
from sublet.subdomains import store, suspension_store
from sublet.subdomains.find import lock_for_operator, refuse_purged, reread
from sublet.subdomains.lifecycle import derive_status, provisioning_status
from sublet.subdomains.model import Subdomain
from sublet.subdomains.store import delegation_columns, records_columns
from sublet.subdomains.transfers.end import end_transfers_from, end_transfers_of_names


def suspend(tx: Tx, actor: Actor, identifier: str, reason: str | None = None) -> Subdomain:
    """Suspend a name.

    The name leaves the zone, and its user can neither change it nor restore it from the trash.

    The audit event records the state before the suspension.

    Raises, in this order:
        NotFound: there is no such name.
        ValidationFailed: the reason is too long or has unprintable characters.
        Conflict: the name was purged; the name is suspended already.
    """
    subdomain = lock_for_operator(tx, identifier)
    reason, errors = check_reason(reason)
    if errors:
        raise validation_failed(errors)
    refuse_purged(subdomain)
    if subdomain.suspended_at is not None:
        raise Conflict(f"{subdomain.fqdn} is suspended already. No action needed.")
    end_transfers_of_names(tx, actor, [subdomain.id])
    next_generation = store.next_generation_if_in_dns(subdomain)
    store.update_subdomain(tx, subdomain.id, suspended_at=tx.now, suspended_reason=reason, **next_generation)
    audit.record(
        tx,
        actor,
        "subdomain.suspend",
        subdomain.id,
        before=state_before_suspension(subdomain, tx.now),
        after={"suspended_at": tx.now.isoformat(), "suspended_reason": reason},
    )
    return reread(tx, subdomain)


def unsuspend(tx: Tx, actor: Actor, identifier: str) -> Subdomain:
    """End a name's suspension.

    The name returns to the zone with its stored delegation. The suspension does not lengthen its term.

    A grace period or time in the trash that has begun starts again now, because the user could not act during
    the suspension.

    Raises, in this order:
        NotFound: there is no such name.
        Conflict: the name was purged; the name is not suspended.
    """
    subdomain = lock_for_operator(tx, identifier)
    refuse_purged(subdomain)
    if subdomain.suspended_at is None:
        raise Conflict(f"{subdomain.fqdn} is not suspended. No action needed.")
    next_generation = store.next_generation_if_in_dns(subdomain)
    store.update_subdomain(
        tx,
        subdomain.id,
        suspended_at=None,
        suspended_reason=None,
        held_with_user=False,
        unsuspended_at=tx.now,
        **next_generation,
    )
    audit.record(
        tx,
        actor,
        "subdomain.unsuspend",
        subdomain.id,
        before=_suspension(subdomain),
    )
    return reread(tx, subdomain)


def state_before_suspension(subdomain: Subdomain, now: datetime) -> dict[str, Any]:
    """Return a name's state before a suspension, for the audit: its user, status, delegation and published
    generation.

    If `provisioning_status` is published, the zone has exactly this delegation. Otherwise it may have the
    older delegation of `published_generation`, which was read back at `published_at` under the serial
    `published_serial`.
    """
    return {
        "fqdn": subdomain.fqdn,
        "user_id": subdomain.user_id,
        "status": derive_status(subdomain, now),
        "provisioning_status": provisioning_status(subdomain),
        **delegation_columns(subdomain.delegation),
        **({"records": records_columns(subdomain.records)["records"]} if subdomain.records else {}),
        "generation": subdomain.generation,
        "published_generation": subdomain.published_generation,
        "published_at": _text(subdomain.published_at),
        "published_serial": subdomain.published_serial,
        "registered_at": _text(subdomain.registered_at),
        "expires_at": _text(subdomain.expires_at),
        "trashed_at": _text(subdomain.trashed_at),
    }


def _suspension(subdomain: Subdomain) -> dict[str, Any]:
    return {
        "fqdn": subdomain.fqdn,
        "suspended_at": _text(subdomain.suspended_at),
        "suspended_reason": subdomain.suspended_reason,
    }


def _text(at: datetime | None) -> str | None:
    return at.isoformat() if at is not None else None


REASON_FOR_NAMES = "its account was suspended"
"""The reason that the user sees at each name. Only the operator sees the reason for the user's suspension,
which may name a complainant.
"""


NAMES_AT_ONCE = 500
"""The maximum number of names in a transaction, so that other changes don't wait for long."""


class UserWithNames(Struct, frozen=True):
    """A user, and the names that were suspended or unsuspended together with the user.

    `more` is True if more names may follow: do the same again.
    """

    member: Member
    names: tuple[str, ...]
    more: bool = False


def suspend_with_names(tx: Tx, actor: Actor, identifier: str, reason: str | None = None) -> UserWithNames:
    """Suspend a user and up to `NAMES_AT_ONCE` of their names, live and in the trash.

    The names leave the zone. Call it until the result has no `more`. The first call suspends the user.

    `unsuspend_with_names` will not end the suspensions of names that are suspended already. If the user is
    suspended already, only the names are suspended now. The audit events record the state of each name before
    the suspension.

    Raises, in this order:
        NotFound: there is no such user.
        ValidationFailed: the reason is too long or has unprintable characters.
        Conflict: the user and all names are suspended already.
    """
    user = lock_user(tx, identifier)
    _, errors = check_reason(reason)
    if errors:
        raise validation_failed(errors)
    found = suspension_store.list_suspendable(tx, user.id, NAMES_AT_ONCE + 1)
    names = found[:NAMES_AT_ONCE]
    if user.suspended_at is None:
        suspend_user(tx, actor, str(user.id), reason)
    elif not names:
        raise Conflict(f"{user.email} is suspended already, and so are all its names. No action needed.")
    end_transfers_from(tx, actor, user.id)
    suspension_store.suspend_names(tx, names, REASON_FOR_NAMES)
    after = {"suspended_at": tx.now.isoformat(), "suspended_reason": REASON_FOR_NAMES, "with_user": True}
    audit.record_many(
        tx,
        actor,
        "subdomain.suspend",
        {each.id: after for each in names},
        before={each.id: state_before_suspension(each, tx.now) for each in names},
    )
    member = find_member(tx, user.id)
    return UserWithNames(member, tuple(each.fqdn for each in names), more=len(found) > NAMES_AT_ONCE)


def unsuspend_with_names(tx: Tx, actor: Actor, identifier: str, *, keep_names: bool = False) -> UserWithNames:
    """End the suspensions of up to `NAMES_AT_ONCE` of the names that were suspended with a user, and the
    suspension of the user if there are no more.

    The names return to the zone with their stored delegation. Call it until the result has no `more`. The
    last call ends the suspension of the user. Names that were suspended separately stay suspended. With
    `keep_names` all names stay suspended, and can be unsuspended one by one. Grace periods and times in the
    trash start again, as in `unsuspend`.

    Raises, in this order:
        NotFound: there is no such user.
        Conflict: the user is not suspended.
    """
    user = lock_user(tx, identifier)
    if keep_names:
        suspension_store.keep_suspended(tx, user.id)
    found = suspension_store.list_suspended_with_user(tx, user.id, NAMES_AT_ONCE + 1)
    names, more = found[:NAMES_AT_ONCE], len(found) > NAMES_AT_ONCE
    member = find_member(tx, user.id) if more else unsuspend_user(tx, actor, str(user.id))
    suspension_store.unsuspend_names(tx, names)
    audit.record_many(
        tx,
        actor,
        "subdomain.unsuspend",
        {each.id: {"with_user": True} for each in names},
        before={each.id: _suspension(each) for each in names},
    )
    return UserWithNames(member, tuple(each.fqdn for each in names), more=more)
