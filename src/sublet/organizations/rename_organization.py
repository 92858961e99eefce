"""Rename an organization (PATCH /organizations/{id}; `sublet organization rename`; docs/spec-choices.md, "Organizations")."""

from sublet import audit
from sublet.accounts import membership_store
from sublet.accounts.fields import check_text
from sublet.accounts.model import Organization
from sublet.accounts.organizations import find_organization
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import validation_failed
from sublet.organizations.find import lock_owned


def rename_organization(tx: Tx, actor: Actor, identifier: str, name: str | None) -> Organization:
    """Rename an organization of the acting owner. Its slug stays. The same name again leaves no audit event.

    Raises, in this order:
        AccountSuspended, TokenRestricted, OrganizationNotFound, InsufficientRole: as `lock_owned`.
        ValidationFailed: the name is invalid.
    """
    return _rename(tx, actor, lock_owned(tx, actor, identifier).organization, name)


def operator_rename(tx: Tx, actor: Actor, identifier: str, name: str) -> Organization:
    """Rename any organization (name, slug or id).

    Raises, in this order:
        NotFound, Conflict: there is no such organization, or several.
        ValidationFailed: the name is invalid.
    """
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
