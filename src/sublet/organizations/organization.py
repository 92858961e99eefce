"""Create and rename organizations (POST /organizations, PATCH /organizations/{id}; docs/spec-choices.md,
"Organizations").
"""

from sublet import audit
from sublet.accounts import membership_store
from sublet.accounts.fields import check_text
from sublet.accounts.find import lock_acting_user, refuse_ended_session, refuse_suspended
from sublet.accounts.memberships import add_account, join, lock_organization
from sublet.accounts.model import Organization
from sublet.accounts.organizations import add_organization, find_organization
from sublet.accounts.roles import OWNER
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, TokenRestricted, validation_failed
from sublet.organizations.find import find_acting_user, find_own_membership, refuse_unless_owner


def create_organization(tx: Tx, actor: Actor, name: str | None, *, created_max: int) -> Organization:
    """Create an organization with an account, make the acting user its owner, and return it.

    `created_max` is the setting `organizations_per_user`. Organizations that the user has left count too, so
    that a user can't collect free quotas.

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
        ValidationFailed: the name is invalid.
    """
    lock_organization(tx, find_organization(tx, identifier), ())
    return _rename(tx, actor, find_organization(tx, identifier), name)


def _rename(tx: Tx, actor: Actor, organization: Organization, name: str | None) -> Organization:
    name, errors = check_text("name", name)
    if errors:
        raise validation_failed(errors)
    if name == organization.name:
        return organization
    before, after = {"name": organization.name}, {"name": name}
    audit.record(tx, actor, "organization.rename", organization.id, before=before, after=after)
    return membership_store.update_name(tx, organization.id, name)
