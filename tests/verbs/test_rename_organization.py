"""Renaming an organization; on both databases."""

from sublet.accounts.membership_store import find_account
from sublet.accounts.users import suspend_user
from sublet.errors import (
    AccountSuspended,
    InsufficientRole,
    NotFound,
    OrganizationNotFound,
    ValidationFailed,
)
from sublet.organizations.organization import rename_as_operator, rename_organization
from support.acting_tokens import acting, issue
from support.registry import OPERATOR, Registry
from support.shared_names import share, working_for


def test_the_name_changes_and_the_slug_stays(registry: Registry) -> None:
    organization_id = str(share(registry))
    renamed = registry.write(rename_organization, registry.actor(), organization_id, " Coop & Co ")
    assert renamed.name == "Coop & Co"
    assert renamed.slug.startswith("coop-")
    account = registry.read(find_account, renamed.id)
    assert account is not None
    assert account.name == "Coop & Co"
    assert registry.write(rename_as_operator, OPERATOR, renamed.slug, "Coop").name == "Coop"
    before = registry.dump()
    registry.write(rename_organization, registry.actor(), organization_id, "Coop")
    assert registry.dump() == before
    assert registry.doctor() == []


def test_refusals(registry: Registry) -> None:
    organization_id = share(registry)
    for text in (str(organization_id), "777777", "x", "0"):
        registry.refused(OrganizationNotFound, rename_organization, registry.actor("ben"), text, "Mine")
    shared = working_for(registry, organization_id)
    # A token of an organization sees no other organization.
    registry.refused(
        OrganizationNotFound, rename_organization, shared, str(registry.organizations["ann"]), "Mine"
    )
    restricted = acting(issue(registry, names=["shop.example.test"]))
    registry.refused(OrganizationNotFound, rename_organization, restricted, str(organization_id), "Mine")
    registry.refused(ValidationFailed, rename_organization, registry.actor(), str(organization_id), None)
    registry.refused(NotFound, rename_as_operator, OPERATOR, "nothing", "Name")
    for role in ("member", "billing"):
        others = str(share(registry, ben=role))
        registry.refused(InsufficientRole, rename_organization, registry.actor("ben"), others, "Mine")
    registry.write(suspend_user, OPERATOR, "ann@example.org")
    registry.refused(AccountSuspended, rename_organization, registry.actor(), str(organization_id), "Mine")
