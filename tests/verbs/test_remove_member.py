"""Removing a member, leaving an organization, and deleting a member's account; on both databases."""

from sublet.accounts.authenticate import authenticate
from sublet.accounts.tokens.tokens import create_token
from sublet.accounts.users import UserEdit, add_user, edit_user, suspend_user
from sublet.errors import Conflict, OrganizationNotFound, TokenRevoked
from sublet.organizations.organization import remove_member
from sublet.registry.delete_user import delete_user
from sublet.registry.erasure_store import find_mentions
from sublet.restrictions import SCOPES
from sublet.subdomains.delete import delete
from sublet.subdomains.model import Register
from sublet.subdomains.purge import purge
from sublet.subdomains.register import register
from sublet.tickets.model import TicketRequest
from sublet.tickets.open_ticket import open_ticket
from support.acting_tokens import acting, issue
from support.registry import FREE_QUOTA, OPERATOR, Registry
from support.shared_names import role_of, share, told, working_for

SHOP = "shop.example.test"


def remove(registry: Registry, organization_id: int, name: str, by: str = "ann") -> None:
    member = str(registry.users[name])
    registry.write(remove_member, registry.actor(by), str(organization_id), member)


def test_an_owner_removes_any_member_and_every_member_may_leave(registry: Registry) -> None:
    organization_id = share(registry, ben="viewer")
    remove(registry, organization_id, "ben", by="ben")
    assert role_of(registry, organization_id) is None
    assert told(registry)[-1] == "ben@example.org (viewer) has left."
    other = share(registry, ben="owner")
    remove(registry, other, "ben")
    assert told(registry, "ben")[-1] == "ben@example.org (owner) was removed by ann@example.org."


def test_tokens_end_at_once_even_during_a_request(registry: Registry) -> None:
    organization_id = share(registry, ben="member")
    issued = registry.write(
        create_token, acting(issue(registry, "ben")), "shared", {"scopes": SCOPES}, organization_id
    )
    under_way = registry.run(authenticate(registry.db, issued.secret)).actor("r-1")
    remove(registry, organization_id, "ben")
    with registry.refuses(TokenRevoked):
        registry.run(authenticate(registry.db, issued.secret))
    registry.refused(TokenRevoked, register, under_way, Register(fqdn=SHOP), free_quota=FREE_QUOTA)
    registry.refused(TokenRevoked, open_ticket, under_way, TicketRequest("Help", "Please."))


def test_refusals(registry: Registry) -> None:
    organization_id = share(registry)
    with registry.refuses(OrganizationNotFound):
        remove(registry, organization_id, "ben")
    with registry.refuses(Conflict):  # the user's own organization
        remove(registry, registry.organizations["ann"], "ann")
    with registry.refuses(Conflict):  # the last owner
        remove(registry, organization_id, "ann")


def test_another_member_becomes_owner_when_the_last_owner_is_deleted(registry: Registry) -> None:
    """The next owner has the role of most rights, and isn't suspended."""
    for name in ("cleo", "dora", "emil"):
        registry.add_user(name)
    organization_id = share(registry, ben="viewer", cleo="billing", dora="member", emil="member")
    registry.write(suspend_user, OPERATOR, "dora@example.org")
    done = registry.write(delete_user, OPERATOR, "ann@example.org", confirmed=True)
    roles = [role_of(registry, organization_id, each) for each in ("ben", "cleo", "dora", "emil")]
    assert roles == ["viewer", "billing", "member", "owner"]
    sentence = "emil@example.org is the owner now, because the account of the last owner was deleted."
    assert told(registry, "emil")[-1] == sentence
    assert sentence not in told(registry, "ben")
    assert registry.read(find_mentions, done.identities) == {}
    assert registry.doctor() == []


def test_the_only_member_of_an_organization_with_names_is_not_deleted(registry: Registry) -> None:
    organization_id = share(registry)
    registry.write(
        register, working_for(registry, organization_id), Register(fqdn=SHOP), free_quota=FREE_QUOTA
    )
    registry.refused(Conflict, delete_user, OPERATOR, "ann@example.org", confirmed=True)
    registry.write(delete, working_for(registry, organization_id), SHOP)
    registry.write(purge, OPERATOR, SHOP)
    done = registry.write(delete_user, OPERATOR, "ann@example.org", confirmed=True)
    assert registry.read(find_mentions, done.identities | {"coop"}) == {}
    assert registry.doctor() == []


def test_an_organization_with_names_can_not_be_a_users_own(registry: Registry) -> None:
    share(registry)
    registry.refused(Conflict, add_user, OPERATOR, "eve@example.org", "Eve", "Coop")
    registry.refused(Conflict, edit_user, OPERATOR, "ben@example.org", UserEdit(organization="Coop"))
    registry.write(edit_user, OPERATOR, "ben@example.org", UserEdit(organization="ann@example.org"))
    assert role_of(registry, registry.organizations["ann"]) == "member"
    assert role_of(registry, registry.organizations["ben"]) is None
    registry.write(edit_user, OPERATOR, "ann@example.org", UserEdit(organization="New"))
    assert role_of(registry, registry.organizations["ann"]) == "owner"
