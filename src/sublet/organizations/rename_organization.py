"""Rename an organization (PATCH /organizations/{id}; `sublet organization rename`; docs/spec-choices.md, "Organizations")."""

from sublet import audit
from sublet.accounts import membership_store
from sublet.accounts.fields import check_text
from sublet.accounts.find import refuse_ended_session, refuse_suspended
from sublet.accounts.memberships import lock_organization
from sublet.accounts.model import Organization
from sublet.accounts.organizations import find_organization
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import validation_failed
from sublet.organizations.find import find_acting_user, find_own_membership, refuse_unless_owner


def rename_organization(tx: Tx, actor: Actor, identifier: str, name: str | None) -> Organization:
    """Rename an organization of the acting owner, and return it. The slug stays the same. An unchanged name leaves no audit event.

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
