"""Restoring a name from the trash; on both databases."""

from datetime import timedelta

from sublet.credits.model import Payable
from sublet.errors import (
    Conflict,
    FreeQuotaExceeded,
    PaymentConfirmationRequired,
    SubdomainNotFound,
    ValidationFailed,
)
from sublet.subdomains.delete import delete
from sublet.subdomains.restore import operator_restore, restore
from support.registry import FREE_QUOTA, OPERATOR, START, Registry

SHOP = "shop.example.test"


PAID = Payable(confirm=True)


def test_a_live_name_can_t_be_restored(registry: Registry) -> None:
    registry.register(SHOP)
    caught = registry.refused(Conflict, restore, registry.actor(), SHOP, Payable(), free_quota=0)
    assert caught.details == {"status": "inactive"}


def test_a_free_name_beyond_the_quota_is_not_restored(registry: Registry) -> None:
    registry.register(SHOP)
    registry.write(delete, registry.actor(), SHOP)
    for index in range(FREE_QUOTA):
        registry.register(f"n{index}.example.test")
    caught = registry.refused(
        FreeQuotaExceeded, restore, registry.actor(), SHOP, Payable(coupon_code="NONE"), free_quota=FREE_QUOTA
    )
    assert caught.details == {"limit": FREE_QUOTA, "used": FREE_QUOTA}


def test_restore_ends_at_the_instant_of_the_purge(registry: Registry) -> None:
    registry.register(SHOP)
    registry.write(delete, registry.actor(), SHOP)
    registry.now = START + timedelta(days=30)
    registry.refused(SubdomainNotFound, restore, registry.actor(), SHOP, Payable(), free_quota=FREE_QUOTA)
    registry.now -= timedelta(microseconds=1)
    registry.write(restore, registry.actor(), SHOP, Payable(), free_quota=FREE_QUOTA)


def test_an_expired_name_is_restored_with_a_renewal(registry: Registry) -> None:
    held = registry.register(SHOP, registration_mode="plus")
    registry.now = held.expires_at - timedelta(microseconds=1)
    registry.write(delete, registry.actor(), SHOP)
    registry.now = held.expires_at
    caught = registry.refused(
        PaymentConfirmationRequired, restore, registry.actor(), SHOP, Payable(), free_quota=FREE_QUOTA
    )
    assert (caught.quote.action, caught.quote.price) == ("restore", 11)
    unknown_coupon = Payable(coupon_code="NONE")
    registry.refused(ValidationFailed, restore, registry.actor(), SHOP, unknown_coupon, free_quota=FREE_QUOTA)
    registry.write(restore, registry.actor(), SHOP, PAID, free_quota=FREE_QUOTA)
    back = registry.subdomain(held.id)
    assert (back.trashed_at, back.expires_at) == (None, START + timedelta(days=730))
    assert registry.balance() == 100 - 10 - 11
    assert registry.doctor() == []


def test_the_operator_restores_without_extending(registry: Registry) -> None:
    held = registry.register(SHOP, nameservers=("ns1.example.org",))
    registry.write(delete, registry.actor(), SHOP)
    registry.advance(days=20)
    back = registry.write(operator_restore, OPERATOR, SHOP)
    assert (back.trashed_at, back.expires_at, back.generation) == (None, held.expires_at, held.generation + 2)
