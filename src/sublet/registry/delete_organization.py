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
from sublet.registry.delete_user import close_tickets, forfeit_credits
from sublet.subdomains.delete import move_to_trash
from sublet.subdomains.find import reread
from sublet.subdomains.model import Subdomain
from sublet.subdomains.purge import mark_purged
from sublet.subdomains.store import lock_subdomains

_FORFEITED = "Adjustment: forfeited, because the organization was deleted"


def delete_organization(tx: Tx, actor: Actor, identifier: str, confirm: str | None) -> Outcome:
    """Delete an organization with its names, credits, tokens and memberships, and mail all members.

    Its names are purged at once, because no user could restore them; credits are forfeited, open tickets
    closed. Name and slug are erased from the organization, so that the slug is free again. The audit keeps
    them.

    Raises, in this order:
        AccountSuspended, OrganizationNotFound, Conflict, InsufficientRole: raised by `lock_all_as_owner`.
        Conflict: the operator suspended the organization or one of its names.
        Conflict: `confirm` is missing; the message and `details` have the numbers of members, names and
            credits.
        ValidationFailed: `confirm` is not the organization's slug.
    """
    own = lock_all_as_owner(tx, actor, identifier)
    organization = own.organization
    account = find_account(tx, organization.id)
    assert account is not None  # noqa: S101 - locked
    held, balance = store.list_held(tx, account.id), lock_balance(tx, account.id)
    _refuse_suspended(organization, account, held)
    _refuse_unconfirmed(tx, organization, held, balance, confirm)
    forfeit_credits(tx, actor, account, balance, _FORFEITED)
    _purge(tx, actor, held)
    close_tickets(tx, actor, account.id)
    _end_memberships(tx, actor, own)
    store.erase_organization(tx, organization.id, has_members=False)
    before = {"name": organization.name, "slug": organization.slug}
    after = {"names": len(held), "forfeited_credits": balance}
    audit.record(tx, actor, "organization.delete", organization.id, before=before, after=after)
    return Outcome(own.user.id)


def _refuse_suspended(organization: Organization, account: User, held: list[Subdomain]) -> None:
    suspended = sum(each.suspended_at is not None for each in held)
    if account.suspended_at is not None or suspended:
        what = "it" if account.suspended_at is not None else f"{counted(suspended, 'name')} of it"
        raise Conflict(
            f"{organization.name} can't be deleted now, because the operator suspended {what}. Open a "
            "ticket to ask why."
        )


def _refuse_unconfirmed(
    tx: Tx, organization: Organization, held: list[Subdomain], balance: int, confirm: str | None
) -> None:
    if confirm is None:
        live, members = sum(each.trashed_at is None for each in held), count_members(tx, organization.id)
        raise Conflict(
            f"This deletes {organization.name} for good, with {counted(members, 'member')}, "
            f"{counted(live, 'name')}, {counted(len(held) - live, 'name')} "
            f"in the trash and {counted(balance, 'credit')}. Transfer the names that you want to keep, "
            f"then confirm with its slug, {organization.slug}.",
            details={
                "members": members,
                "names": live,
                "trashed_names": len(held) - live,
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
