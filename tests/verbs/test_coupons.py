"""Adding and retiring coupons as the operator."""

from datetime import timedelta
from pathlib import Path

import pytest

from sublet.credits.coupons import CouponTerms, add_coupon
from support.operator_registry import Registry, small_registry

DOMAIN = "example.test"


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return small_registry(tmp_path)


def test_a_coupon_is_stored_with_its_terms(registry: Registry) -> None:
    until = registry.now + timedelta(days=1)
    terms = CouponTerms(
        fixed_credits=3,
        max_uses=2,
        valid_until=until,
        action="renew",
        domain=DOMAIN,
        registration_mode="plus",
    )
    coupon = registry.do(add_coupon, " spring ", terms)
    assert (coupon.code, coupon.kind, coupon.value, coupon.uses) == ("SPRING", "fixed", 3, 0)
    assert (coupon.valid_until, coupon.action, coupon.platform_domain_id) == (until, "renew", 1)
