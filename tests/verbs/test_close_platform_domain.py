"""Closing a platform domain at a date: the mails to its holders, and what is possible before and after; on
both databases.
"""

from datetime import UTC, datetime, timedelta

import pytest

from sublet.credits.model import Payable
from sublet.errors import Conflict, NotFound, RegistrationClosed, ValidationFailed
from sublet.mail.store import list_mails
from sublet.platform_domains.offers import offer_mode
from sublet.subdomains.dates.set_auto_renew import set_auto_renew
from sublet.subdomains.dates.timeline import future_events
from sublet.subdomains.delete import delete
from sublet.subdomains.end_platform_domain import (
    close_platform_domain,
    keep_platform_domain,
    remove_platform_domain,
)
from sublet.subdomains.lifecycle import allowed_actions, lost_at
from sublet.subdomains.list_store import list_own
from sublet.subdomains.model import Register, SubdomainFilter
from sublet.subdomains.register import register
from sublet.subdomains.renew import renew
from sublet.subdomains.restore import operator_restore, restore
from support.registry import FREE_QUOTA, OPERATOR, START, Registry

ZONE, SHOP = "example.test", "shop.example.test"
UNTIL = START.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=70)
PAID = Payable(confirm=True)


@pytest.fixture
def registry(registry: Registry) -> Registry:
    """Return a registry that registers free names for only 40 days, which shortens the tests."""
    registry.write(offer_mode, OPERATOR, ZONE, "free", period_days=40)
    return registry


def close(registry: Registry, until: datetime = UNTIL, *, force: bool = False) -> int:
    return registry.write(close_platform_domain, OPERATOR, ZONE, until, force=force)[1]


def told(registry: Registry) -> dict[str, list[str]]:
    """Return the subjects of all mails about a closing, by recipient."""
    found: dict[str, list[str]] = {}
    for each in registry.read(list_mails, waiting=False, user_id=None, limit=100):
        if each.reference.startswith("closing:"):
            found.setdefault(each.recipient, []).insert(0, each.subject)
    return found


def test_each_holder_gets_one_mail_and_no_name_is_lost_before_the_date(registry: Registry) -> None:
    shop = registry.register(SHOP, nameservers=("ns1.example.org",))
    registry.register("music.example.test")
    registry.register("other.example.test", "ben")
    gone = registry.register("gone.example.test", "ben")
    registry.write(delete, registry.actor("ben"), str(gone.id))
    assert close(registry) == 2
    day = f"{UNTIL.day} {UNTIL:%B %Y}"
    subject = f"example.test closes on {day}"
    assert told(registry) == {"ann@example.org": [subject], "ben@example.org": [subject]}
    (mail,) = registry.read(list_mails, waiting=True, user_id=registry.users["ann"], limit=5)
    assert f"You hold 2 names there: music.example.test, {SHOP}." in mail.text
    registry.sweep()
    assert registry.subdomain(shop.id).expires_at < UNTIL, "it expires before"
    assert lost_at(registry.subdomain(shop.id)) == UNTIL
    ahead = [each.event for each in future_events(registry.subdomain(shop.id), registry.now)]
    assert ahead == ["expires", "trashed", "purged", "released"]
    assert registry.live(days=69) == {"purged": 1, "released": 1}, "only the name that was in the trash"
    assert registry.live(days=1, step_days=1) == {"trashed": 3}
    trashed = registry.subdomain(shop.id)
    assert (trashed.trashed_at, trashed.expires_at) == (UNTIL, shop.expires_at)
    text = registry.read(list_mails, waiting=True, user_id=registry.users["ann"], limit=1)[0].text
    assert "example.test has closed, as announced." in text
    assert registry.live(days=40) == {"purged": 3, "released": 3}
    registry.write(remove_platform_domain, OPERATOR, ZONE)
    assert registry.doctor() == []


