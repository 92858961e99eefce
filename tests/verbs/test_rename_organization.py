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


def test_only_owners_rename(registry: Registry) -> None:
    for role in ("member", "billing", "viewer"):
        organization_id = str(share(registry, ben=role))
        with registry.refuses(InsufficientRole):
            registry.write(rename_organization, registry.actor("ben"), organization_id, "Mine")


def test_refusals(registry: Registry) -> None:
    organization_id = share(registry)
    for text in (str(organization_id), "777777", "x", "0"):
        with registry.refuses(OrganizationNotFound):
            registry.write(rename_organization, registry.actor("ben"), text, "Mine")
    shared = working_for(registry, organization_id)
    with registry.refuses(OrganizationNotFound):  # A token of an organization sees no other organization.
        registry.write(rename_organization, shared, str(registry.organizations["ann"]), "Mine")
    restricted = acting(issue(registry, names=["shop.example.test"]))
    with registry.refuses(OrganizationNotFound):
        registry.write(rename_organization, restricted, str(organization_id), "Mine")
    with registry.refuses(ValidationFailed):
        registry.write(rename_organization, registry.actor(), str(organization_id), None)
    with registry.refuses(NotFound):
        registry.write(rename_as_operator, OPERATOR, "nothing", "Name")
    registry.write(suspend_user, OPERATOR, "ann@example.org")
    with registry.refuses(AccountSuspended):
        registry.write(rename_organization, registry.actor(), str(organization_id), "Mine")
