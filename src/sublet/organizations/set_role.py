"""Change the role of a member (PATCH /organizations/{id}/members/{user_id}; `sublet organization set-role`)."""

from sublet.accounts import membership_store
from sublet.accounts.find import find_user
from sublet.accounts.memberships import change_role, lock_members
from sublet.accounts.model import Membership
from sublet.accounts.organizations import find_organization
from sublet.accounts.roles import OWNER, ROLES
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import FieldError, NotFound, check_one_of, validation_failed
from sublet.ids import parse_id
from sublet.organizations.find import find_other, lock_owned, refuse_last_owner
from sublet.organizations.notices import tell


def set_role(tx: Tx, actor: Actor, identifier: str, member: str, role: str | None) -> Membership:
    """Give a member of the acting owner's organization another role, from the member's next request on. The same role changes nothing.

    Raises, in this order:
        AccountSuspended, TokenRestricted, OrganizationNotFound, InsufficientRole: as `lock_owned`.
        OrganizationNotFound: the organization has no such member.
        ValidationFailed: the role is missing or unknown.
        Conflict: the member is the only owner.
    """
    own = lock_owned(tx, actor, identifier, parse_id(member))
    return _set_role(tx, actor, find_other(tx, own.organization.id, member), role)


def operator_set_role(tx: Tx, actor: Actor, identifier: str, user: str, role: str) -> Membership:
    """Give a member of any organization another role.

    Raises, in this order:
        NotFound, Conflict: there is no such organization, or several; there is no such user, or it is no member.
        ValidationFailed: the role is unknown.
        Conflict: the member is the only owner.
    """
    organization = find_organization(tx, identifier)
    user_id = find_user(tx, user).id
    lock_members(tx, actor, organization.id, {user_id})
    found = membership_store.find_membership(tx, user_id, organization.id)
    if found is None:
        raise NotFound(f"{user} is no member of {organization.name}. See `sublet organization members`.")
    return _set_role(tx, actor, found, role)


def _set_role(tx: Tx, actor: Actor, found: Membership, role: str | None) -> Membership:
    errors = check_one_of("role", role, ROLES)
    if role is None:
        errors = [FieldError("role", "required", f"Give one of {', '.join(ROLES)}.")]
    if errors or role is None:
        raise validation_failed(errors)
    if role == found.role:
        return found
    refuse_last_owner(tx, found)
    change_role(tx, actor, found.user.id, found.organization.id, role)
    sentence = f"The role of {found.user.email} is {role} now. It was {found.role}."
    tell(tx, found.organization, sentence, *([found.user] if role != OWNER else []))
    changed = membership_store.find_membership(tx, found.user.id, found.organization.id)
    assert changed is not None  # noqa: S101 - locked
    return changed
