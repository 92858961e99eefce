"""Create and rename organizations, change the role of members, and remove members (docs/spec-choices.md,
"Organizations").
"""

from sublet import audit
from sublet.accounts import membership_store
from sublet.accounts.fields import check_text
from sublet.accounts.find import (
    find_user,
    lock_acting_user,
    refuse_account,
    refuse_deleted,
    refuse_ended_session,
    refuse_suspended,
)
from sublet.accounts.model import OWNER, ROLES, Membership, Organization
from sublet.accounts.organizations import (
    add_account,
    add_organization,
    change_role,
    find_organization,
    join,
    leave,
    lock_members,
    lock_organization,
    refuse_deleted_organization,
)
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, check_one_of, validation_failed
from sublet.ids import parse_id
from sublet.organizations.find import (
    check_role,
    find_acting_user,
    find_organization_member,
    find_own_membership,
    lock_as_member,
    lock_as_owner,
    refuse_last_owner,
    refuse_restricted_token,
    refuse_unless_owner,
)
from sublet.organizations.notices import notify_owners


def create_organization(tx: Tx, actor: Actor, name: str | None, *, created_max: int) -> Organization:
    """Create an organization with an account, make the acting user its owner, and return it.

    `created_max` is the setting `organizations_per_user`. Organizations that the user has left count too, so
    that a user can't collect free quotas.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        TokenRestricted: raised by `refuse_restricted_token`.
        ValidationFailed: the name is invalid.
        Conflict: the user has created the maximum number of organizations.
    """
    user = lock_acting_user(tx, actor)
    refuse_restricted_token(actor)
    organization = add_organization(tx, actor, name or "", created_by_user_id=user.id)
    if membership_store.count_created_by(tx, user.id) > created_max:
        raise Conflict(
            f"You have created {created_max} organizations, which is the maximum. Open a ticket to ask the "
            "operator for another organization."
        )
    add_account(tx, actor, organization)
    join(tx, actor, user.id, organization, OWNER)
    return organization


def rename_organization(tx: Tx, actor: Actor, identifier: str, name: str | None) -> Organization:
    """Rename an organization of the acting owner, and return it.

    The slug stays the same. An unchanged name leaves no audit event.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        OrganizationNotFound: raised by `find_own_membership`.
        SessionInvalid: the session ended after the request was authenticated.
        InsufficientRole: the user isn't an owner.
        ValidationFailed: the name is invalid.
    """
    refuse_suspended(find_acting_user(tx, actor))
    found = find_own_membership(tx, actor, identifier)
    lock_organization(tx, found.organization, {found.user.id})
    refuse_ended_session(tx, actor)
    own = find_own_membership(tx, actor, identifier)
    refuse_unless_owner(own)
    return _rename(tx, actor, own.organization, name)


def rename_as_operator(tx: Tx, actor: Actor, identifier: str, name: str) -> Organization:
    """Rename the organization with this name, slug or id, and return it.

    Raises, in this order:
        NotFound: no organization matches.
        Conflict: several organizations match.
        NotFound: the organization is deleted.
        ValidationFailed: the name is invalid.
    """
    lock_organization(tx, find_organization(tx, identifier), ())
    organization = find_organization(tx, identifier)
    refuse_deleted_organization(tx, organization)
    return _rename(tx, actor, organization, name)


def _rename(tx: Tx, actor: Actor, organization: Organization, name: str | None) -> Organization:
    name, errors = check_text("name", name)
    if errors:
        raise validation_failed(errors)
    if name == organization.name:
        return organization
    before, after = {"name": organization.name}, {"name": name}
    audit.record(tx, actor, "organization.rename", organization.id, before=before, after=after)
    return membership_store.update_name(tx, organization.id, name)


def set_role(tx: Tx, actor: Actor, identifier: str, member: str, role: str | None) -> Membership:
    """Change the role of a member of the acting owner's organization, starting with the member's next
    request.

    Raises, in this order:
        AccountSuspended, OrganizationNotFound, Conflict, InsufficientRole: raised by `lock_as_owner`.
        OrganizationNotFound: the organization has no member with this id.
        ValidationFailed: the role is missing or unknown, or adds more than the token may do
            (`exceeds_token`).
        Conflict: the member is the only owner.
    """
    own = lock_as_owner(tx, actor, identifier, parse_id(member))
    found = find_organization_member(tx, own.organization.id, member)
    errors = check_role(actor, role, found.role)
    if errors or role is None:
        raise validation_failed(errors)
    return _set_role(tx, actor, found, role)


def set_role_as_operator(tx: Tx, actor: Actor, identifier: str, user: str, role: str) -> Membership:
    """Give a user a role in an organization, and add the user as a member if necessary.

    Raises, in this order:
        NotFound: no organization matches.
        Conflict: several organizations match.
        NotFound: no user has this address or id.
        Conflict: the user is the account of an organization.
        Conflict: the organization is a user's own.
        NotFound: the organization or the user is deleted.
        ValidationFailed: the role is unknown.
        Conflict: the member is the only owner.
    """
    organization = find_organization(tx, identifier)
    person = find_user(tx, user)
    refuse_account(person)
    lock_members(tx, organization, {person.id})
    refuse_deleted_organization(tx, organization)
    refuse_deleted(find_user(tx, str(person.id)))
    if errors := check_one_of("role", role, ROLES):
        raise validation_failed(errors)
    if join(tx, actor, person.id, organization, role):
        sentence = f"{person.email} was added as {role} by the operator."
        notify_owners(tx, organization, sentence, *([] if role == OWNER else [person]), about=[person])
    found = membership_store.find_membership(tx, person.id, organization.id)
    assert found is not None  # noqa: S101 - the user is a member now
    return _set_role(tx, actor, found, role)


def _set_role(tx: Tx, actor: Actor, found: Membership, role: str) -> Membership:
    if role == found.role:
        return found
    refuse_last_owner(tx, found)
    change_role(tx, actor, found.user.id, found.organization.id, role)
    sentence = f"The role of {found.user.email} is {role} now. It was {found.role}."
    notify_owners(
        tx, found.organization, sentence, *([found.user] if role != OWNER else []), about=[found.user]
    )
    changed = membership_store.find_membership(tx, found.user.id, found.organization.id)
    assert changed is not None  # noqa: S101 - locked
    return changed


def remove_member(tx: Tx, actor: Actor, identifier: str, member: str) -> Membership:
    """Remove a member from an organization, as an owner or as this member, and return the membership that
    ended.

    The member's tokens for the organization are revoked.

    Raises, in this order:
        AccountSuspended, OrganizationNotFound, Conflict: raised by `lock_as_member`.
        InsufficientRole: the member is another user, and the acting user isn't an owner.
        OrganizationNotFound: the organization has no member with this id.
        Conflict: the member is the only owner.
    """
    own = lock_as_member(tx, actor, identifier, parse_id(member))
    if parse_id(member) != own.user.id:
        refuse_unless_owner(own)
    found = find_organization_member(tx, own.organization.id, member)
    refuse_last_owner(tx, found)
    leave(tx, actor, found)
    is_left = found.user.id == own.user.id
    sentence = (
        f"{found.user.email} ({found.role}) {'has left' if is_left else f'was removed by {own.user.email}'}."
    )
    notify_owners(
        tx, found.organization, sentence, *([] if is_left else [found.user]), about=[found.user, own.user]
    )
    return found
