"""Add members to organizations and remove them; add the account that holds an organization's names
(docs/decisions/0018-holders.md).
"""

from collections.abc import Collection

from sublet import audit
from sublet.accounts import membership_store, store
from sublet.accounts.model import Membership, Organization, User
from sublet.accounts.roles import MEMBER, OWNER
from sublet.accounts.tokens.issue import revoke
from sublet.audit import Actor
from sublet.db import Outdated, Tx
from sublet.errors import Conflict


def account_email(organization_id: int) -> str:
    """Return the text that an organization's account has in place of an e-mail address, such as
    `organization:12`.
    """
    return f"organization:{organization_id}"


def add_account(tx: Tx, actor: Actor, organization: Organization) -> None:
    """Add the account of a new organization. The limits of new users apply to the account."""
    email = account_email(organization.id)
    account_id = membership_store.insert_account(tx, organization, email)
    after = {"email": email, "name": organization.name, "organization_id": organization.id}
    audit.record(tx, actor, "user.add", account_id, after=after)


def refuse_shared(tx: Tx, organization: Organization) -> None:
    """Raise `Conflict` if an organization has an account.

    Such an organization can't be a user's own organization.
    """
    if membership_store.find_account(tx, organization.id) is not None:
        raise Conflict(
            f"{organization.name} has names of its own, so it can't be a user's own organization. Add the "
            "user without an organization, then give the user a role with `sublet organization set-role "
            f"{organization.id}`."
        )


def lock_organization(tx: Tx, organization: Organization, user_ids: Collection[int]) -> None:
    """Lock these users, the account of an organization if it has one, and the organization.

    Changes of an organization's members run one after the other. Read what depends on the members after this
    call.
    """
    account = membership_store.find_account(tx, organization.id)
    store.lock_users(tx, {*user_ids, *([account.id] if account is not None else [])})
    store.lock_organizations(tx, [organization.id])


def lock_members(tx: Tx, organization: Organization, user_ids: Collection[int]) -> None:
    """Lock an organization like `lock_organization`, for a request that changes its members.

    Raises:
        Conflict: the organization has no account, because it is a user's own organization.
    """
    if membership_store.find_account(tx, organization.id) is None:
        raise Conflict(
            f"{organization.name} is a user's own organization, which can't hold names. Create an "
            "organization that can."
        )
    lock_organization(tx, organization, user_ids)


def lock_with_organizations(tx: Tx, user_id: int) -> None:
    """Lock a user, the accounts of the user's organizations, and the organizations: everything that a
    deletion of the user may change.

    Raises:
        Outdated: the user joined or left an organization while this transaction waited.
    """
    seen = [each.organization.id for each in membership_store.list_memberships(tx, user_id)]
    store.lock_users(tx, {user_id, *membership_store.list_account_ids(tx, seen)})
    store.lock_organizations(tx, seen)
    if seen != [each.organization.id for each in membership_store.list_memberships(tx, user_id)]:
        raise Outdated


def join(tx: Tx, actor: Actor, user_id: int, organization: Organization, role: str) -> bool:
    """Make a user a member. Return False, and keep the role, if the user is a member already."""
    if not membership_store.insert_membership(tx, user_id, organization.id, role):
        return False
    after = {"user_id": user_id, "role": role}
    audit.record(tx, actor, "organization.join", organization.id, after=after)
    return True


def join_own(tx: Tx, actor: Actor, user_id: int, organization: Organization) -> None:
    """Make a user a member of the user's own organization: as owner if the organization has no owner, else as
    a member.

    Lock the organization first (`lock_organization`), unless this transaction added it.
    """
    role = MEMBER if membership_store.list_owners(tx, organization.id) else OWNER
    join(tx, actor, user_id, organization, role)


def leave(tx: Tx, actor: Actor, membership: Membership) -> None:
    """End a membership, and revoke the user's tokens for the organization.

    Not checked: that the organization keeps an owner.
    """
    user, organization = membership.user, membership.organization
    membership_store.delete_membership(tx, user.id, organization.id)
    before = {"user_id": user.id, "role": membership.role}
    audit.record(tx, actor, "organization.leave", organization.id, before=before)
    for token in membership_store.list_valid_tokens(tx, user.id, organization.id):
        revoke(tx, actor, token)


def remove_member_if_any(tx: Tx, actor: Actor, user_id: int, organization_id: int) -> User | None:
    """End a membership, if the user has one.

    If the last owner leaves, `find_next_owner` chooses the next owner, who is returned.

    Lock the organization first (`lock_organization`, `lock_with_organizations`).
    """
    membership = membership_store.find_membership(tx, user_id, organization_id)
    if membership is None:
        return None
    leave(tx, actor, membership)
    next_owner = membership_store.find_next_owner(tx, organization_id)
    if next_owner is None or membership_store.list_owners(tx, organization_id):
        return None
    change_role(tx, actor, next_owner.id, organization_id, OWNER)
    return next_owner


def change_role(tx: Tx, actor: Actor, user_id: int, organization_id: int, role: str) -> None:
    """Store a member's new role.

    Not checked: that the role differs, and that the organization keeps an owner.
    """
    before = {"user_id": user_id, "role": store.find_role(tx, user_id, organization_id)}
    membership_store.update_role(tx, user_id, organization_id, role)
    after = {"user_id": user_id, "role": role}
    audit.record(tx, actor, "organization.set_role", organization_id, before=before, after=after)
