"""Delete a user and erase the user's personal data (`sublet user delete`; docs/spec-choices.md, "A user that
is deleted").

The user's row is kept without personal data, because names, transfers and audit events refer to it.
"""

from msgspec import Struct

from sublet import audit
from sublet.accounts import store as account_store
from sublet.accounts.fields import normalise_email
from sublet.accounts.find import find_user, lock_acting_user, lock_user, refuse_account
from sublet.accounts.membership_store import count_members, find_account, list_memberships, list_owners
from sublet.accounts.model import Membership, Organization, User
from sublet.accounts.organizations import lock_with_organizations, remove_member_if_any
from sublet.accounts.tokens.issue import revoke
from sublet.audit import Actor
from sublet.counted import counted
from sublet.credits.entries import next_reference, post_entry
from sublet.credits.ledger import NewEntry
from sublet.credits.model import Outcome
from sublet.credits.store import find_balance, lock_balance
from sublet.db import Tx
from sublet.errors import Conflict, FieldError, validation_failed
from sublet.mail.letter import render
from sublet.mail.model import DELETION_NOTICE
from sublet.mail.outbox import enqueue_to
from sublet.organizations.notices import notify_owners
from sublet.registry import erasure_store as store
from sublet.structs import replace
from sublet.subdomains.delete import move_to_trash
from sublet.subdomains.model import Subdomain
from sublet.subdomains.suspend import unsuspend
from sublet.subdomains.transfers.end import end_transfers_to
from sublet.tickets.model import TicketFilter
from sublet.tickets.staff import close_without_mail
from sublet.tickets.store import list_own

NAMES_SHOWN_MAX = 10
NAMES_AT_ONCE = 500
"""The maximum number of names in a part of a deletion, so that other changes don't wait for long."""
_FORFEITED = "Adjustment: forfeited, because the account was deleted"
_TICKETS_MAX = 1_000_000


class DeletedUser(Struct, frozen=True):
    """The result: names moved to the trash, forfeited credits, erased addresses and names (`identities`, in
    lower case).
    """

    user_id: int
    trashed: tuple[str, ...]
    forfeited_credits: int
    identities: frozenset[str]
    organization_erased: bool


class DeletedNames(Struct, frozen=True):
    """The names of one part of a deletion. `more` is True if another part must follow."""

    names: tuple[str, ...] = ()
    more: bool = False


def trash_some_names(
    tx: Tx, actor: Actor, identifier: str, *, trash_names: bool = False, confirmed: bool = False
) -> DeletedNames:
    """Move `NAMES_AT_ONCE` live or suspended names of a user to the trash, before `delete_user`.

    A part for `sublet.db.write_parts`. It leaves the last `NAMES_AT_ONCE` names to `delete_user`.

    Raises the refusals of `delete_user`.
    """
    user, _ = _lock_deletable(tx, actor, identifier, trash_names=trash_names, confirmed=confirmed)
    found = store.list_held(tx, user.id, unended=True, limit=NAMES_AT_ONCE + 1)
    if len(found) <= NAMES_AT_ONCE:
        return DeletedNames()
    return DeletedNames(_trash_names(tx, actor, found[:NAMES_AT_ONCE]), more=True)


def delete_user(
    tx: Tx, actor: Actor, identifier: str, *, trash_names: bool = False, confirmed: bool = False
) -> DeletedUser:
    """Erase a user's address, name and texts, revoke the tokens, forfeit the credits, and move the live names
    to the trash.

    Pending transfers of names from and to the user end. Organizations without other members are erased; if
    the user was the last owner of an organization, `find_next_owner` chooses the next owner, who gets a mail.
    The address can be used again.

    Call `trash_some_names` before, because a user may have thousands of names.

    Raises, in this order:
        NotFound: no user has this address or id, or the user is deleted.
        Conflict: the user is the account of an organization.
        ValidationFailed: the reason contains the user's address or name, which would be stored again.
        Conflict: an organization without other members has credits, or names that aren't purged.
        Conflict: the user has live names, and `trash_names` is false.
        Conflict: `confirmed` is false.

    Not checked: other users' texts about the user (`erasure_store.find_mentions` finds them), backups and
    logs.
    """
    user, emptied = _lock_deletable(tx, actor, identifier, trash_names=trash_names, confirmed=confirmed)
    identities, balance = store.list_identities(tx, user.id), lock_balance(tx, user.id)
    for membership in list_memberships(tx, user.id):
        _leave(tx, actor, membership)
    forfeit_credits(tx, actor, user, balance, _FORFEITED)
    trashed = _trash_names(tx, actor, store.list_held(tx, user.id, unended=True))
    end_transfers_to(tx, actor, user, [user.email])
    for token in account_store.list_tokens(tx, user.id):
        if token.revoked_at is None:
            revoke(tx, actor, token)
    close_tickets(tx, actor, user.id)
    organization_erased = _erase(tx, actor, user, identities, emptied, forfeited_credits=balance)
    return DeletedUser(user.id, trashed, balance, frozenset(identities), organization_erased)


