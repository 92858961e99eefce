"""Invite people to an organization, show, revoke, accept and decline invitations (docs/spec-choices.md,
"Organizations").
"""

from msgspec import Struct

from sublet import audit
from sublet.accounts import membership_store
from sublet.accounts.fields import check_email
from sublet.accounts.find import find_member, refuse_ended_session, refuse_suspended
from sublet.accounts.membership_store import find_membership
from sublet.accounts.model import Member, Membership, Organization, User
from sublet.accounts.organizations import join, lock_members
from sublet.accounts.store import find_organization, find_user_by_email
from sublet.accounts.tokens.issue import digest
from sublet.accounts.users import add_user
from sublet.audit import Actor
from sublet.config import Settings
from sublet.db import Outdated, Tx
from sublet.errors import (
    Conflict,
    OrganizationNotFound,
    SignUpClosed,
    validation_failed,
)
from sublet.ids import parse_id
from sublet.limits import INVITATIONS_OF_ORGANIZATION, INVITATIONS_TO_ADDRESS
from sublet.mail.letter import render
from sublet.mail.model import CONFIRM_PATH
from sublet.mail.outbox import refuse_full_mailbox
from sublet.organizations.find import check_role, find_acting_user, lock_as_owner, refuse_restricted_token
from sublet.organizations.notices import notify_owners
from sublet.sign_up import store
from sublet.sign_up.codes import MEMBERSHIP, MailedCode, ReceivedInvitation, new_code
from sublet.sign_up.mailed_codes import mail_code


def invite_member(
    tx: Tx, actor: Actor, identifier: str, email: str | None, role: str | None, public_url: str
) -> MailedCode:
    """Mail an invitation, valid for a week, and return it.

    An open invitation to the same address becomes invalid.

    Addresses with and without an account get the same answer in the same time.

    Raises, in this order:
        AccountSuspended, OrganizationNotFound, Conflict, InsufficientRole: raised by `lock_as_owner`.
        ValidationFailed: all invalid fields: email, role; a role that allows more than the token
            (`exceeds_token`).
        Conflict: a member has this address.
        RateLimited: the address got too many mails from all requests within an hour; the organization has
            sent, or the address has got, the maximum number of invitations within 24 hours.
    """
    own = lock_as_owner(tx, actor, identifier)
    organization = own.organization
    email, errors = check_email(email or "")
    errors = [*errors, *check_role(actor, role)]
    if errors or role is None:
        raise validation_failed(errors)
    member_id = membership_store.find_member_id(tx, organization.id, email)
    if member_id is not None:
        raise Conflict(f"{email} is already a member. Change the role of the member instead.")
    refuse_full_mailbox(tx, email)
    _refuse_too_many(tx, organization.id, email)
    for each in store.list_open_invitations(tx, organization.id):
        if each.email == email:
            store.use_code(tx, each.id)
    new = new_code()
    message = render(
        "membership",
        role=role,
        inviter=own.user.email,
        slug=organization.slug,
        link=new.link(public_url, CONFIRM_PATH),
        public_url=public_url,
    )
    columns = {"organization_id": organization.id, "role": role, "invited_by_user_id": own.user.id}
    code_id = mail_code(tx, new, MEMBERSHIP, email, message, **columns)
    after = {"email": email, "role": role, "organization_id": organization.id}
    audit.record(tx, actor, "organization.invite", code_id, object_type="mailed_code", after=after)
    return find_invitation(tx, organization.id, str(code_id))


def find_invitation(tx: Tx, organization_id: int, identifier: str) -> MailedCode:
    """Return an open invitation to an organization.

    Raises:
        OrganizationNotFound: no invitation has this id, or it was accepted or revoked, or has expired.
    """
    found = _find_open(tx, identifier)
    if found is None or found.organization_id != organization_id:
        raise _not_found_refusal()
    return found


def revoke_invitation(tx: Tx, actor: Actor, identifier: str, invitation: str) -> MailedCode:
    """Revoke an open invitation, and return it.

    Raises, in this order:
        AccountSuspended, OrganizationNotFound, Conflict, InsufficientRole: raised by `lock_as_owner`.
        OrganizationNotFound: no open invitation has this id.
    """
    own = lock_as_owner(tx, actor, identifier)
    found = find_invitation(tx, own.organization.id, invitation)
    store.use_code(tx, found.id)
    after = {"organization_id": own.organization.id}
    audit.record(
        tx, actor, "organization.revoke_invitation", found.id, object_type="mailed_code", after=after
    )
    return found


def _refuse_too_many(tx: Tx, organization_id: int, email: str) -> None:
    limit = INVITATIONS_OF_ORGANIZATION
    if store.count_invitations(tx, limit.since(tx.now), organization_id=organization_id) >= limit.most:
        raise limit.refusal(
            f"The organization sent {limit.most} invitations within 24 hours, which is the maximum. Wait "
            "a day."
        )
    limit = INVITATIONS_TO_ADDRESS
    if store.count_invitations(tx, limit.since(tx.now), email=email) >= limit.most:
        raise limit.refusal(
            f"This address got {limit.most} invitations within 24 hours, which is the maximum. Wait a day."
        )


class Accepted(Struct, frozen=True):
    """The new membership. `is_new` is true for a user who had no account."""

    membership: Membership
    member: Member
    is_new: bool


def opens_accounts(settings: Settings) -> bool:
    """True if an invitation to an organization opens an account for an address without one."""
    return settings.signup != "closed"


