"""Renaming an organization; on both databases."""

from sublet.accounts.membership_store import find_account
from sublet.errors import NotFound, OrganizationNotFound, ValidationFailed
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
    sri_lanka = "\u0dc1\u0dca\u200d\u0dbb\u0dd3 \u0dbd\u0d82\u0d9a\u0dcf"  # with a joiner
    assert registry.write(rename_organization, registry.actor(), organization_id, sri_lanka).name == sri_lanka
    assert registry.doctor() == []


def test_refusals(registry: Registry) -> None:
    organization_id = share(registry)
    registry.refused(
        ValidationFailed, rename_organization, registry.actor(), str(organization_id), "a\u202eb"
    )
    registry.refused(ValidationFailed, rename_organization, registry.actor(), str(organization_id), None)
    registry.refused(NotFound, rename_as_operator, OPERATOR, "nothing", "Name")


def test_a_token_finds_no_organization_beyond_its_restrictions(registry: Registry) -> None:
    organization_id = share(registry)
    shared = working_for(registry, organization_id)
    restricted = acting(issue(registry, names=["shop.example.test"]))
    for actor, identifier in ((shared, registry.organizations["ann"]), (restricted, organization_id)):
        registry.refused(OrganizationNotFound, rename_organization, actor, str(identifier), "Mine")
    assert registry.write(rename_organization, shared, str(organization_id), "Ours").name == "Ours"
