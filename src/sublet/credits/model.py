"""The types of credits: quote, coupon, ledger entry, package, and the outcome of a verb."""

from datetime import datetime

from msgspec import Struct


class Payable(Struct, frozen=True):
    """The confirmation, limit and coupon in a request that may cost credits.

    `may_spend` is true if the token has the scope credits:spend. Otherwise only free operations are allowed.
    """

    confirm: bool = False
    coupon_code: str | None = None
    max_credits: int | None = None
    may_spend: bool = True


class Coupon(Struct, frozen=True):
    """A coupon. `kind` is percent or fixed, `value` is percent or credits.

    None means no limit or restriction.
    """

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


class AppliedCoupon(Struct, frozen=True):
    """A coupon with its discount on a price (docs/spec-choices.md, "Values": `coupon`)."""

    code: str
    kind: str
    value: int
    discount_credits: int


class Quote(Struct, frozen=True):
    """The price and the effect of a paid operation (docs/spec-choices.md, "Values": Quote).

    Amounts are in credits.
    """

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


class StoredEntry(Struct, frozen=True):
    """A stored ledger entry.

    `credits` is negative if the user's balance decreased. `amount` is a decimal string in `currency`.
    """

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


class Package(Struct, frozen=True):
    """A package of credits for sale. `price` is a decimal string in `currency` (ISO 4217)."""

    id: int
    name: str
    credits: int
    price: str
    currency: str
    retired_at: datetime | None
    created_at: datetime


class Outcome(Struct, frozen=True):
    """The outcome of a registrant's verb: the id of the changed object, the charge, and the coupon that was
    used.

    The outcome is stored with the request's `Idempotency-Key`. A repeated request gets it, with the current
    object.
    """

    id: int
    charged_credits: int = 0
    coupon: AppliedCoupon | None = None


class EntryOfUser(Struct, frozen=True):
    """A stored ledger entry, and its user's e-mail address."""

    entry: StoredEntry
    email: str
