"""Delete an organization of the acting owner (DELETE /organizations/{id}; docs/spec-choices.md,
"Organizations").
"""

from sublet import audit
from sublet.accounts.membership_store import count_members, find_account, list_members
from sublet.accounts.model import Membership, Organization, User
from sublet.accounts.organizations import leave
from sublet.audit import Actor
from sublet.counted import counted
from sublet.credits.model import Outcome
from sublet.credits.store import lock_balance
from sublet.db import Tx
from sublet.errors import Conflict, FieldError, validation_failed
from sublet.organizations.find import lock_all_as_owner
from sublet.organizations.notices import notify_members
from sublet.registry import erasure_store as store
from sublet.registry.delete_user import NAMES_AT_ONCE, DeletedNames, close_tickets, forfeit_credits
from sublet.registry.erasure_store import Held
from sublet.subdomains.delete import move_to_trash
from sublet.subdomains.find import reread
from sublet.subdomains.model import Subdomain
from sublet.subdomains.purge import mark_purged
from sublet.subdomains.store import lock_subdomains

_FORFEITED = "Adjustment: forfeited, because the organization was deleted"


def purge_some_names(tx: Tx, actor: Actor, identifier: str, confirm: str | None) -> DeletedNames:
    """Purge `NAMES_AT_ONCE` names of an organization, before `delete_organization`.

    A part for `sublet.db.write_parts`. It leaves the last `NAMES_AT_ONCE` names to `delete_organization`.

    Raises the refusals of `delete_organization`.
    """
    _, account = _lock_deletable(tx, actor, identifier, confirm)
    found = store.list_held(tx, account.id, limit=NAMES_AT_ONCE + 1)
    if len(found) <= NAMES_AT_ONCE:
        return DeletedNames()
    _purge(tx, actor, found[:NAMES_AT_ONCE])
    return DeletedNames(tuple(each.fqdn for each in found[:NAMES_AT_ONCE]), more=True)


def delete_organization(
    tx: Tx, actor: Actor, identifier: str, confirm: str | None, purged: int = 0
) -> Outcome:
    """Delete an organization with its names, credits, tokens and memberships, and mail all members.

    Its names are purged at once, because no user could restore them; credits are forfeited, open tickets
    closed. Name and slug are erased from the organization, so that the slug is free again. The audit keeps
    them. `purged` is the number of names that `purge_some_names` purged before.

    Raises, in this order:
        AccountSuspended, OrganizationNotFound, Conflict, InsufficientRole: raised by `lock_all_as_owner`.
        Conflict: the operator suspended the organization or one of its names.
        Conflict: `confirm` is missing; the message and `details` have the numbers of members, names and
            credits.
        ValidationFailed: `confirm` is not the organization's slug.
    """
    own, account = _lock_deletable(tx, actor, identifier, confirm)
    organization, balance = own.organization, lock_balance(tx, account.id)
    held = store.list_held(tx, account.id)
    forfeit_credits(tx, actor, account, balance, _FORFEITED)
    _purge(tx, actor, held)
    close_tickets(tx, actor, account.id)
    _end_memberships(tx, actor, own)
    store.erase_organization(tx, organization.id, has_members=False)
    before = {"name": organization.name, "slug": organization.slug}
    after = {"names": purged + len(held), "forfeited_credits": balance}
    audit.record(tx, actor, "organization.delete", organization.id, before=before, after=after)
    return Outcome(own.user.id)


def _lock_deletable(tx: Tx, actor: Actor, identifier: str, confirm: str | None) -> tuple[Membership, User]:
    """Lock an organization that can be deleted. Return the acting owner's membership, and the account.

    Raises the refusals of `delete_organization`.
    """
    own = lock_all_as_owner(tx, actor, identifier)
    account = find_account(tx, own.organization.id)
    assert account is not None  # noqa: S101 - locked
    held = store.count_held(tx, account.id)
    _refuse_suspended(own.organization, account, held.suspended)
    _refuse_unconfirmed(tx, own.organization, account, held, confirm)
    return own, account


def _refuse_suspended(organization: Organization, account: User, suspended: int) -> None:
    if account.suspended_at is not None or suspended:
        what = "it" if account.suspended_at is not None else f"{counted(suspended, 'name')} of it"
        raise Conflict(
            f"{organization.name} can't be deleted now, because the operator suspended {what}. Open a "
            "ticket to ask why."
        )


def _refuse_unconfirmed(
    tx: Tx, organization: Organization, account: User, held: Held, confirm: str | None
) -> None:
    if confirm is None:
        members, balance = count_members(tx, organization.id), lock_balance(tx, account.id)
        raise Conflict(
            f"This deletes {organization.name} for good, with {counted(members, 'member')}, "
            f"{counted(held.live, 'name')}, {counted(held.trashed, 'name')} "
            f"in the trash and {counted(balance, 'credit')}. Transfer the names that you want to keep, "
            f"then confirm with its slug, {organization.slug}.",
            details={
                "members": members,
                "names": held.live,
                "trashed_names": held.trashed,
                "credits": balance,
            },
        )
    if confirm.strip() != organization.slug:
        sentence = f"This is not the slug of the organization. Give {organization.slug}."
        raise validation_failed([FieldError("confirm", "value_invalid", sentence)])


def _purge(tx: Tx, actor: Actor, held: list[Subdomain]) -> None:
    # The lock keeps other names from getting a nameserver below these names until the commit, as in `purge`.
    lock_subdomains(tx, [each.id for each in held])
    for each in held:
        if each.trashed_at is None:
            move_to_trash(tx, actor, each)
        mark_purged(tx, actor, reread(tx, each))


def _end_memberships(tx: Tx, actor: Actor, own: Membership) -> None:
    """Mail all members, and end the memberships with their tokens."""
    organization = own.organization
    notify_members(tx, organization, f"{own.user.email} has deleted the organization.", about=[own.user])
    for each in list_members(tx, organization.id):
        leave(tx, actor, each)
