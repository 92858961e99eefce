"""Renaming an organization; on both databases."""

from sublet.accounts.membership_store import find_account
from sublet.errors import NotFound, ValidationFailed
from sublet.organizations.organization import rename_as_operator, rename_organization
from support.registry import OPERATOR, Registry
from support.shared_names import share


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
    registry.refused(ValidationFailed, rename_organization, registry.actor(), str(organization_id), None)
    registry.refused(NotFound, rename_as_operator, OPERATOR, "nothing", "Name")
