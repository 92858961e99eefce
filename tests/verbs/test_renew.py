"""Renewing a name (spec, part 4); on both databases."""

from datetime import timedelta

from sublet.credits.model import Outcome, Payable
from sublet.errors import Conflict, InsufficientScope, RenewalNotAvailable, ValidationFailed
from sublet.mail.store import list_mails
from sublet.platform_domains.offers import withdraw_offer
from sublet.platform_domains.platform_domain import edit_platform_domain
from sublet.subdomains.dates.set_auto_renew import set_auto_renew
from sublet.subdomains.delete import delete, operator_delete
from sublet.subdomains.lifecycle import allowed_actions, renewal_available
from sublet.subdomains.purge import purge
from sublet.subdomains.renew import operator_renew, renew
from sublet.subdomains.restore import operator_restore, restore
from sublet.subdomains.suspend import suspend
from support.registry import OPERATOR, START, Registry

SHOP = "shop.example.test"


PAID, NOT_ALLOWED = Payable(confirm=True), Payable(confirm=True, may_spend=False)


def test_renewal_opens_with_its_window_and_counts_from_the_old_expiry(registry: Registry) -> None:
    held = registry.register(SHOP, registration_mode="plus")
    opens_at = START + timedelta(days=305)
    registry.now = opens_at - timedelta(microseconds=1)
    assert not renewal_available(registry.subdomain(held.id), registry.now)
    caught = registry.refused(RenewalNotAvailable, renew, registry.actor(), SHOP, PAID)
    told = {"opens_at": opens_at, "expires_at": held.expires_at, "last_renewed_at": None}
    assert caught.details == told
    unknown_coupon = Payable(coupon_code="NONE")
    registry.refused(RenewalNotAvailable, renew, registry.actor(), SHOP, unknown_coupon)
    registry.now = opens_at
    registry.refused(ValidationFailed, renew, registry.actor(), SHOP, unknown_coupon)  # before the quote
    registry.refused(InsufficientScope, renew, registry.actor(), SHOP, NOT_ALLOWED)
    assert registry.write(renew, registry.actor(), SHOP, PAID) == Outcome(held.id, 11)
    renewed = registry.subdomain(held.id)
    assert renewed.expires_at == START + timedelta(days=730)
    assert (renewed.last_renewed_at, renewed.generation) == (opens_at, 0)
    assert registry.balance() == 100 - 10 - 11
    # a repeated request is not charged again
    registry.refused(RenewalNotAvailable, renew, registry.actor(), SHOP, PAID)
    assert registry.doctor() == []


def test_a_renewal_at_the_second_of_expiry_counts_from_it(registry: Registry) -> None:
    held = registry.register(SHOP, registration_mode="plus")
    registry.now = held.expires_at
    assert registry.write(renew, registry.actor(), SHOP, PAID) == Outcome(held.id, 11)
    assert registry.subdomain(held.id).expires_at == START + timedelta(days=730)
    registry.refused(RenewalNotAvailable, renew, registry.actor(), SHOP, PAID)
    assert registry.balance() == 100 - 10 - 11


def test_a_name_of_a_withdrawn_offer_is_renewed_at_its_renewal_price(registry: Registry) -> None:
    held = registry.register(SHOP, registration_mode="plus")
    registry.write(withdraw_offer, OPERATOR, "example.test", "plus")
    registry.write(
        edit_platform_domain,
        OPERATOR,
        "example.test",
        {"hidden": True, "registration_open": False},
    )
    registry.advance(days=310)
    assert registry.write(renew, registry.actor(), SHOP, PAID) == Outcome(held.id, 11)


def test_the_operator_renews_at_any_time_without_a_charge(registry: Registry) -> None:
    held = registry.register(SHOP, registration_mode="plus")
    renewed = registry.write(operator_renew, OPERATOR, SHOP, 30)
    assert (renewed.expires_at, renewed.period_days) == (held.expires_at + timedelta(days=30), 30)
    again = registry.write(operator_renew, OPERATOR, SHOP)
    assert again.expires_at == held.expires_at + timedelta(days=60)
    assert registry.balance() == 100 - 10
    # within a day of the operator's
    registry.refused(RenewalNotAvailable, renew, registry.actor(), SHOP, PAID)
    for days in (0, 3651):
        registry.refused(ValidationFailed, operator_renew, OPERATOR, SHOP, days)
    registry.write(suspend, OPERATOR, SHOP)
    for _ in range(10):
        registry.write(operator_renew, OPERATOR, SHOP, 3650)
    registry.refused(Conflict, operator_renew, OPERATOR, SHOP)  # a century ahead


def test_the_operator_renews_in_the_trash_so_that_a_name_can_be_restored(registry: Registry) -> None:
    held = registry.register(SHOP)
    registry.now = held.expires_at + timedelta(days=31)
    registry.write(operator_delete, OPERATOR, SHOP)
    registry.refused(Conflict, operator_restore, OPERATOR, SHOP)
    renewed = registry.write(operator_renew, OPERATOR, SHOP)
    assert (renewed.trashed_at is None, renewed.expires_at) == (False, START + timedelta(days=730))
    registry.write(operator_restore, OPERATOR, SHOP)
    registry.write(operator_delete, OPERATOR, SHOP)
    registry.write(purge, OPERATOR, SHOP)
    registry.refused(Conflict, operator_renew, OPERATOR, str(held.id))


def test_only_the_operator_renews_a_name_of_the_mode_admin(registry: Registry) -> None:
    """A user's renewal is refused, and mails and answers say to ask the operator (spec, part 2;
    docs/spec-choices.md).
    """
    held = registry.register_by_operator(SHOP)
    registry.live(days=366)
    actions = allowed_actions(
        registry.subdomain(held.id), registry.now, user_suspended=False, quota_left=True
    )
    assert actions == ("update_nameservers", "delete")
    caught = registry.refused(RenewalNotAvailable, renew, registry.actor(), SHOP, PAID)
    assert caught.details["opens_at"] is None
    registry.refused(RenewalNotAvailable, set_auto_renew, registry.actor(), SHOP, 50, may_spend=True)
    registry.live(days=55)
    told = registry.read(list_mails, waiting=False, user_id=registry.users["ann"], limit=9)
    assert len(told) == 6
    assert all("ask the operator" in each.text and "/renew" not in each.text for each in told)
    assert registry.doctor() == []


def test_a_user_restores_a_name_of_the_mode_admin_only_before_its_expiry(registry: Registry) -> None:
    held = registry.register_by_operator(SHOP)
    registry.write(delete, registry.actor(), SHOP)
    registry.write(restore, registry.actor(), SHOP, PAID, free_quota=0)
    registry.now = held.expires_at - timedelta(days=1)
    registry.write(delete, registry.actor(), SHOP)
    registry.now = held.expires_at
    stored = registry.subdomain(held.id)
    assert allowed_actions(stored, registry.now, user_suspended=False, quota_left=True) == ()
    registry.refused(RenewalNotAvailable, restore, registry.actor(), SHOP, PAID, free_quota=0)
