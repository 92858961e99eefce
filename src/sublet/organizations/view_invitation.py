"""Show an invitation to an organization to its recipient, before it is accepted."""

from dataclasses import dataclass

from sublet.accounts.store import find_organization, find_user
from sublet.accounts.tokens.issue import digest
from sublet.db import Tx
from sublet.sign_up import store
from sublet.sign_up.codes import MEMBERSHIP


@dataclass(frozen=True, slots=True)
class ShownInvitation:
    """What the link in the mail tells its recipient."""

    organization_name: str
    organization_slug: str
    role: str
    inviter_name: str
    inviter_email: str


def view_invitation(tx: Tx, code: str) -> ShownInvitation | None:
    """Return the open invitation with this code; None if there is none. The code isn't used up."""
    found = store.find_by_link(tx, digest(code))
    if found is None or found.purpose != MEMBERSHIP or found.organization_id is None or found.role is None:
        return None
    organization = find_organization(tx, found.organization_id)
    inviter_id = store.find_inviter_id(tx, found.id)
    inviter = None if inviter_id is None else find_user(tx, inviter_id)
    if store.find_open_invitation(tx, found.organization_id, found.id) is None:
        return None
    assert organization is not None and inviter is not None  # noqa: S101, PT018 - foreign keys ensure it
    return ShownInvitation(organization.name, organization.slug, found.role, inviter.name, inviter.email)