def test_nothing_is_registered_renewed_or_restored_after_its_paid_time(registry: Registry) -> None:
    held = registry.register(SHOP)
    other = registry.register("other.example.test")
    registry.live(days=30)
    close(registry, registry.now + timedelta(days=60))
    registry.write(set_auto_renew, registry.actor(), SHOP, 10, may_spend=True)
    registry.sweep()
    registry.refused(
        RegistrationClosed, register, registry.actor(), Register(fqdn=f"new.{ZONE}"), free_quota=9
    )
    closing = registry.refused(RegistrationClosed, renew, registry.actor(), SHOP, PAID)
    assert f"{ZONE} closes on " in closing.message
    assert "renew" not in allowed_actions(
        registry.subdomain(held.id), registry.now, user_suspended=False, quota_left=True
    )
    wanted = SubdomainFilter(renewal_available=True)
    assert registry.read(list_own, registry.actor(), wanted, 5, None) == []
    registry.write(delete, registry.actor(), str(other.id))
    registry.write(restore, registry.actor(), other.fqdn, PAID, free_quota=FREE_QUOTA)
    registry.write(delete, registry.actor(), str(other.id))
    registry.live(days=10)
    registry.refused(RegistrationClosed, restore, registry.actor(), other.fqdn, PAID, free_quota=FREE_QUOTA)
    registry.write(operator_restore, OPERATOR, other.fqdn)
    assert registry.live(days=49) == {}
    assert registry.live(days=1) == {"trashed": 2}
    closed = registry.refused(RegistrationClosed, operator_restore, OPERATOR, other.fqdn)
    assert f"{ZONE} closed on " in closed.message


def test_the_date_is_moved_and_withdrawn(registry: Registry) -> None:
    held = registry.register(SHOP)
    close(registry)
    with registry.refuses(Conflict):
        close(registry)
    close(registry, UNTIL + timedelta(days=1))
    registry.sweep()
    assert lost_at(registry.subdomain(held.id)) == UNTIL + timedelta(days=1)
    assert registry.write(keep_platform_domain, OPERATOR, ZONE)[1] == 1
    assert told(registry)["ann@example.org"][-1] == "example.test stays open"
    registry.sweep()
    assert lost_at(registry.subdomain(held.id)) == held.expires_at + timedelta(days=30)
    registry.refused(Conflict, keep_platform_domain, OPERATOR, ZONE)
    assert registry.doctor() == []


def test_unknown_platform_domains_and_dates_too_soon_too_late_or_over_are_refused(registry: Registry) -> None:
    registry.refused(NotFound, close_platform_domain, OPERATOR, "no.test", UNTIL)
    registry.refused(NotFound, keep_platform_domain, OPERATOR, "no.test")
    with registry.refuses(ValidationFailed) as caught:
        close(registry, START + timedelta(days=30, microseconds=-1))
    assert "Give 2026-12-22 or a later date." in caught[0].errors[0].message
    with registry.refuses(ValidationFailed) as caught:  # the dates of the trash would have no year
        close(registry, datetime(9999, 12, 31, tzinfo=UTC))
    assert caught[0].errors[0].message == "Give 2126-10-28 or an earlier date."
    close(registry)
    registry.now = UNTIL
    for verb in (keep_platform_domain, lambda tx, actor, zone: close_platform_domain(tx, actor, zone, UNTIL)):
        registry.refused(Conflict, verb, OPERATOR, ZONE)


def test_terms_that_are_paid_for_beyond_the_date_need_force(registry: Registry) -> None:
    held = registry.register(SHOP, registration_mode="plus")
    registry.register_by_operator(f"given.{ZONE}")
    with registry.refuses(Conflict) as caught:
        close(registry, held.expires_at - timedelta(days=1))
    assert f"{ZONE} has 1 name paid for beyond " in caught[0].message
    close(registry, held.expires_at - timedelta(days=1), force=True)


def test_a_withdrawal_that_would_lose_names_needs_force(registry: Registry) -> None:
    held = registry.register(SHOP)
    close(registry, UNTIL + timedelta(days=30))
    registry.now = held.expires_at + timedelta(days=31)
    with registry.refuses(Conflict):
        registry.write(keep_platform_domain, OPERATOR, ZONE)
    registry.write(keep_platform_domain, OPERATOR, ZONE, force=True)
