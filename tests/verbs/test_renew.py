"""Renewing a name (spec, part 4); on both databases."""

from datetime import timedelta

import pytest

from sublet.credits.model import Outcome, Payable
from sublet.errors import RenewalNotAvailable
from sublet.platform_domains.offers import withdraw_offer
from sublet.platform_domains.platform_domain import edit_platform_domain
from sublet.subdomains.lifecycle import renewal_available
from sublet.subdomains.renew import renew
from support.registry import OPERATOR, START, Registry

SHOP = "shop.example.test"


PAID = Payable(confirm=True)


def test_renewal_opens_with_its_window_and_counts_from_the_old_expiry(registry: Registry) -> None:
    held = registry.register(SHOP, registration_mode="plus")
    opens_at = START + timedelta(days=305)
    registry.now = opens_at - timedelta(microseconds=1)
    assert not renewal_available(registry.subdomain(held.id), registry.now)
    with registry.refuses(RenewalNotAvailable) as caught:
        registry.write(renew, registry.actor(), SHOP, PAID)
    told = {"opens_at": opens_at, "expires_at": held.expires_at, "last_renewed_at": None}
    assert caught[0].details == told
    registry.now = opens_at
    assert registry.write(renew, registry.actor(), SHOP, PAID) == Outcome(held.id, 11)
    renewed = registry.subdomain(held.id)
    assert renewed.expires_at == START + timedelta(days=730)
    assert (renewed.last_renewed_at, renewed.generation) == (opens_at, 0)
    assert registry.balance() == 100 - 10 - 11
    with registry.refuses(RenewalNotAvailable):  # a repeated request is not charged again
        registry.write(renew, registry.actor(), SHOP, PAID)
    assert registry.doctor() == []


def test_an_expired_name_is_renewed_from_its_old_expiry(registry: Registry) -> None:
    held = registry.register(SHOP)
    registry.advance(days=380)
    assert registry.write(renew, registry.actor(), SHOP, Payable()) == Outcome(held.id)
    assert registry.subdomain(held.id).expires_at == START + timedelta(days=730)


@pytest.mark.parametrize("after", [-1, 0, 1])
def test_a_renewal_at_the_second_of_expiry_counts_from_it(registry: Registry, after: int) -> None:
    held = registry.register(SHOP, registration_mode="plus")
    assert held.expires_at is not None
    registry.now = held.expires_at + timedelta(microseconds=after)
    assert registry.write(renew, registry.actor(), SHOP, PAID) == Outcome(held.id, 11)
    assert registry.subdomain(held.id).expires_at == START + timedelta(days=730)
    with registry.refuses(RenewalNotAvailable):
        registry.write(renew, registry.actor(), SHOP, PAID)
    assert registry.balance() == 100 - 10 - 11
    assert registry.doctor() == []


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