def accept_invitation(
    tx: Tx, actor: Actor, code: str, name: str | None = None, *, opens_accounts: bool
) -> Accepted | None:
    """Make the user with the invited address a member.

    With `opens_accounts`, an address without an account gets a new user.

    The code proves the address, so the request needs no token. `name` is the name of a new user, by default
    the address before the `@`. A user who is already a member keeps the role. Return None if the code is
    wrong, used, void or expired.

    Raises, in this order:
        SignUpClosed: the address has no account, and `opens_accounts` is false.
        AccountSuspended: the user with the address is suspended.
        ValidationFailed: the name is invalid.
    """
    found = store.find_by_link(tx, digest(code))
    if found is None or found.purpose != MEMBERSHIP:
        return None
    user = find_user_by_email(tx, found.email)
    organization = _lock_invitation(tx, actor, found, user)
    if organization is None:
        return None
    if user is None and not opens_accounts:
        raise SignUpClosed(
            "An invitation to an organization opens no account here. Ask the operator for an account, "
            "then open the link again."
        )
    if user is not None:
        refuse_suspended(user)
    return _join(tx, actor, found, organization, user, name)


def _lock_invitation(tx: Tx, actor: Actor, found: MailedCode, user: User | None) -> Organization | None:
    """Lock the invited user, the organization and the invitation. Return the organization, or None if the
    invitation isn't open any more.

    Raises, in this order:
        Outdated: another user has the address now.
        SessionInvalid: the session ended after the request was authenticated.
    """
    assert found.organization_id is not None  # noqa: S101 - an invitation to an organization
    organization = find_organization(tx, found.organization_id)
    assert organization is not None  # noqa: S101 - the foreign key ensures it
    lock_members(tx, organization, {user.id} if user is not None else set())
    if find_user_by_email(tx, found.email) != user:
        # The user was deleted, got another address, or opened the account, before this transaction had its
        # locks.
        raise Outdated
    refuse_ended_session(tx, actor)
    store.lock_code(tx, found.id)
    # Read after the locks: the owner who sent the invitation may have revoked it or left the organization.
    return organization if store.find_open_invitation(tx, found.id) is not None else None


def _join(
    tx: Tx, actor: Actor, found: MailedCode, organization: Organization, user: User | None, name: str | None
) -> Accepted:
    """Use up a locked invitation, and make the user a member. Without a user, open an account first."""
    assert found.role is not None  # noqa: S101 - an invitation to an organization
    is_new = user is None
    if user is None:
        user = add_user(tx, actor, found.email, name or found.email.partition("@")[0], signed_up=True).user
    store.use_code(tx, found.id)
    if join(tx, actor, user.id, organization, found.role):
        notify_owners(tx, organization, f"{user.email} has joined as {found.role}.", about=[user])
    membership = find_membership(tx, user.id, organization.id)
    assert membership is not None  # noqa: S101 - just added
    return Accepted(membership, find_member(tx, user.id), is_new)


def view_invitation(tx: Tx, code: str) -> ReceivedInvitation | None:
    """Return the open invitation with this code; None if there is none. The code isn't used up."""
    return store.find_received_invitation(tx, digest(code))


def accept_received_invitation(tx: Tx, actor: Actor, identifier: str) -> Accepted:
    """Accept an open invitation to the acting user's address. The mailed code is used up.

    Raises, in this order:
        AccountSuspended, TokenRestricted, OrganizationNotFound, SessionInvalid: raised by `_lock_received`.
    """
    user, found, organization = _lock_received(tx, actor, identifier)
    return _join(tx, actor, found, organization, user, None)


def decline_invitation(tx: Tx, actor: Actor, identifier: str) -> MailedCode:
    """Decline an open invitation to the acting user's address, and return it. No mail is sent.

    The mailed code is used up.

    Raises, in this order:
        AccountSuspended, TokenRestricted, OrganizationNotFound, SessionInvalid: raised by `_lock_received`.
    """
    _, found, organization = _lock_received(tx, actor, identifier)
    store.use_code(tx, found.id)
    after = {"organization_id": organization.id}
    audit.record(
        tx, actor, "organization.decline_invitation", found.id, object_type="mailed_code", after=after
    )
    return found


def _lock_received(tx: Tx, actor: Actor, identifier: str) -> tuple[User, MailedCode, Organization]:
    """Lock and return the acting user, the open invitation to the user's address with this id, and its
    organization.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        TokenRestricted: raised by `refuse_restricted_token`.
        OrganizationNotFound: no open invitation to this address has this id.
        SessionInvalid: the session ended after the request was authenticated.
        OrganizationNotFound: the invitation was answered or revoked while this transaction waited.
    """
    user = find_acting_user(tx, actor)
    refuse_suspended(user)
    refuse_restricted_token(actor)
    found = _find_open(tx, identifier)
    if found is None or found.email != user.email:
        raise _not_found_refusal()
    organization = _lock_invitation(tx, actor, found, user)
    if organization is None:
        raise _not_found_refusal()
    return user, found, organization


def _find_open(tx: Tx, identifier: str) -> MailedCode | None:
    code_id = parse_id(identifier)
    return store.find_open_invitation(tx, code_id) if code_id is not None else None


def _not_found_refusal() -> OrganizationNotFound:
    return OrganizationNotFound("There is no such open invitation. Check the list of open invitations.")
