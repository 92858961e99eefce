"""Change the role of a member (PATCH /organizations/{id}/members/{user_id}; `sublet organization set-role`)."""

from sublet.accounts import membership_store
from sublet.accounts.find import find_user, refuse_account, refuse_deleted
from sublet.accounts.memberships import change_role, join, lock_members
from sublet.accounts.model import Membership
from sublet.accounts.organizations import find_organization
from sublet.accounts.roles import OWNER, ROLES
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import FieldError, check_one_of, validation_failed
from sublet.ids import parse_id
from sublet.organizations.find import find_other, lock_owned, refuse_last_owner
from sublet.organizations.notices import tell


def set_role(tx: Tx, actor: Actor, identifier: str, member: str, role: str | None) -> Membership:
    """Give a member of the acting owner's organization another role, from the member's next request on. The same role changes nothing.

    Raises, in this order:
        AccountSuspended, OrganizationNotFound, Conflict, InsufficientRole: as `lock_owned`.
        OrganizationNotFound: the organization has no such member.
        ValidationFailed: the role is missing or unknown.
        Conflict: the member is the only owner.
    """
    own = lock_owned(tx, actor, identifier, parse_id(member))
    found = find_other(tx, own.organization.id, member)
    errors = check_one_of("role", role, ROLES)
    if role is None:
        errors = [FieldError("role", "required", f"Give one of {', '.join(ROLES)}.")]
    if errors or role is None:
        raise validation_failed(errors)
    return _set_role(tx, actor, found, role)


def operator_set_role(tx: Tx, actor: Actor, identifier: str, user: str, role: str) -> Membership:
    """Give a user a role in an organization, as a new member if it isn't one.

    Raises, in this order:
        NotFound, Conflict: there is no such organization, or several; there is no such user, or it is no person; it is its users' own
            organization; the user is deleted.
        ValidationFailed: the role is unknown.
        Conflict: the member is the only owner.
    """
    organization = find_organization(tx, identifier)
    person = find_user(tx, user)
    refuse_account(person)
    lock_members(tx, organization, {person.id})
    refuse_deleted(find_user(tx, str(person.id)))
    if errors := check_one_of("role", role, ROLES):
        raise validation_failed(errors)
    if join(tx, actor, person.id, organization, role):
        sentence = f"{person.email} was added as {role} by the operator."
        tell(tx, organization, sentence, *([] if role == OWNER else [person]), about=[person])
    found = membership_store.find_membership(tx, person.id, organization.id)
    assert found is not None  # noqa: S101 - just added, or there before
    return _set_role(tx, actor, found, role)


def _set_role(tx: Tx, actor: Actor, found: Membership, role: str) -> Membership:
    if role == found.role:
        return found
    refuse_last_owner(tx, found)
    change_role(tx, actor, found.user.id, found.organization.id, role)
    sentence = f"The role of {found.user.email} is {role} now. It was {found.role}."
    tell(tx, found.organization, sentence, *([found.user] if role != OWNER else []), about=[found.user])
    changed = membership_store.find_membership(tx, found.user.id, found.organization.id)
    assert changed is not None  # noqa: S101 - locked
    return changed
