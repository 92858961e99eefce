"""Delete the account of the acting user (DELETE /me; docs/spec-choices.md, "A user that is deleted")."""

from dataclasses import replace

from sublet.accounts.fields import normalise_email
from sublet.accounts.find import lock_acting_user
from sublet.accounts.membership_store import count_members, find_account, list_memberships, list_owners
from sublet.accounts.memberships import lock_with_organizations
from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.counted import counted
from sublet.credits.model import Outcome
from sublet.credits.store import find_balance
from sublet.db import Tx
from sublet.errors import Conflict, FieldError, validation_failed
from sublet.mail.model import DELETION_NOTICE
from sublet.mail.outbox import enqueue_to
from sublet.mail.templates import render
from sublet.registry import erasure_store as store
from sublet.registry.delete_user import delete_user


def delete_own_user(tx: Tx, actor: Actor, confirm: str | None) -> Outcome:
    """Delete the acting user like `sublet user delete`, and mail a notice to the user's former address.

    `confirm` must be the user's address. Live names go to the trash, and credits are forfeited.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        Conflict: the operator suspended a name of the user, and the deletion would erase the reason.
        Conflict: the user is the only owner of an organization that has other members, names or credits.
        Conflict: `confirm` is missing; the message and `details` have the numbers of names and credits.
        ValidationFailed: `confirm` is not the user's address.
    """
    if actor.user_id is not None:
        # All locks at once, in their order. The checks below read after them.
        lock_with_organizations(tx, actor.user_id)
    user = lock_acting_user(tx, actor)
    held = store.list_held(tx, user.id)
    suspended = [each for each in held if each.suspended_at is not None]
    if suspended:
        raise Conflict(
            f"The operator suspended {counted(len(suspended), 'name')} of yours, so you can't delete the account now. Open a ticket to ask why."
        )
    _refuse_last_owner(tx, user)
    if confirm is None:
        live = sum(each.trashed_at is None for each in held)
        balance = find_balance(tx, user.id)
        raise Conflict(
            f"This deletes your account for good, with {counted(live, 'name')} and {counted(balance, 'credit')}. Transfer the names that you "
            'want to keep alive, then send {"confirm": "YOUR ADDRESS"}.',
            details={"names": live, "credits": balance},
        )
    if normalise_email(confirm) != user.email:
        sentence = "This is not the address of your account. Send the address that GET /me shows."
        raise validation_failed([FieldError("confirm", "value_invalid", sentence)])
    # The event of the deletion is kept, so it must not have the client's address.
    delete_user(tx, replace(actor, address=None), str(user.id), trash_names=True, confirmed=True)
    notice = render("account_deleted")
    reference = f"{DELETION_NOTICE}{user.id}"
    enqueue_to(tx, user.email, notice, reference=reference)
    return Outcome(user.id)


def _refuse_last_owner(tx: Tx, user: User) -> None:
    """Raise `Conflict` if an organization needs this user: the members need an owner, and only an owner reaches names and credits."""
    for membership in list_memberships(tx, user.id):
        organization = membership.organization
        account = find_account(tx, organization.id)
        if account is None or [each.id for each in list_owners(tx, organization.id)] != [user.id]:
            continue
        others = count_members(tx, organization.id) - 1
        names, balance = len(store.list_held(tx, account.id)), find_balance(tx, account.id)
        if others or names or balance:
            raise Conflict(
                f"You are the only owner of {organization.name}, which has {counted(others, 'other member')}, {counted(names, 'name')} and "
                f"{counted(balance, 'credit')}. Make another member an owner, or delete the organization, then delete your account.",
                details={"organization_id": organization.id},
            )
