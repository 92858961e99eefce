"""Remove a member, or leave (DELETE /organizations/{id}/members/{user_id}; docs/spec-choices.md, "Organizations")."""

from sublet import audit
from sublet.accounts import store
from sublet.accounts.memberships import join_own, leave
from sublet.accounts.model import Membership, User
from sublet.accounts.organizations import add_organization
from sublet.audit import Actor
from sublet.db import Tx
from sublet.ids import parse_id
from sublet.organizations.find import find_other, lock_own, refuse_last_owner, refuse_unless_owner
from sublet.organizations.notices import tell


def remove_member(tx: Tx, actor: Actor, identifier: str, member: str) -> Membership:
    """Remove a member from the acting owner's organization, or leave an organization. Return the membership that ended.

    The user's tokens for the organization are revoked. A user whose own organization it was gets a new one, with its address as the name.

    Raises, in this order:
        AccountSuspended, TokenRestricted, OrganizationNotFound: as `lock_own`.
        InsufficientRole: the acting user is no owner, and the member is another user.
        OrganizationNotFound: the organization has no such member.
        Conflict: the member is the only owner.
    """
    own = lock_own(tx, actor, identifier, parse_id(member))
    if parse_id(member) != own.user.id:
        refuse_unless_owner(own)
    found = find_other(tx, own.organization.id, member)
    refuse_last_owner(tx, found)
    leave(tx, actor, found)
    if found.user.organization_id == found.organization.id:
        _give_own_organization(tx, actor, found.user)
    is_left = found.user.id == own.user.id
    sentence = (
        f"{found.user.email} ({found.role}) {'has left' if is_left else f'was removed by {own.user.email}'}."
    )
    tell(tx, found.organization, sentence, *([] if is_left else [found.user]))
    return found


def _give_own_organization(tx: Tx, actor: Actor, user: User) -> None:
    own = add_organization(tx, actor, user.email)
    store.update_user(tx, user.id, organization_id=own.id)
    before, after = {"organization_id": user.organization_id}, {"organization_id": own.id}
    audit.record(tx, actor, "user.edit", user.id, before=before, after=after)
    join_own(tx, actor, user.id, own)
