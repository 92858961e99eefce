"""Create an organization (POST /organizations, an extension; docs/spec-choices.md, "Organizations")."""

from sublet.accounts import membership_store
from sublet.accounts.find import lock_acting_user
from sublet.accounts.memberships import add_account, join
from sublet.accounts.model import Organization
from sublet.accounts.organizations import add_organization
from sublet.accounts.roles import OWNER
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, TokenRestricted


def create_organization(tx: Tx, actor: Actor, name: str | None, *, created_max: int) -> Organization:
    """Create an organization with an account, make the acting user its owner, and return it.

    `created_max` is the setting `organizations_per_user`. Organizations that the user has left count too, so that a user can't collect free
    quotas.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        TokenRestricted: the token is for an organization, or restricted to some names.
        ValidationFailed: the name is invalid.
        Conflict: the user has created the maximum number of organizations.
    """
    user = lock_acting_user(tx, actor)
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
    organization = add_organization(tx, actor, name or "", created_by_user_id=user.id)
    if membership_store.count_created_by(tx, user.id) > created_max:
        raise Conflict(
            f"You have created {created_max} organizations, which is the maximum. Open a ticket to ask the operator for another organization."
        )
    add_account(tx, actor, organization)
    join(tx, actor, user.id, organization, OWNER)
    return organization
