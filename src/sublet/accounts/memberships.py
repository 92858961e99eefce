"""Join and leave organizations, and the accounts with which organizations hold names and credits (docs/decisions/0018-holders.md)."""

from sublet import audit
from sublet.accounts import membership_store, store
from sublet.accounts.model import Membership, Organization
from sublet.accounts.roles import MEMBER, OWNER
from sublet.accounts.tokens import revoke
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict


def account_email(organization_id: int) -> str:
    """Return what an organization's account has in place of an address: `organization:12`. Operators name it so. No address looks like it."""
    return f"organization:{organization_id}"


def add_account(tx: Tx, actor: Actor, organization: Organization) -> None:
    """Add the account of a new organization. It counts as a new user."""
    email = account_email(organization.id)
    account_id = membership_store.insert_account(tx, organization, email)
    after = {"email": email, "name": organization.name, "organization_id": organization.id}
    audit.record(tx, actor, "user.add", account_id, after=after)


def refuse_shared(tx: Tx, organization: Organization) -> None:
    """Raise `Conflict` if an organization has an account, and so can't be a user's own one."""
    if membership_store.find_account(tx, organization.id) is not None:
        raise Conflict(
            f"{organization.name} has names of its own, so it can't be a user's own organization. Add the user without it, then give a "
            f"role with `sublet organization set-role {organization.id}`."
        )


def lock_members(tx: Tx, organization: Organization, user_ids: set[int]) -> None:
    """Lock the account of an organization and these users, so that changes of its members run one after the other.

    Raises:
        Conflict: the organization has no account, because it is its users' own.
    """
    account = membership_store.find_account(tx, organization.id)
    if account is None:
        raise Conflict(
            f"{organization.name} is its users' own organization, and holds nothing itself. To share names, send POST /organizations for "
            "another one."
        )
    store.lock_users(tx, {account.id, *user_ids})


def join(tx: Tx, actor: Actor, user_id: int, organization: Organization, role: str) -> bool:
    """Make a user a member; False if it is one already, whose role then stays."""
    if not membership_store.insert_membership(tx, user_id, organization.id, role):
        return False
    after = {"user_id": user_id, "role": role}
    audit.record(tx, actor, "organization.join", organization.id, after=after)
    return True


def join_own(tx: Tx, actor: Actor, user_id: int, organization: Organization) -> None:
    """Make a user a member of the organization that is its own: the owner if it has none, else a member."""
    role = MEMBER if membership_store.list_owners(tx, organization.id) else OWNER
    join(tx, actor, user_id, organization, role)


def leave(tx: Tx, actor: Actor, membership: Membership) -> None:
    """End a membership, and revoke the user's tokens for the organization. Not checked: whether an owner is left."""
    user, organization = membership.user, membership.organization
    membership_store.delete_membership(tx, user.id, organization.id)
    before = {"user_id": user.id, "role": membership.role}
    audit.record(tx, actor, "organization.leave", organization.id, before=before)
    for token in membership_store.list_valid_tokens(tx, user.id, organization.id):
        revoke(tx, actor, token)


def leave_by_operator(tx: Tx, actor: Actor, user_id: int, organization_id: int) -> None:
    """End a membership, if there is one. If no owner is left, the oldest member becomes one, if possible one that isn't suspended."""
    account = membership_store.find_account(tx, organization_id)
    if account is not None:  # otherwise no request changes its members
        store.lock_user(tx, account.id)
    membership = membership_store.find_membership(tx, user_id, organization_id)
    if membership is None:
        return
    leave(tx, actor, membership)
    heir = membership_store.find_heir(tx, organization_id)
    if heir is not None and not membership_store.list_owners(tx, organization_id):
        change_role(tx, actor, heir.id, organization_id, OWNER)


def change_role(tx: Tx, actor: Actor, user_id: int, organization_id: int, role: str) -> None:
    """Store a member's role, which is another one than now. Not checked: whether an owner is left."""
    before = {"user_id": user_id, "role": store.find_role(tx, user_id, organization_id)}
    membership_store.update_role(tx, user_id, organization_id, role)
    after = {"user_id": user_id, "role": role}
    audit.record(tx, actor, "organization.set_role", organization_id, before=before, after=after)
