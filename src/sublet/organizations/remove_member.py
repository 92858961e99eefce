"""Remove a member, or leave (DELETE /organizations/{id}/members/{user_id}; docs/spec-choices.md, "Organizations")."""

from sublet.accounts.memberships import leave
from sublet.accounts.model import Membership
from sublet.audit import Actor
from sublet.db import Tx
from sublet.ids import parse_id
from sublet.organizations.find import find_other, lock_joined, refuse_last_owner, refuse_unless_owner
from sublet.organizations.notices import tell


def remove_member(tx: Tx, actor: Actor, identifier: str, member: str) -> Membership:
    """Remove a member from the acting owner's organization, or leave an organization. Return the membership that ended.

    The user's tokens for the organization are revoked.

    Raises, in this order:
        AccountSuspended, OrganizationNotFound, Conflict: as `lock_joined`.
        InsufficientRole: the acting user is no owner, and the member is another user.
        OrganizationNotFound: the organization has no such member.
        Conflict: the member is the only owner.
    """
    own = lock_joined(tx, actor, identifier, parse_id(member))
    if parse_id(member) != own.user.id:
        refuse_unless_owner(own)
    found = find_other(tx, own.organization.id, member)
    refuse_last_owner(tx, found)
    leave(tx, actor, found)
    is_left = found.user.id == own.user.id
    sentence = (
        f"{found.user.email} ({found.role}) {'has left' if is_left else f'was removed by {own.user.email}'}."
    )
    tell(tx, found.organization, sentence, *([] if is_left else [found.user]), about=[found.user, own.user])
    return found
