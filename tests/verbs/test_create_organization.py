"""Creating an organization, which holds names and credits separately from its members; on both databases."""

import re

from sublet.accounts.tokens.tokens import create_token
from sublet.audit import Actor, EventFilter, search_events
from sublet.credits.entries import grant_credits
from sublet.credits.model import Payable
from sublet.credits.store import find_balance, list_own_entries
from sublet.errors import (
    Conflict,
    FreeQuotaExceeded,
    InsufficientCredits,
    SubdomainNotFound,
    TicketNotFound,
    TokenRestricted,
    ValidationFailed,
)
from sublet.organizations.organization import create_organization
from sublet.subdomains.find import find_in_account
from sublet.subdomains.list_store import list_own
from sublet.subdomains.model import Register, SubdomainFilter
from sublet.subdomains.register import register
from sublet.subdomains.renew import renew
from sublet.tickets.find import find_own_ticket_with_messages
from sublet.tickets.model import TicketRequest
from sublet.tickets.open_ticket import open_ticket
from sublet.tickets.reply import reply
from sublet.tickets.staff import staff_reply
from support.acting_tokens import acting, issue
from support.registry import FREE_QUOTA, OPERATOR, Registry
from support.shared_names import account, share, working_for

SHOP = "shop.example.test"
PAID = Payable(confirm=True)


def take(registry: Registry, actor: Actor, fqdn: str = SHOP, mode: str | None = None) -> int:
    command = Register(fqdn=fqdn, registration_mode=mode, payable=PAID)
    return registry.write(register, actor, command, free_quota=FREE_QUOTA).id


def names_of(registry: Registry, actor: Actor) -> list[str]:
    return [each.fqdn for each in registry.read(list_own, actor, SubdomainFilter(), 100, None)]


def test_refusals(registry: Registry) -> None:
    for name in (None, " ", "x" * 201, "a\nb"):
        registry.refused(ValidationFailed, create_organization, registry.actor(), name, created_max=3)
    restricted = acting(issue(registry, names=[SHOP]))
    registry.refused(TokenRestricted, create_organization, restricted, "Coop", created_max=3)
    shared = working_for(registry, share(registry))
    registry.refused(TokenRestricted, create_organization, shared, "Coop", created_max=3)
    registry.refused(Conflict, create_organization, registry.actor(), "Coop", created_max=1)


def test_names_are_the_organizations_and_not_the_members(registry: Registry) -> None:
    organization_id = share(registry, ben="member")
    ann, ben = (working_for(registry, organization_id, name) for name in ("ann", "ben"))
    take(registry, ben)
    (event,) = registry.read(search_events, EventFilter(action="subdomain.register"), 10)
    assert event.after is not None
    assert (event.user_id, event.after["user_id"]) == (
        registry.users["ben"],
        account(registry, organization_id),
    )
    own = registry.register("own.example.test", "ben")
    assert names_of(registry, ann) == names_of(registry, ben) == [SHOP]
    assert names_of(registry, registry.actor("ben")) == [own.fqdn]
    for actor, name in ((registry.actor(), SHOP), (registry.actor("ben"), SHOP), (ann, own.fqdn)):
        with registry.refuses(SubdomainNotFound):
            registry.read(find_in_account, actor, name)


def test_credits_and_quota_are_the_organizations(registry: Registry) -> None:
    organization_id = share(registry, ben="member")
    ben = working_for(registry, organization_id, "ben")
    with registry.refuses(InsufficientCredits):
        take(registry, ben, "paid.example.test", "plus")
    registry.write(grant_credits, OPERATOR, f"organization:{organization_id}", 25, "paid by invoice")
    take(registry, ben, "paid.example.test", "plus")
    registry.advance(days=320)
    registry.write(renew, ben, "paid.example.test", PAID)
    assert registry.read(find_balance, account(registry, organization_id)) == 4
    assert (registry.balance("ann"), registry.balance("ben")) == (100, 0)
    assert [each.credits for each in registry.read(list_own_entries, ben, 10, None)] == [-11, -10, 25]
    assert registry.read(list_own_entries, registry.actor("ben"), 10, None) == []
    for label in ("a", "b"):
        take(registry, ben, f"{label}.example.test")
    with registry.refuses(FreeQuotaExceeded):
        take(registry, ben, "c.example.test", "free")
    take(registry, registry.actor("ben"), "c.example.test")
    assert registry.doctor() == []


def test_a_daily_ceiling_counts_the_spending_of_all_its_tokens(registry: Registry) -> None:
    organization_id = share(registry)
    registry.write(grant_credits, OPERATOR, f"organization:{organization_id}", 100, "test")
    parent = issue(registry, daily_credits=15)
    child = registry.write(
        create_token, acting(parent), "shared", {"scopes": parent.scopes}, organization_id
    ).token
    assert (child.organization_id, child.daily_credits) == (organization_id, 15)
    shared = working_for(registry, organization_id, daily_credits=15)
    take(registry, shared, "a.example.test", "plus")
    with registry.refuses(TokenRestricted):
        take(registry, shared, "b.example.test", "plus")
    take(registry, acting(parent), "b.example.test", "plus")
    with registry.refuses(TokenRestricted):
        take(registry, acting(parent), "c.example.test", "plus")


def test_tickets_are_the_organizations(registry: Registry) -> None:
    organization_id = share(registry, ben="member")
    ann, ben = (working_for(registry, organization_id, name) for name in ("ann", "ben"))
    take(registry, ben)
    number = str(registry.write(open_ticket, ben, TicketRequest("Help", "Please.", fqdn=SHOP)).id)
    ticket = registry.read(find_own_ticket_with_messages, ann, number)
    assert (ticket.requester_email, ticket.messages[0].author_name) == ("ben@example.org", "Ben")
    registry.write(staff_reply, OPERATOR, number, "Done.", "Olga")
    registry.write(reply, ann, number, "Thank you.")
    assert [
        each.author_name for each in registry.read(find_own_ticket_with_messages, ben, number).messages
    ] == [
        "Ben",
        "Olga",
        "Ann",
    ]
    for actor in (registry.actor(), registry.actor("ben")):
        with registry.refuses(TicketNotFound):
            registry.read(find_own_ticket_with_messages, actor, number)
    assert registry.doctor() == []


def test_the_slug_does_not_tell_whether_an_address_has_an_account(registry: Registry) -> None:
    slugs = [
        registry.write(create_organization, registry.actor(), email, created_max=99).slug
        for email in ("ben@example.org", "nobody@example.org")
    ]
    for slug, name in zip(slugs, ("ben", "nobody"), strict=True):
        assert re.fullmatch(rf"{name}-example-org-[a-z0-9]{{6}}", slug)