def _lock_deletable(
    tx: Tx, actor: Actor, identifier: str, *, trash_names: bool, confirmed: bool
) -> tuple[User, list[Organization]]:
    """Lock a user who can be deleted, and the user's organizations. Return the user, and the organizations
    without other members.

    Raises the refusals of `delete_user`.
    """
    lock_with_organizations(tx, find_user(tx, identifier).id)
    user = lock_user(tx, identifier)
    refuse_account(user)
    _refuse_reason(actor, store.list_identities(tx, user.id))
    emptied = _list_emptied_organizations(tx, user)
    if trash_names and confirmed:
        return user, emptied
    live = [each for each in store.list_held(tx, user.id) if each.trashed_at is None]
    if live and not trash_names:
        shown = ", ".join(each.fqdn for each in live[:NAMES_SHOWN_MAX])
        more = f" and {len(live) - NAMES_SHOWN_MAX} more" if len(live) > NAMES_SHOWN_MAX else ""
        raise Conflict(
            f"{user.email} holds {counted(len(live), 'live name')}: {shown}{more}. Delete them first, or "
            "give --trash-names."
        )
    if not confirmed:
        raise Conflict(
            f"This erases {user.email} (id {user.id}) for good: {counted(len(live), 'live name')} would go "
            f"to the trash, {counted(lock_balance(tx, user.id), 'credit')} be forfeited. Give --yes to do it."
        )
    return user, emptied


def forfeit_credits(tx: Tx, actor: Actor, holder: User, balance: int, description: str) -> None:
    """Deduct the whole balance of a holder who is being deleted.

    Call it before names are locked, because balances are locked before names.
    """
    if balance:
        reference = next_reference(tx, holder, "adjustment")
        entry = NewEntry(holder.id, "adjustment", -balance, reference, description)
        post_entry(tx, actor, holder, "credits.adjust", entry)


def close_tickets(tx: Tx, actor: Actor, holder_id: int) -> None:
    """Close the open tickets of a holder who is being deleted."""
    of_holder = Actor("user", user_id=holder_id)
    for ticket in list_own(tx, of_holder, TicketFilter(archived=False), _TICKETS_MAX, None):
        close_without_mail(tx, actor, ticket)


def _leave(tx: Tx, actor: Actor, membership: Membership) -> None:
    """End a membership, and mail the member who becomes the owner."""
    organization = membership.organization
    next_owner = remove_member_if_any(tx, actor, membership.user.id, organization.id)
    if next_owner is not None and find_account(tx, organization.id) is not None:
        sentence = f"{next_owner.email} is the owner now, because the account of the last owner was deleted."
        notify_owners(tx, organization, sentence, about=[next_owner])


def _list_emptied_organizations(tx: Tx, user: User) -> list[Organization]:
    """Return the organizations whose only member is this user.

    Raises:
        Conflict: such an organization has names or credits, which no user could reach any more.
    """
    found = [
        each.organization
        for each in list_memberships(tx, user.id)
        if count_members(tx, each.organization.id) == 1
    ]
    for organization in found:
        account = find_account(tx, organization.id)
        if account is None:
            continue
        names, balance = store.list_held(tx, account.id), find_balance(tx, account.id)
        if names or balance:
            raise Conflict(
                f"{user.email} is the only member of {account.email}, which has "
                f"{counted(len(names), 'name')} and {counted(balance, 'credit')}. "
                "Move or purge the names and deduct the credits first, or add another user to it."
            )
    return found


def _refuse_reason(actor: Actor, identities: set[str]) -> None:
    reason = _words(actor.reason or "")
    if any(_words(each) in reason for each in identities):
        sentence = (
            "The reason contains the user's address or name, and would stay in the audit. Give a reason "
            "without them."
        )
        raise validation_failed([FieldError("reason", "value_invalid", sentence)])


def _words(text: str) -> str:
    """Return the words of a text in lower case, each between spaces."""
    letters = "".join(char if char.isalnum() else " " for char in text.lower())
    return f" {' '.join(letters.split())} "


def _trash_names(tx: Tx, actor: Actor, names: list[Subdomain]) -> tuple[str, ...]:
    """Move live names to the trash, and lift suspensions, because a suspended name would never be released.

    Return those that were live.
    """
    for each in names:
        subdomain = unsuspend(tx, actor, str(each.id)) if each.suspended_at is not None else each
        if subdomain.trashed_at is None:
            move_to_trash(tx, actor, subdomain)
    return tuple(each.fqdn for each in names if each.trashed_at is None)


