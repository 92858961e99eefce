"""Verbs and lists with a token that is restricted to names, platform domains or daily credits; on both
databases.
"""

import pytest

from sublet.accounts.set_reminders import set_reminders
from sublet.accounts.tokens.tokens import create_token
from sublet.audit import Actor
from sublet.credits.model import Payable
from sublet.credits.store import list_own_entries
from sublet.errors import SubdomainNotFound, TokenRestricted, ValidationFailed
from sublet.platform_domains.store import list_visible
from sublet.restrictions import Restrictions
from sublet.subdomains.dates.set_auto_renew import set_auto_renew
from sublet.subdomains.find import find_in_account, list_in_account
from sublet.subdomains.list_store import list_own
from sublet.subdomains.model import Register, SubdomainFilter
from sublet.subdomains.register import register
from sublet.subdomains.renew import renew
from sublet.tickets import store as ticket_store
from sublet.tickets.model import TicketFilter, TicketRequest
from sublet.tickets.open_ticket import open_ticket
from support.acting_tokens import acting, issue
from support.registry import FREE_QUOTA, Registry

NAMES = (
    "a.example.test",
    "ab.example.test",
    "x.deep.example.test",
    "a.other.test",
    "xn--bcher-kva.example.test",
)
PAID = Payable(confirm=True)


@pytest.fixture
def furnished(registry: Registry) -> Registry:
    """Return a registry in which Ann has names under three nested platform domains, a ticket about each, and
    a ticket about no name.
    """
    registry.add_domain("other.test")
    registry.add_domain("deep.example.test")
    registry.grant("ann", 1000)
    registry.write(open_ticket, registry.actor(), TicketRequest("none", "none"))
    for name in NAMES:
        registry.advance(seconds=1)
        registry.register(name, registration_mode="plus")
        registry.write(open_ticket, registry.actor(), TicketRequest(name, name, fqdn=name))
    return registry


@pytest.mark.parametrize(
    "restrictions",
    [
        Restrictions(),
        Restrictions(names=("a.example.test",)),
        Restrictions(names=("*.deep.example.test", "a.other.test")),
        Restrictions(domains=("deep.example.test", "other.test")),
        Restrictions(names=("*.test",), domains=("example.test",)),
    ],
    ids=str,
)
def test_lists_have_exactly_the_names_of_the_token(furnished: Registry, restrictions: Restrictions) -> None:
    """The conditions in SQL agree with `Restrictions.allows_name`."""
    actor = Actor("user", furnished.users["ann"], 1, restrictions=restrictions)
    allowed = [name for name in reversed(NAMES) if restrictions.allows_name(name)]
    for limit in (1, 100):
        listed = furnished.read(list_own, actor, SubdomainFilter(), limit, None)
        assert [each.fqdn for each in listed] == allowed[:limit]
    tickets = furnished.read(ticket_store.list_own, actor, TicketFilter(), 100, None)
    of_none = [None] if restrictions.allows_all_names else []
    assert [each.subdomain for each in tickets] == [*allowed, *of_none]
    payments = furnished.read(list_own_entries, actor, 100, None)
    assert [each.subdomain for each in payments if each.kind == "charge"] == allowed
    assert sum(each.kind == "grant" for each in payments) == 2
    domains = furnished.read(list_visible, actor, furnished.organizations["ann"], 1, None)
    every = ("deep.example.test", "other.test", "example.test")
    assert [each.domain for each in domains] == [each for each in every if restrictions.allows_domain(each)][
        :1
    ]
    for name in NAMES:
        if name in allowed:
            assert furnished.read(find_in_account, actor, name).fqdn == name
        else:
            with pytest.raises(SubdomainNotFound):
                furnished.read(find_in_account, actor, name)


def test_verbs_about_all_names_refuse_such_a_token(registry: Registry) -> None:
    actor = acting(issue(registry, names=["a.example.test"]))
    registry.refused(TokenRestricted, set_reminders, actor, False)
    caught = registry.refused(ValidationFailed, open_ticket, actor, TicketRequest("s", "m"))
    assert [(each.field, each.code) for each in caught.errors] == [("fqdn", "required")]


def test_daily_credits_limit_the_spending_of_a_token_and_its_children(registry: Registry) -> None:
    parent = issue(registry, daily_credits=25)
    child = registry.write(
        create_token, acting(parent), "child", {"scopes": ("subdomains:write", "credits:spend")}
    ).token

    def buy(label: str, actor: Actor) -> None:
        command = Register(fqdn=f"{label}.example.test", registration_mode="plus", payable=PAID)
        registry.write(register, actor, command, free_quota=FREE_QUOTA)

    buy("a", acting(parent))
    registry.advance(hours=1)
    buy("b", acting(child))
    for token in (parent, child):
        with registry.refuses(TokenRestricted) as caught:
            buy("c", acting(token))
        assert caught[0].details == {"restriction": "daily_credits", "daily_credits": 25, "spent_credits": 20}
    buy("c", acting(issue(registry)))  # counted for no other token
    registry.advance(hours=23)
    buy("d", acting(parent))  # a day after the first
    with registry.refuses(TokenRestricted):
        buy("e", acting(child))
    late = acting(issue(registry, daily_credits=10))
    buy("f", late)
    registry.advance(hours=-20)  # a clock that was set back: charges in the future aren't counted
    buy("g", late)
    registry.advance(hours=20)
    limited = acting(issue(registry, daily_credits=100))
    # it confirms nothing in advance
    registry.refused(TokenRestricted, set_auto_renew, limited, "a.example.test", 1, may_spend=True)
    registry.write(set_auto_renew, limited, "a.example.test", 0, may_spend=True)
    registry.advance(days=330)
    actor = acting(issue(registry, daily_credits=10))
    registry.refused(TokenRestricted, renew, actor, "a.example.test", PAID)
    registry.write(renew, acting(issue(registry, daily_credits=11)), "a.example.test", PAID)
    assert registry.doctor() == []


def test_names_are_listed_in_any_spelling_and_other_texts_are_left_out(registry: Registry) -> None:
    fqdn = registry.register("shop.example.test").fqdn
    found = registry.read(
        list_in_account, registry.actor(), ["Shop.Example.Test.", "a\0b", "free.example.test"]
    )
    assert [each.fqdn for each in found] == [fqdn]
