"""What the machine draws from: small sets, so that things collide."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from long.machine.world import DAY, Coupon, Listed, Pay, Wish


@dataclass(frozen=True)
class How:
    """How a request is sent: under an `Idempotency-Key`, and into a process that dies before the commit."""

    key: str | None = None
    crash: bool = False


HOWS = st.sampled_from(
    (*[How()] * 10, *[How("k1")] * 2, How("k2"), How(crash=True), How(crash=True), How("k1", crash=True))
)

ALL_NAMES = tuple(
    (label, domain)
    for domain, labels in {
        "one.test": "alpha beta gamma gold vip blok used bad_label",
        "two.test": "alpha beta lang delta ab www x",
        "three.test": "alpha beta gamma delta ns1",
        "nowhere.test": "alpha",
    }.items()
    for label in labels.split()
)
NAMES = st.sampled_from(ALL_NAMES)
GOOD_NAMES = tuple(
    name
    for name in ALL_NAMES
    if name[0] in ("alpha", "beta", "gamma", "delta", "lang", "gold", "vip", "ab")
    and name[1] != "nowhere.test"
)
"""The names that can be registered at the beginning."""
NUMBERS = st.integers(0, len(GOOD_NAMES) - 1)

PICKS = st.integers(0, 31)
"""Which name: see `Machine._pick`."""

PAYS = st.sampled_from(
    (
        *[Pay()] * 3,
        *[Pay(confirm=True)] * 6,
        Pay(confirm=True, coupon="HALF"),
        Pay(confirm=True, coupon="FULL"),
        Pay(confirm=True, coupon="FIX"),
        Pay(coupon="FULL"),
        Pay(confirm=True, coupon="RENEW"),
        Pay(confirm=True, coupon="NEW"),
        Pay(confirm=True, coupon="OTHER"),
        *[Pay(confirm=True, max_credits=6)] * 2,
        Pay(confirm=True, max_credits=1000),
        Pay(max_credits=-1),
        *[Pay(confirm=True, may_spend=False)] * 2,
    )
)

WISHES = st.sampled_from((0, 1, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20))
"""Numbers of `wish`; those from 15 on leave something out."""

_OUT = ("ns1.provider.example", "ns2.provider.example")
_DS = "2371 13 2 " + "ab" * 32


def wish(number: int, fqdn: str) -> Wish:
    """Return one of the delegations, good and bad, for a name."""
    inside = f"ns1.{fqdn}"
    return (
        Wish(),
        Wish(_OUT),
        Wish(_OUT[:1]),
        Wish((inside, _OUT[0]), ((inside, "8.8.4.4"),), (_DS,)),
        Wish((inside, _OUT[0])),
        Wish((_OUT[0], _OUT[0])),
        Wish((_OUT[0], "not a host")),
        Wish((inside, _OUT[0]), ((inside, "10.0.0.1"),)),
        Wish(_OUT, ((_OUT[0], "8.8.4.4"),)),
        Wish((), (), (_DS,)),
        Wish((*_OUT, "ns3.provider.example")),
        Wish(("ns1.alpha.one.test", "ns2.alpha.one.test")),
        Wish(("ns1.beta.one.test", "ns1.alpha.three.test")),
        Wish((inside, f"ns2.{fqdn}"), ((inside, "8.8.4.4"), (f"ns2.{fqdn}", "8.8.8.8"))),
        Wish(_OUT, (), (_DS,)),
        Wish(_OUT, None, None),
        Wish(None, None, (_DS,)),
        Wish(None, None, ()),
        Wish(None, (), None),
        Wish((), None, None),
        Wish((_OUT[0], inside), None, None),
    )[number]


CODES = st.sampled_from(("NEW", "OTHER", "THIRD", "FIX", "NOBODY"))


def coupon(number: int, now: datetime) -> Coupon:
    """Return one of the coupons, the last two of which can't be."""
    return (
        Coupon(percent=10),
        Coupon(fixed=100, max_uses=1),
        Coupon(percent=100, mode="plus", action="register"),
        Coupon(percent=50, domain="two.test", max_uses_per_user=2),
        Coupon(fixed=1, valid_from=now + DAY),
        Coupon(percent=25, valid_until=now + 2 * DAY),
        Coupon(percent=30, action="restore"),
        Coupon(percent=30, fixed=1),
        Coupon(percent=30, valid_until=now),
    )[number]


LAPSES = st.sampled_from(
    tuple(
        timedelta(**each)
        for each in (
            {"seconds": 1},
            {"seconds": 61},
            {"hours": 1},
            {"hours": 24},
            {"days": 2},
            {"days": 3, "microseconds": 1},
            {"days": 5},
            {"days": 30},
            {"days": 70},
        )
    )
)

EDITS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    (
        *[{"registration_open": True, "hidden": False, "restricted": False}] * 8,
        {"registration_open": False},
        {"hidden": True},
        {"restricted": True},
        {"nameservers_min": 1, "nameservers_max": 13},
        {"nameservers_min": 3, "nameservers_max": 2},
        {"grace_days": 1, "trash_days": 1, "cooling_off_days": 1},
        {"grace_days": 30, "trash_days": 30},
        {"trash_days": 0},
        {"grace_days": -1},
        {"renewal_window_days": 1},
        {"renewal_window_days": 400},
        {},
    )
)


def _offer(
    mode: str, price: int | None = None, renewal_price: int | None = None, days: int | None = None
) -> dict[str, Any]:
    return {"mode": mode, "price": price, "renewal_price": renewal_price, "days": days}


OFFERS = st.sampled_from(
    (
        _offer("free"),
        _offer("free", days=20),
        _offer("plus", 4),
        _offer("plus", 9, 2, 15),
        _offer("plus", renewal_price=0),
        _offer("plus", days=1),
        _offer("premium", 30),
        _offer("special"),
        _offer("special", 60, days=100),
        _offer("free", 1),
        _offer("plus", -1),
    )
)

LABELS = st.sampled_from(
    (
        Listed("standard"),
        Listed("standard"),
        Listed("standard", 6, 3),
        Listed("premium"),
        Listed("premium", 0),
        Listed("special", organizations=("Acme",)),
        Listed("special", 15, organizations=("Acme", "Ann Inc")),
        Listed("reserved"),
        Listed("blocked", 3),
        Listed("standard", organizations=("Acme",)),
    )
)
