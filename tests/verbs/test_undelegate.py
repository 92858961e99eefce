"""Removing broken names from the DNS, and the mails before; on both databases."""

from datetime import timedelta

import pytest

from sublet import audit
from sublet.accounts.set_reminders import set_reminders
from sublet.db import Tx
from sublet.dns.types import Delegation
from sublet.health import store
from sublet.health.brake import undelegate
from sublet.health.due_checks import record_check
from sublet.health.model import BROKEN, HEALTHY, UNKNOWN, Finding, Level, Report
from sublet.health.view_health import view_health
from sublet.mail.store import list_mails
from sublet.subdomains.delegation_changes import UNDELEGATION
from sublet.subdomains.edit_zone_settings import edit_zone_settings
from sublet.subdomains.model import Subdomain, UpdateNameservers
from sublet.subdomains.update_nameservers import update_nameservers
from support.registry import OPERATOR, Registry

SHOP = "shop.example.test"
HOSTS = ("ns1.example.org", "ns2.example.org")
LAME = Finding("lame", Level.ERROR, "ns1.example.org", "It is lame.", "Mend it.")


def shop_of(registry: Registry, days: int) -> Subdomain:
    """Register the shop, under a platform domain that keeps broken names in the DNS
    for this number of days.
    """
    registry.write(edit_zone_settings, OPERATOR, "example.test", {"broken_days": days})
    return registry.register(SHOP, nameservers=HOSTS)


def record(registry: Registry, shop: Subdomain, state: str = BROKEN, **passed: float) -> bool:
    """Record a check after some time, like the worker. Return True if the name left the DNS."""
    registry.advance(**passed)
    findings = (LAME,) if state == BROKEN else ()
    generation = registry.subdomain(shop.id).published_generation

    def record(tx: Tx) -> bool:
        record_check(tx, shop.id, generation, Report(state, findings, tx.now))
        return undelegate(tx, shop.id, generation)

    return registry.write(record)


def mails(registry: Registry) -> list[tuple[str, str]]:
    """Return subjects and texts, the oldest first."""
    found = registry.read(list_mails, waiting=True, user_id=registry.users["ann"], limit=10)
    return [(each.subject, each.text) for each in found][::-1]


def test_a_name_that_stays_broken_leaves_the_dns_after_two_mails(registry: Registry) -> None:
    shop = shop_of(registry, 30)
    assert not record(registry, shop)
    assert not record(registry, shop, hours=3)
    ((subject, text),) = mails(registry)
    assert subject == f"{SHOP} doesn't work"
    leaves = registry.now - timedelta(hours=3) + timedelta(days=30)
    assert f"it leaves the DNS on {leaves.day} {leaves:%B %Y}" in text
    assert registry.read(view_health, registry.actor("ann"), SHOP).leaves_at == leaves
    assert not record(registry, shop, days=22)
    assert len(mails(registry)) == 1
    assert not record(registry, shop, days=1)
    assert mails(registry)[1][0] == f"{SHOP} is about to leave the DNS"
    assert not record(registry, shop, days=6)
    assert record(registry, shop, days=1)
    gone = registry.subdomain(shop.id)
    assert (gone.delegation, gone.generation, gone.trashed_at) == (Delegation(), 2, None)
    assert mails(registry)[2][0] == f"{SHOP} left the DNS"
    (event,) = registry.read(audit.list_events, "subdomain", [shop.id], [UNDELEGATION])
    assert (event.actor_kind, event.before["nameservers"] if event.before else None) == (
        "system",
        list(HOSTS),
    )
    assert registry.read(store.find_health, shop.id) is None
    registry.write(update_nameservers, registry.actor(), SHOP, UpdateNameservers(nameservers=HOSTS))
    assert registry.doctor() == []


def test_names_stay_until_the_setting_is_turned_on_and_their_users_warned(registry: Registry) -> None:
    shop = shop_of(registry, 0)
    for _ in range(2):
        assert not record(registry, shop, days=100)
    registry.write(edit_zone_settings, OPERATOR, "example.test", {"broken_days": 10})
    assert not record(registry, shop, days=1)
    assert not record(registry, shop, days=4)
    assert record(registry, shop, days=1)
    assert [subject for subject, _ in mails(registry)] == [
        f"{SHOP} doesn't work",
        f"{SHOP} is about to leave the DNS",
        f"{SHOP} left the DNS",
    ]


@pytest.mark.parametrize("state", [HEALTHY, UNKNOWN])
def test_the_days_start_again_if_the_name_works_or_is_unknown(state: str, registry: Registry) -> None:
    registry.write(set_reminders, registry.actor(), enabled=False)
    shop = shop_of(registry, 10)
    record(registry, shop)
    record(registry, shop, days=9)
    assert not record(registry, shop, state, hours=1)
    assert not record(registry, shop, state, minutes=10)
    health = registry.read(store.find_health, shop.id)
    assert health is not None
    assert (health.state, health.warned_at) == (state, None)
    assert not record(registry, shop, days=5)
    assert not record(registry, shop, minutes=10)
    assert not record(registry, shop, days=6)
    assert mails(registry) == []


def test_a_change_meanwhile_keeps_the_name(registry: Registry) -> None:
    shop = shop_of(registry, 2)
    record(registry, shop)
    record(registry, shop, days=1)
    registry.advance(days=2)
    registry.write(update_nameservers, registry.actor(), SHOP, UpdateNameservers(nameservers=HOSTS[:1]))
    assert registry.write(undelegate, shop.id, 1) is False
    assert registry.subdomain(shop.id).delegation.nameservers == HOSTS[:1]
