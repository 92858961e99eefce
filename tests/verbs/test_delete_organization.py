"""Deleting an organization, empty or with its names; and what its only owner can't do before; on both
databases.
"""

import pytest

from sublet.accounts import store as account_store
from sublet.accounts.authenticate import authenticate
from sublet.accounts.tokens.tokens import create_token
from sublet.credits.entries import grant_credits
from sublet.errors import Conflict, NotFound, OrganizationNotFound, TokenRevoked, ValidationFailed
from sublet.organizations.invitations import invite_member
from sublet.organizations.organization import (
    create_organization,
    rename_as_operator,
    set_role_as_operator,
)
from sublet.platform_domains.labels import set_label
from sublet.platform_domains.platform_domain import grant_platform_domain
from sublet.registry.delete_organization import delete_organization, purge_some_names
from sublet.registry.delete_user import delete_own_user
from sublet.restrictions import SCOPES
from sublet.sign_up.store import list_open_invitations
from sublet.subdomains.delete import delete
from sublet.subdomains.model import Register
from sublet.subdomains.register import register
from sublet.subdomains.suspend import suspend
from sublet.tickets.model import TicketRequest
from sublet.tickets.open_ticket import open_ticket
from support.acting_tokens import acting, issue
from support.registry import FREE_QUOTA, OPERATOR, Registry
from support.shared_names import URL, accept, account, mailed_code, role_of, share, told, working_for

SHOP, OLD = "shop.example.test", "old.example.test"


def slug(registry: Registry, organization_id: int) -> str:
    found = registry.read(account_store.find_organization, organization_id)
    assert found is not None
    return found.slug


def end(registry: Registry, organization_id: int, confirm: str | None = None, by: str = "ann") -> None:
    registry.write(delete_organization, registry.actor(by), str(organization_id), confirm)


def own(registry: Registry, organization_id: int, fqdn: str) -> int:
    """Register a name for the organization, and return its id."""
    actor = working_for(registry, organization_id)
    return registry.write(
        register, actor, Register(fqdn=fqdn, nameservers=("ns1.example.org",)), free_quota=FREE_QUOTA
    ).id


def test_an_organization_ends_with_its_members_tokens_and_invitations(registry: Registry) -> None:
    organization_id = share(registry, ben="viewer")
    registry.write(invite_member, registry.actor(), str(organization_id), "eve@example.org", "member", URL)
    issued = registry.write(
        create_token, acting(issue(registry, "ben")), "shared", {"scopes": SCOPES}, organization_id
    )
    with registry.refuses(Conflict) as refused:
        end(registry, organization_id)
    assert refused[0].details == {"members": 2, "names": 0, "trashed_names": 0, "credits": 0}
    end(registry, organization_id, slug(registry, organization_id))
    assert role_of(registry, organization_id) is role_of(registry, organization_id, "ann") is None
    for name in ("ann", "ben"):
        assert told(registry, name)[-1] == "ann@example.org has deleted the organization."
    with registry.refuses(TokenRevoked):
        registry.run(authenticate(registry.db, issued.secret))
    assert registry.read(list_open_invitations, organization_id) == []
    assert accept(registry, mailed_code(registry, "eve@example.org")) is None
    with registry.refuses(OrganizationNotFound):
        end(registry, organization_id)
    registry.write(create_organization, registry.actor(), "Coop", created_max=3)
    assert registry.doctor() == []


def test_names_and_credits_need_a_confirmation_and_go(registry: Registry) -> None:
    organization_id = share(registry, ben="owner")
    holder = account(registry, organization_id)
    live, trashed = own(registry, organization_id, SHOP), own(registry, organization_id, OLD)
    registry.write(delete, working_for(registry, organization_id), OLD)
    registry.write(grant_credits, OPERATOR, f"organization:{organization_id}", 30, "test")
    registry.write(open_ticket, working_for(registry, organization_id), TicketRequest("Help", "Please."))
    with registry.refuses(Conflict) as refused:
        end(registry, organization_id)
    assert refused[0].details == {"members": 2, "names": 1, "trashed_names": 1, "credits": 30}
    with registry.refuses(ValidationFailed):
        end(registry, organization_id, "another")
    end(registry, organization_id, slug(registry, organization_id), by="ben")
    for name_id in (live, trashed):
        found = registry.subdomain(name_id)
        assert (found.purged_at, found.delegation.nameservers) == (registry.now, ())
    found_account = registry.read(account_store.find_user, holder)
    assert found_account is not None
    assert (found_account.deleted_at, registry.doctor()) == (registry.now, [])
    registry.advance(days=400)  # the worker needs no owner to release the names
    registry.sweep()
    assert registry.subdomain(live).released_at is not None
    assert registry.doctor() == []


def test_many_names_are_purged_in_parts_before_the_deletion(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sublet.registry.delete_organization.NAMES_AT_ONCE", 1)
    organization_id = share(registry)
    shop, old = own(registry, organization_id, SHOP), own(registry, organization_id, OLD)
    asked = (registry.actor(), str(organization_id))
    registry.refused(Conflict, purge_some_names, *asked, None)
    first, second = (registry.write(purge_some_names, *asked, slug(registry, organization_id)) for _ in "12")
    assert (first.names, first.more, second.more) == ((SHOP,), True, False)
    assert registry.subdomain(shop).purged_at == registry.now
    assert (registry.subdomain(old).purged_at, registry.doctor()) == (None, [])
    end(registry, organization_id, slug(registry, organization_id))
    assert (registry.subdomain(old).purged_at, registry.doctor()) == (registry.now, [])


def test_refusals(registry: Registry) -> None:
    organization_id = share(registry)
    with registry.refuses(Conflict):  # the user's own organization
        end(registry, registry.organizations["ann"])
    own(registry, organization_id, SHOP)
    registry.write(suspend, OPERATOR, SHOP, "told")
    with registry.refuses(Conflict):
        end(registry, organization_id, slug(registry, organization_id))


def test_the_operator_changes_no_deleted_organization(registry: Registry) -> None:
    organization_id = share(registry)
    end(registry, organization_id, slug(registry, organization_id))
    registry.refused(NotFound, rename_as_operator, OPERATOR, str(organization_id), "New")
    registry.refused(NotFound, grant_platform_domain, OPERATOR, "example.test", str(organization_id))
    granted_to = (str(organization_id),)
    registry.refused(NotFound, set_label, OPERATOR, "example.test", "a", "special", organizations=granted_to)
    for role in ("member", "owner"):
        registry.refused(
            NotFound, set_role_as_operator, OPERATOR, str(organization_id), "ben@example.org", role
        )


def test_the_only_owner_hands_over_or_deletes_the_organization_first(registry: Registry) -> None:
    """With other members, names or credits the organization needs an owner; the refusal names it."""
    with_member, with_name, with_credits = share(registry, ben="viewer"), share(registry), share(registry)
    own(registry, with_name, SHOP)
    registry.write(grant_credits, OPERATOR, f"organization:{with_credits}", 1, "test")
    for organization_id in (with_credits, with_name, with_member):
        refused = registry.refused(Conflict, delete_own_user, registry.actor(), "ann@example.org")
        assert refused.details == {"organization_id": organization_id}
        assert "delete the organization" in refused.message
        end(registry, organization_id, slug(registry, organization_id))
    registry.write(delete_own_user, registry.actor(), "ann@example.org")
    # An empty organization goes with the account of its only member.
    registry.write(create_organization, registry.actor("ben"), "Empty", created_max=3)
    registry.write(delete_own_user, registry.actor("ben"), "ben@example.org")
