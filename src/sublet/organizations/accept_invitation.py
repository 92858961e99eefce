"""Accept an invitation to an organization (POST /auth/invitations/{code}/accept; docs/spec-choices.md, "Organizations")."""

from dataclasses import dataclass

from sublet.accounts.find import find_member
from sublet.accounts.membership_store import find_membership
from sublet.accounts.memberships import join, lock_members
from sublet.accounts.model import Member, Membership
from sublet.accounts.store import find_organization, find_user_by_email
from sublet.accounts.tokens.issue import IssuedToken, digest
from sublet.accounts.users import add_user
from sublet.audit import Actor
from sublet.config import Settings
from sublet.db import Outdated, Tx
from sublet.errors import SignUpClosed
from sublet.organizations.notices import notify_owners
from sublet.sign_up import store
from sublet.sign_up.codes import MEMBERSHIP
from sublet.sign_up.sign_up import issue_first_token


@dataclass(frozen=True, slots=True)
class Accepted:
    """The new membership, and the first token of a user who had no account."""

    membership: Membership
    member: Member
    issued: IssuedToken | None


def opens_accounts(settings: Settings) -> bool:
    """True if an invitation to an organization opens an account for an address without one."""
    return settings.signup != "closed"


def accept_invitation(
    tx: Tx, actor: Actor, code: str, name: str | None = None, *, opens_accounts: bool
) -> Accepted | None:
    """Make the user with the invited address a member. With `opens_accounts`, an address without an account gets a new user with a first token.

    The code proves the address, so the request needs no token. `name` is the name of a new user, by default the address before the `@`. A
    user who is already a member keeps the role. Return None if the code is wrong, used, void or expired.

    Raises, in this order:
        SignUpClosed: the address has no account, and `opens_accounts` is false.
        ValidationFailed: the name is invalid.
    """
    found = store.find_by_link(tx, digest(code))
    if found is None or found.purpose != MEMBERSHIP or found.organization_id is None or found.role is None:
        return None
    organization = find_organization(tx, found.organization_id)
    assert organization is not None  # noqa: S101 - the foreign key ensures it
    user = find_user_by_email(tx, found.email)
    lock_members(tx, organization, {user.id} if user is not None else set())
    if find_user_by_email(tx, found.email) != user:
        raise Outdated  # The user was deleted, got another address, or opened the account, before this transaction had its locks.
    store.lock_code(tx, found.id)
    # Read after the locks: the owner who sent the invitation may have revoked it or left the organization.
    if store.find_open_invitation(tx, organization.id, found.id) is None:
        return None
    issued = None
    if user is None:
        if not opens_accounts:
            raise SignUpClosed(
                "An invitation to an organization opens no account here. Ask the operator for an account, then open the link again."
            )
        user = add_user(tx, actor, found.email, name or found.email.partition("@")[0], signed_up=True).user
        issued = issue_first_token(tx, actor, user)
    store.use_code(tx, found.id)
    if join(tx, actor, user.id, organization, found.role):
        notify_owners(tx, organization, f"{user.email} has joined as {found.role}.", about=[user])
    membership = find_membership(tx, user.id, organization.id)
    assert membership is not None  # noqa: S101 - just added
    return Accepted(membership, find_member(tx, user.id), issued)
