"""Find and lock an organization of the acting user; refuse users who aren't owners, changes of the last
owner, and tokens for less than the account.
"""

from sublet.accounts import membership_store, store
from sublet.accounts.find import organization_not_found_refusal, refuse_ended_session, refuse_suspended
from sublet.accounts.model import OWNER, ROLES, SCOPES_OF, Membership, User
from sublet.accounts.organizations import lock_members
from sublet.audit import Actor
from sublet.db import Outdated, Tx
from sublet.errors import (
    Conflict,
    FieldError,
    InsufficientRole,
    NotFound,
    OrganizationNotFound,
    TokenRestricted,
    check_one_of,
)
from sublet.ids import Position, parse_id
from sublet.restrictions import Restrictions


def find_own_membership(tx: Tx, actor: Actor, identifier: str) -> Membership:
    """Return the membership of the acting user in the organization with this id.

    Raises:
        OrganizationNotFound: no organization has this id, the user isn't a member or is suspended, or the
            token is for another organization or restricted to some names (inviting a user would exceed the
            restriction).
    """
    found = list_own_memberships(tx, actor, 1, None, organization_id=parse_id(identifier) or 0)
    if not found:
        raise organization_not_found_refusal()
    return found[0]


def list_own_memberships(
    tx: Tx, actor: Actor, limit: int, after: Position | None, *, organization_id: int | None = None
) -> list[Membership]:
    """Return the acting user's memberships that the request's token may see, the newest organization first.

    `organization_id` selects one.
    """
    if actor.user_id is None or not actor.restrictions.allows_all_names:
        return []
    if actor.account_id is not None:
        account = store.find_user(tx, actor.account_id)
        assert account is not None  # noqa: S101 - user rows are never deleted
        if organization_id not in (None, account.organization_id):
            return []
        organization_id = account.organization_id
    found = membership_store.list_memberships(tx, actor.user_id, limit, after, organization_id)
    return [each for each in found if each.user.suspended_at is None]


def find_organization_member(tx: Tx, organization_id: int, identifier: str) -> Membership:
    """Return the membership of the user with this id in an organization.

    Raises:
        OrganizationNotFound: the organization has no member with this id.
    """
    user_id = parse_id(identifier)
    found = membership_store.find_membership(tx, user_id, organization_id) if user_id is not None else None
    if found is None:
        raise OrganizationNotFound("The organization has no such member. Check the list of its members.")
    return found


def lock_as_member(tx: Tx, actor: Actor, identifier: str, *other_ids: int | None) -> Membership:
    """Return the acting user's membership, and lock the organization, so that changes of its members run one
    after the other.

    `other_ids` are users to lock too. Every verb that changes an organization's members calls this, or
    `lock_as_owner`, first.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        OrganizationNotFound: raised by `find_own_membership`.
        Conflict: the organization is a user's own, and only the operator changes its members.
        SessionInvalid: the session ended after the request was authenticated.
    """
    refuse_suspended(find_acting_user(tx, actor))
    # The user isn't locked here, because `lock_members` locks all users in the order of their ids.
    found = find_own_membership(tx, actor, identifier)
    lock_members(tx, found.organization, {found.user.id, *(each for each in other_ids if each is not None)})
    refuse_ended_session(tx, actor)
    return find_own_membership(tx, actor, identifier)


def lock_as_owner(tx: Tx, actor: Actor, identifier: str, *other_ids: int | None) -> Membership:
    """Return the acting owner's membership, and lock the organization.

    Raises, in this order:
        AccountSuspended, OrganizationNotFound, Conflict: raised by `lock_as_member`.
        InsufficientRole: the user isn't an owner.
    """
    found = lock_as_member(tx, actor, identifier, *other_ids)
    refuse_unless_owner(found)
    return found


def lock_all_as_owner(tx: Tx, actor: Actor, identifier: str) -> Membership:
    """Lock like `lock_as_owner`, and lock all members too, so that none of them gets a token for the
    organization until the commit.

    Raises, in this order:
        AccountSuspended, OrganizationNotFound, Conflict, InsufficientRole: raised by `lock_as_owner`.
        Outdated: the members changed while this transaction waited.
    """
    organization_id = parse_id(identifier) or 0
    seen = membership_store.list_member_ids(tx, organization_id)
    found = lock_as_owner(tx, actor, identifier, *seen)
    if membership_store.list_member_ids(tx, organization_id) != seen:
        raise Outdated
    return found


def refuse_unless_owner(membership: Membership) -> None:
    """Raise `InsufficientRole` if a member isn't an owner."""
    if membership.role != OWNER:
        raise InsufficientRole(
            f"Your role in {membership.organization.name} is {membership.role}; only owners may do this. "
            "Ask an owner to do it.",
            details={"role": membership.role, "required_scope": "organization:write"},
        )


def refuse_last_owner(tx: Tx, membership: Membership) -> None:
    """Raise `Conflict` if a member is the organization's only owner. Call `lock_as_member` first."""
    if membership.role == OWNER and len(membership_store.list_owners(tx, membership.organization.id)) == 1:
        raise Conflict(
            f"{membership.user.email} is the only owner of {membership.organization.name}. Make another "
            "member an owner first, or delete the organization."
        )


def check_role(actor: Actor, role: str | None, present: str | None = None) -> list[FieldError]:
    """Return the errors in a role that the acting token or session wants to give: missing, unknown, or
    `exceeds_token`.

    A member may use a session, so a token may give only a role within its own scopes, and no role if it is
    restricted to networks. A token with `daily_credits` may give no role that spends credits. `expires_at`
    isn't compared, because an owner can remove the member. A token may give any role with which a member may
    do no more than with the `present` one.
    """
    if role is None:
        return [FieldError("role", "required", f"Give one of {', '.join(ROLES)}.")]
    if errors := check_one_of("role", role, ROLES):
        return errors
    scopes = tuple(SCOPES_OF[role])
    if present is not None and SCOPES_OF[role] <= SCOPES_OF[present]:
        return []
    spends = "credits:spend" in scopes
    own = actor.restrictions
    given = Restrictions(scopes, daily_credits=None if spends else 0, expires_at=own.expires_at)
    excess = own.exceeded_by(given)
    if not excess:
        return []
    sentence = (
        "A member with this role may do more than the token of this request, by its "
        f"{', '.join(f'`{each}`' for each in excess)}. Give another role, or use a session or a token "
        "without these restrictions."
    )
    return [FieldError("role", "exceeds_token", sentence)]


def refuse_restricted_token(actor: Actor) -> None:
    """Raise `TokenRestricted` if the token is for an organization, or restricted to some names."""
    if actor.account_id is not None:
        raise TokenRestricted(
            "This token is for an organization. Use a token of your own.",
            details={"restriction": "organization_id"},
        )
    if not actor.restrictions.allows_all_names:
        raise TokenRestricted(
            "This token is restricted to some names. Use a token without `names`.",
            details={"restriction": "names"},
        )


def find_acting_user(tx: Tx, actor: Actor) -> User:
    """Return the user who sent the request, without a lock.

    Raises:
        NotFound: the actor is not a user.
    """
    user = store.find_user(tx, actor.user_id) if actor.user_id is not None else None
    if user is None:
        raise NotFound("There is no such user. Check the token.")
    return user
