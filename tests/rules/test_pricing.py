from datetime import UTC, datetime, timedelta
from itertools import combinations

import pytest

from sublet.accounts.model import User
from sublet.config import Settings, SettingsError
from sublet.errors import FreeQuotaExceeded, Refusal, RegistrationModeNotAllowed
from sublet.platform_domains.model import LABEL_CLASSES, MODES, Label, Offer
from sublet.structs import replace
from sublet.subdomains.charge import registration_price, renewal_price
from sublet.subdomains.modes import choose_mode
from sublet.subdomains.quota import Quota, default_quota, withheld_modes

OFFERS = {mode: Offer(1, mode, 10 * index, 10 * index + 1, 365, None) for index, mode in enumerate(MODES)}
OFFERED = [set(some) for count in range(len(MODES) + 1) for some in combinations(MODES, count)]
TAKEN_BY = {"standard": {"free", "plus"}, "premium": {"premium"}, "special": {"special"}}


def _expected(requested: str | None, label_class: str, offered: set[str], *, quota_left: bool) -> str:
    """Return the mode or the code of the refusal: an independent copy of the rule (spec, part 3;
    docs/spec-choices.md, "Modes and prices").
    """
    fitting = TAKEN_BY.get(label_class, set())
    if requested is not None:
        if requested not in fitting or requested not in offered:
            return "registration_mode_not_allowed"
        return "free_quota_exceeded" if requested == "free" and not quota_left else requested
    usable = fitting & offered
    if not usable:
        return "registration_mode_not_allowed"
    if "free" in usable and quota_left:
        return "free"
    others = usable - {"free"}
    return others.pop() if others else "free_quota_exceeded"


@pytest.mark.parametrize("label_class", LABEL_CLASSES)
@pytest.mark.parametrize("requested", [None, *MODES, "admin"])
def test_the_mode_for_each_class_of_label(requested: str | None, label_class: str) -> None:
    for offered in OFFERED:
        for used, limit in ((0, 5), (4, 5), (5, 5), (6, 5), (0, 0)):
            chosen = choose_mode(
                requested, label_class, {mode: OFFERS[mode] for mode in offered}, quota=Quota(used, limit)
            )
            found = chosen.mode if isinstance(chosen, Offer) else chosen.code
            expected = _expected(requested, label_class, offered, quota_left=used < limit)
            assert found == expected, (requested, label_class, offered, used, limit)


@pytest.mark.parametrize(
    ("requested", "withheld", "mode"),
    [
        (None, ["plus"], "free"),
        (None, ["free"], "plus"),
        ("plus", ["free", "premium"], "plus"),
        ("free", ["plus"], "free"),
        ("plus", ["plus"], None),
        ("free", ["free"], None),
        (None, ["free", "plus"], None),
    ],
)
def test_a_new_user_is_refused_withheld_modes(
    requested: str | None, withheld: list[str], mode: str | None
) -> None:
    until = datetime(2026, 11, 30, tzinfo=UTC)
    found = choose_mode(
        requested, "standard", OFFERS, quota=Quota(0, 5), withheld=dict.fromkeys(withheld, until)
    )
    if mode is not None:
        assert found == OFFERS[mode]
        return
    assert isinstance(found, RegistrationModeNotAllowed)
    assert found.details == {"available_at": until}


def test_withheld_modes_can_be_used_once_the_account_is_old_enough() -> None:
    settings = Settings(new_user_withheld_modes="plus, special", new_user_days=7)
    signed_up_at = datetime(2026, 11, 1, tzinfo=UTC)
    user = User(1, "", "", 1, None, None, None, signed_up_at, signed_up_at=signed_up_at)
    until = signed_up_at + timedelta(days=7)
    just_before = until - timedelta(microseconds=1)
    assert withheld_modes(settings, user, just_before) == {"plus": until, "special": until}
    assert (default_quota(settings, user, just_before), default_quota(settings, user, until)) == (2, 5)
    assert withheld_modes(settings, user, until) == {}
    assert withheld_modes(settings, replace(user, signed_up_at=None), signed_up_at) == {}
    with pytest.raises(SettingsError, match="new_user_withheld_modes"):
        Settings(new_user_withheld_modes="plus,admin")


def test_the_refusal_contains_the_quota() -> None:
    refusal = choose_mode("free", "standard", OFFERS, quota=Quota(7, 5))
    assert isinstance(refusal, FreeQuotaExceeded)
    assert refusal.details == {"limit": 5, "used": 7}


@pytest.mark.parametrize(
    ("offered", "requested", "used", "instruction"),
    [
        (["free"], "premium", 0, "Choose free."),
        (["free", "plus"], "premium", 0, "Choose free or plus."),
        ([], "plus", 0, "Choose another label."),
        (["free"], "free", 5, "Delete one first, or ask the operator for more."),
        (["free"], None, 5, "Delete one first, or ask the operator for more."),
        (["free", "plus"], "free", 5, "Delete one first, or register this one for credits."),
    ],
)
def test_a_refused_mode_proposes_only_what_is_offered(
    offered: list[str], requested: str | None, used: int, instruction: str
) -> None:
    offers = {mode: OFFERS[mode] for mode in offered}
    refusal = choose_mode(requested, "standard", offers, quota=Quota(used, 5))
    assert isinstance(refusal, Refusal)
    assert refusal.message.endswith(instruction)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("own", "own_renewal"), [(None, None), (99, None), (None, 77), (99, 77), (0, 0)])
def test_prices_of_a_label_replace_those_of_the_offer_unless_free(
    mode: str, own: int | None, own_renewal: int | None
) -> None:
    offer = OFFERS[mode]
    listed = None if own is own_renewal is None else Label(1, "shop", "premium", own, own_renewal)
    charged = mode != "free"
    assert registration_price(offer, listed) == (own if charged and own is not None else offer.price_credits)
    assert renewal_price(offer, own_renewal) == (
        own_renewal if charged and own_renewal is not None else offer.renewal_price_credits
    )
