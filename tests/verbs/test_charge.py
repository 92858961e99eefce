"""The errors about the price of a request, in the order in which they are checked; on both databases."""

from collections.abc import Callable
from typing import Any

import pytest

from sublet.credits.model import Payable
from sublet.errors import (
    InsufficientCredits,
    InsufficientScope,
    PaymentConfirmationRequired,
    PriceChanged,
    Refusal,
    RenewalNotAvailable,
    ValidationFailed,
)
from sublet.structs import replace
from sublet.subdomains.delete import delete
from sublet.subdomains.renew import renew
from sublet.subdomains.restore import restore
from support.registry import FREE_QUOTA, START, Registry

SHOP = "shop.example.test"


PAID = Payable(confirm=True)


def _payable(**members: Any) -> Callable[[Payable], Payable]:
    return lambda payable: replace(payable, **members)


# The faults are added from the last check to the first. Each is reported instead of the faults that were
# added before.
PRICE_FAULTS: list[tuple[type[Refusal], Callable[[Payable], Payable]]] = [
    (InsufficientCredits, lambda payable: payable),
    (PriceChanged, _payable(max_credits=10)),
    (InsufficientScope, _payable(may_spend=False)),
    (PaymentConfirmationRequired, _payable(confirm=False)),
    (ValidationFailed, _payable(coupon_code="NONE")),
]


@pytest.mark.parametrize("verb", ["renew", "restore"])
def test_errors_of_the_price_are_checked_in_order(registry: Registry, verb: str) -> None:
    registry.grant("ben", 10)
    held = registry.register(SHOP, "ben", registration_mode="plus")
    payable = PAID
    if verb == "restore":
        registry.now = held.expires_at
        registry.write(delete, registry.actor("ben"), SHOP)
    for refusal, more in PRICE_FAULTS:
        payable = more(payable)
        registry.now = held.expires_at
        if verb == "restore":
            registry.refused(refusal, restore, registry.actor("ben"), SHOP, payable, free_quota=FREE_QUOTA)
            continue
        registry.refused(refusal, renew, registry.actor("ben"), SHOP, payable)
        registry.now = START
        registry.refused(RenewalNotAvailable, renew, registry.actor("ben"), SHOP, payable)
