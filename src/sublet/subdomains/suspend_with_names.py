"""Suspend a user with all its names (the operator's `sublet user suspend --with-names`)."""

from dataclasses import dataclass

from sublet import audit
from sublet.accounts.fields import check_reason
from sublet.accounts.find import find_user, lock_user, member_of
from sublet.accounts.model import Member
from sublet.accounts.suspend_user import suspend_user
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, validation_failed
from sublet.subdomains import suspension_store
from sublet.subdomains.evidence import evidence_of

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
    held = list(suspension_store.list_suspendable(tx, user.id))
    if user.suspended_at is None:
        suspend_user(tx, actor, str(user.id), reason)
    elif not held:
        raise Conflict(f"{user.email} is suspended already, and so are all its names. No action needed.")
    # From here on it must succeed.
    suspension_store.suspend_all(tx, user.id, REASON)
    said = {"suspended_at": tx.now.isoformat(), "suspended_reason": REASON, "with_user": True}
    audit.record_many(
        tx,
        actor,
        "subdomain.suspend",
        "subdomain",
        {each.id: said for each in held},
        before={each.id: evidence_of(each, tx.now) for each in held},
    )
    member = member_of(tx, find_user(tx, str(user.id)))
    return SuspendedTogether(member, tuple(each.fqdn for each in held))
