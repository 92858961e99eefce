"""Remove a member from an organization, or leave it (DELETE /organizations/{id}/members/{user_id}; docs/spec-choices.md, "Organizations")."""

from sublet.accounts.memberships import leave
from sublet.accounts.model import Membership
from sublet.audit import Actor
from sublet.db import Tx
from sublet.ids import parse_id
from sublet.organizations.find import (
    find_organization_member,
    lock_as_member,
    refuse_last_owner,
    refuse_unless_owner,
)
from sublet.organizations.notices import notify_owners


def remove_member(tx: Tx, actor: Actor, identifier: str, member: str) -> Membership:
    """Remove a member from an organization, as an owner or as this member, and return the membership that ended.

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
