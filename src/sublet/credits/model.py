"""The types of credits: a quote, a coupon and its use, a payment, a package, what a verb charged."""

from dataclasses import dataclass
from datetime import datetime

TRANSFER_KINDS = ("purchase", "charge", "refund", "grant", "adjustment")


@dataclass(frozen=True, slots=True)
class Payable:
    """What every operation that may cost credits takes: the word to go on, its bound, a coupon.

    `may_spend` is the token's scope credits:spend; without it nothing that costs credits is completed.
    """

    confirm: bool = False
    coupon_code: str | None = None
    max_credits: int | None = None
    may_spend: bool = True


@dataclass(frozen=True, slots=True)
class Coupon:
    """A coupon. `kind` is percent or fixed, `value` percent or credits; limits and restrictions None mean none."""

    id: int
    code: str
    kind: str
    value: int
    max_uses: int | None
    max_uses_per_user: int | None
    uses: int
    valid_from: datetime | None
    valid_until: datetime | None
    action: str | None
    platform_domain_id: int | None
    registration_mode: str | None
    retired_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class AppliedCoupon:
    """What a coupon did to one price (docs/spec-choices.md, "Values": `coupon`)."""

    code: str
    kind: str
    value: int
    discount_credits: int


@dataclass(frozen=True, slots=True)
class Quote:
    """What a paid operation costs and what it changes (docs/spec-choices.md, "Values": Quote); amounts in credits."""

    action: str
    fqdn: str
    registration_mode: str
    period_days: int
    list_price: int
    discount: int
    price: int
    balance: int
    balance_after: int
    sufficient: bool
    shortfall: int
    coupon: AppliedCoupon | None
    new_expires_at: datetime


@dataclass(frozen=True, slots=True)
class Payment:
    """One record of an account's history; `credits` is signed, `amount` a decimal string in `currency`."""

    id: int
    user_id: int
    kind: str
    credits: int
    balance_after: int
    amount: str | None
    currency: str | None
    description: str
    reference: str
    subdomain: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Package:
    """A package of credits that can be purchased; `price` is a decimal string in `currency` (ISO 4217)."""

    id: int
    name: str
    credits: int
    price: str
    currency: str
    retired_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a registrant's verb did: the id of the object, what was charged, the coupon that was used.

    It is all that is kept for a repeated request with the same `Idempotency-Key`; the object is rendered as it then is.
    """

    id: int
    charged_credits: int = 0
    coupon: AppliedCoupon | None = None


@dataclass(frozen=True, slots=True)
class Movement:
    """What the operator moved: the payment as its user sees it, and whose it is."""

    payment: Payment
    email: str