def _erase(
    tx: Tx,
    actor: Actor,
    user: User,
    identities: set[str],
    emptied: list[Organization],
    *,
    forfeited_credits: int,
) -> bool:
    """Erase the personal data of a user, the emptied organizations, and those named after the user's address.

    Return True if the user's own organization was erased.
    """
    addresses = store.list_own_addresses(tx, user.id)
    emptied_ids = {each.id for each in emptied}
    erased = emptied_ids | set(store.list_named_after(tx, addresses))
    store.erase_texts(tx, user.id, identities, addresses)
    store.erase_append_only(tx, user.id, erased, addresses)
    for organization in emptied:
        if (account := find_account(tx, organization.id)) is not None:
            close_tickets(tx, actor, account.id)
            store.erase_texts(tx, account.id)
            store.erase_append_only(tx, account.id)
    for organization_id in erased:
        store.erase_organization(tx, organization_id, has_members=organization_id not in emptied_ids)
    values = {"email": f"deleted user {user.id}", "name": "Deleted user", "reminders": False}
    account_store.update_user(tx, user.id, **values, suspended_reason=None, deleted_at=tx.now)
    after = {**values, "deleted_at": tx.now.isoformat(), "forfeited_credits": forfeited_credits}
    audit.record(tx, actor, "user.delete", user.id, after=after)
    return user.organization_id in erased


def trash_some_own_names(tx: Tx, actor: Actor, confirm: str | None) -> DeletedNames:
    """Do `trash_some_names` for the acting user, before `delete_own_user`, whose refusals it raises."""
    user = _lock_own(tx, actor, confirm)
    return trash_some_names(tx, actor, str(user.id), trash_names=True, confirmed=True)


def delete_own_user(tx: Tx, actor: Actor, confirm: str | None) -> Outcome:
    """Delete the acting user like `sublet user delete`, and mail a notice to the user's former address.

    `confirm` must be the user's address. Live names go to the trash, and credits are forfeited. Call
    `trash_some_own_names` before.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        Conflict: the operator suspended a name of the user, and the deletion would erase the reason.
        Conflict: the user is the only owner of an organization that has other members, names or credits.
        Conflict: `confirm` is missing; the message and `details` have the numbers of names and credits.
        ValidationFailed: `confirm` is not the user's address.
    """
    user = _lock_own(tx, actor, confirm)
    # The event of the deletion is kept, so it must not have the client's address.
    delete_user(tx, replace(actor, address=None), str(user.id), trash_names=True, confirmed=True)
    notice = render("account_deleted")
    reference = f"{DELETION_NOTICE}{user.id}"
    enqueue_to(tx, user.email, notice, reference=reference)
    return Outcome(user.id)


def _lock_own(tx: Tx, actor: Actor, confirm: str | None) -> User:
    """Lock and return the acting user, and raise the refusals of `delete_own_user`."""
    if actor.user_id is not None:
        # All locks at once, in their order. The checks below read after them.
        lock_with_organizations(tx, actor.user_id)
    user = lock_acting_user(tx, actor)
    held = store.count_held(tx, user.id)
    if held.suspended:
        raise Conflict(
            f"The operator suspended {counted(held.suspended, 'name')} of yours, so you can't delete the "
            "account now. Open a ticket to ask why."
        )
    _refuse_last_owner(tx, user)
    if confirm is None:
        balance = find_balance(tx, user.id)
        raise Conflict(
            f"This deletes your account for good, with {counted(held.live, 'name')} and "
            f"{counted(balance, 'credit')}. Transfer the names that you "
            "want to keep alive, then confirm with the address of your account.",
            details={"names": held.live, "credits": balance},
        )
    if normalise_email(confirm) != user.email:
        sentence = "This is not the address of your account. Check the spelling."
        raise validation_failed([FieldError("confirm", "value_invalid", sentence)])
    return user


def _refuse_last_owner(tx: Tx, user: User) -> None:
    """Raise `Conflict` if an organization needs this user: the members need an owner, and only an owner
    reaches names and credits.
    """
    for membership in list_memberships(tx, user.id):
        organization = membership.organization
        account = find_account(tx, organization.id)
        if account is None or [each.id for each in list_owners(tx, organization.id)] != [user.id]:
            continue
        others = count_members(tx, organization.id) - 1
        names, balance = len(store.list_held(tx, account.id)), find_balance(tx, account.id)
        if others or names or balance:
            raise Conflict(
                f"You are the only owner of {organization.name}, which has "
                f"{counted(others, 'other member')}, {counted(names, 'name')} and "
                f"{counted(balance, 'credit')}. Make another member an owner, or delete the organization, "
                "then delete your account.",
                details={"organization_id": organization.id},
            )
