"""What the model of the registry is made of, in words of its own: it imports nothing of the service."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

DAY = timedelta(days=1)
Effect = Callable[[], Any]


class Refused(Exception):  # noqa: N818 - as the refusals that it stands for
    """The verb must refuse with this code and these `details`, as far as the model predicts them."""

    def __init__(self, code: str, **details: Any) -> None:
        super().__init__(code)
        self.code = code
        self.details = details


@dataclass
class Offer:
    """A mode at its prices for a registration and a renewal; the term in days."""

    price: int
    renewal_price: int
    days: int
    withdrawn: bool = False


@dataclass(frozen=True)
class Listed:
    """What the operator says of one label."""

    kind: str
    price: int | None = None
    renewal_price: int | None = None
    organizations: tuple[str, ...] = ()


@dataclass
class Place:
    """A platform domain; `settings` by their names; `foreign` labels have records that the registry didn't
    write.
    """

    settings: dict[str, Any]
    offers: dict[str, Offer]
    labels: dict[str, Listed] = field(default_factory=dict)
    granted: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


@dataclass
class Person:
    """A user, with the balance in credits and, perhaps, a quota of its own."""

    organization: str
    quota: int | None = None
    balance: int = 0
    suspended: bool = False


@dataclass
class Coupon:
    """A coupon; `used` has its users, once for each use."""

    percent: int | None = None
    fixed: int | None = None
    max_uses: int | None = None
    max_uses_per_user: int | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    action: str | None = None
    domain: str | None = None
    mode: str | None = None
    retired: bool = False
    used: list[str] = field(default_factory=list)

    def discount(self, price: int) -> int:
        """Return the credits that the coupon takes off a price."""
        if self.percent is not None:
            return price * self.percent // 100
        return min(self.fixed or 0, price)


@dataclass
class Moved:
    """One movement of a balance, signed; its id is its place in the list, from 1."""

    who: str
    kind: str
    credits: int
    balance_after: int
    refunded: int | None = None


@dataclass(frozen=True)
class Pay:
    """What a request says of paying."""

    confirm: bool = False
    coupon: str | None = None
    max_credits: int | None = None
    may_spend: bool = True


@dataclass(frozen=True)
class Wish:
    """A delegation as sent: None leaves the stored one. Glue: host and address; DS: their texts."""

    nameservers: tuple[str, ...] | None = ()
    glue: tuple[tuple[str, str], ...] | None = ()
    ds: tuple[str, ...] | None = ()


@dataclass
class Name:
    """One registration. The names of its fields are the columns', so that both can be compared."""

    id: int
    who: str
    domain: str
    label: str
    registration_type: str
    registered_at: datetime
    expires_at: datetime
    period_days: int
    updated_at: datetime
    generation_at: datetime
    nameservers: tuple[str, ...] = ()
    glue: tuple[tuple[str, str], ...] = ()
    ds: tuple[str, ...] = ()
    generation: int = 0
    published_generation: int = 0
    failed: bool = False
    attempts: int = 0
    next_attempt_at: datetime | None = None
    last_renewed_at: datetime | None = None
    suspended_at: datetime | None = None
    unsuspended_at: datetime | None = None
    trashed_at: datetime | None = None
    purged_at: datetime | None = None
    released_at: datetime | None = None
    auto_renew_max_credits: int | None = None
    auto_renew_tried_at: datetime | None = None
    attempted_at: datetime | None = None
    looked_at: datetime | None = None
    dropped: dict[str, int] = field(default_factory=dict)
    """Nameservers that were removed, each with the first generation without it."""
    terms: list[tuple[str, datetime, datetime, int]] = field(default_factory=list)

    @property
    def fqdn(self) -> str:
        """The full name."""
        return f"{self.label}.{self.domain}"


FREE_QUOTA = 2
"""The quota of users without a quota of their own."""

_SETTINGS: dict[str, Any] = {
    "hidden": False,
    "restricted": False,
    "registration_open": True,
    "nameservers_min": 1,
    "nameservers_max": 13,
    "label_length_min": 1,
    "premium_length_max": 0,
    "renewal_window_days": 60,
    "grace_days": 30,
    "trash_days": 30,
    "cooling_off_days": 7,
}
"""The default settings of a platform domain that the model uses."""


def places_at_first() -> dict[str, Place]:
    """Return three platform domains that differ in all that matters."""
    short = {
        "nameservers_min": 2,
        "label_length_min": 2,
        "premium_length_max": 2,
        "grace_days": 3,
        "trash_days": 5,
        "cooling_off_days": 2,
    }
    hard = {
        "nameservers_max": 2,
        "renewal_window_days": 7,
        "grace_days": 0,
        "trash_days": 0,
        "cooling_off_days": 0,
    }
    return {
        "one.test": Place(
            dict(_SETTINGS),
            {
                "free": Offer(0, 0, 365),
                "plus": Offer(10, 11, 365),
                "premium": Offer(40, 41, 365),
                "special": Offer(70, 71, 365),
            },
            labels={
                "gold": Listed("premium", 25, 0),
                "vip": Listed("special", organizations=("Acme",)),
                "blok": Listed("blocked"),
            },
            foreign=("used",),
        ),
        "two.test": Place(
            {**_SETTINGS, **short},
            {"free": Offer(0, 0, 30), "plus": Offer(5, 7, 10), "premium": Offer(12, 0, 20)},
        ),
        "three.test": Place(
            {**_SETTINGS, **hard},
            {"free": Offer(0, 0, 365, withdrawn=True), "plus": Offer(3, 20, 90)},
            granted=("Acme",),
        ),
    }


def people_at_first() -> dict[str, Person]:
    """Return four users: rich, with little, with nothing and a quota of one, and a colleague of the last."""
    return {
        "ann": Person("Ann Inc", balance=500),
        "ben": Person("Ben Inc", balance=40),
        "cat": Person("Acme", quota=1),
        "dan": Person("Acme", balance=60),
    }


def coupons_at_first() -> dict[str, Coupon]:
    """Return the coupons that there are from the start."""
    return {
        "HALF": Coupon(percent=50),
        "FULL": Coupon(percent=100, max_uses=3),
        "FIX": Coupon(fixed=8, max_uses_per_user=1),
        "RENEW": Coupon(percent=33, action="renew"),
    }
