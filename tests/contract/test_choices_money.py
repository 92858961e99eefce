"""Decisions, "Modes and prices" and "Values": classes of labels, modes, quota,
coupons, history of credits.
"""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from support.error_triggers import new_user, unused_name
from support.open_registry import instant
from support.running_service import Registrant, RunningService


@pytest.fixture(scope="module")
def shop(shop: RunningService) -> RunningService:
    shop.add_domain("class.test", "--premium-length-max", "2")
    for mode, price in (("premium", "50"), ("special", "80")):
        shop.operator("domain", "offer", "class.test", "--mode", mode, "--price", price)
    return shop


def post(shop: RunningService, who: Registrant, fqdn: str, **body: Any) -> httpx.Response:
    return shop.call(who, "POST", "/subdomains", {"fqdn": fqdn, **body})


def outcome(answer: httpx.Response) -> tuple[str, Any]:
    """The mode and price of a registration or quote, or the code and reason of a refusal."""
    body = answer.json()
    if "quote" in body:
        return body["quote"]["registration_mode"], body["quote"]["price"]
    if body["ok"]:
        return body["subdomain"]["registration_type"], body["charged_credits"]
    return body["error"], body["details"].get("reason")


NOT_ALLOWED = ("registration_mode_not_allowed", None)


def test_the_modes_of_each_class_of_label(shop: RunningService) -> None:
    """free and plus take standard labels, premium premium ones, special special ones;
    by length, or listed.
    """
    user, granted = new_user(shop), new_user(shop)
    of = ("--domain", "class.test")
    shop.operator("label", "set", "pearl", *of, "--class", "premium", "--price", "70", "--renewal-price", "5")
    shop.operator("label", "set", "city", *of, "--class", "special", "--grant", granted.organization["slug"])
    reserved = ("subdomain_unavailable", "reserved")
    table: list[tuple[str, Any, str | None, tuple[str, Any]]] = [
        ("ab", user, None, ("premium", 50)),
        ("ab", user, "free", NOT_ALLOWED),
        ("pearl", user, None, ("premium", 70)),
        ("city", granted, None, ("special", 80)),
        ("city", user, "special", reserved),
        ("mail", user, None, reserved),
        ("abc", user, "premium", NOT_ALLOWED),
        ("abc", user, "plus", ("plus", 10)),
        ("abc", user, None, ("free", 0)),
    ]
    for name, who, mode, expected in table:
        body = {} if mode is None else {"registration_mode": mode}
        assert outcome(post(shop, who, f"{name}.class.test", **body)) == expected, (name, mode)


def test_coupons_percent_and_fixed(shop: RunningService) -> None:
    """Decisions: percent discount = floor(price x percent / 100); a price of 0, after a coupon too, completes
    at once.
    """
    user = new_user(shop, credit_count=20)
    shop.operator("coupon", "add", "P33", "--percent", "33")
    shop.operator("coupon", "add", "F4", "--fixed", "4")
    shop.operator("coupon", "add", "F99", "--fixed", "99")
    shop.operator("coupon", "add", "P100", "--percent", "100")
    body = {"registration_mode": "plus", "coupon_code": " p33 "}
    quoted = post(shop, user, unused_name(), **body).json()["quote"]
    assert (quoted["list_price"], quoted["discount"], quoted["price"]) == (10, 3, 7)
    coupon = {"code": "P33", "kind": "percent", "value": 33, "discount_credits": 3}
    assert quoted["coupon"] == coupon
    done = post(shop, user, unused_name(), **body, confirm=True).json()
    assert (done["charged_credits"], done["coupon"]) == (7, coupon)
    done = post(shop, user, unused_name(), registration_mode="plus", coupon_code="F4", confirm=True).json()
    assert (done["charged_credits"], done["coupon"]["discount_credits"]) == (6, 4)
    for code in ("F99", "P100"):
        answer = post(shop, user, unused_name(), registration_mode="plus", coupon_code=code)
        assert (answer.status_code, answer.json()["charged_credits"]) == (201, 0)
        assert answer.json()["coupon"]["discount_credits"] == 10
    assert shop.call(user, "GET", "/credits").json()["credit_balance"] == 7


def test_limits_and_restrictions_of_coupons(shop: RunningService) -> None:
    """Decisions: coupon_invalid where it is over, used up or not yet valid; coupon_not_applicable where it is
    for else.
    """
    user, other = new_user(shop, credit_count=100), new_user(shop, credit_count=100)
    today = shop.clock()

    def day(days: int) -> str:
        return (today + timedelta(days=days)).strftime("%Y-%m-%d")

    def add(code: str, *options: str) -> None:
        shop.operator("coupon", "add", code, "--fixed", "1", *options)

    add("ONCE", "--max-uses", "1")
    add("EACH", "--max-uses-per-user", "1")
    add("LATER", "--valid-from", day(2))
    add("OVER", "--valid-until", day(2))
    add("RENEWING", "--action", "renew")
    add("ELSEWHERE", "--domain", "class.test")
    add("PREMIUM", "--mode", "premium")
    add("RETIRED")
    shop.operator("coupon", "retire", "RETIRED")

    def used(who: Registrant, code: str) -> str:
        answer = post(shop, who, unused_name(), registration_mode="plus", confirm=True, coupon_code=code)
        return "ok" if answer.status_code == 201 else str(answer.json()["errors"][0]["code"])

    assert [used(who, "ONCE") for who in (user, user, other)] == ["ok", "coupon_invalid", "coupon_invalid"]
    assert [used(who, "EACH") for who in (user, user, other)] == ["ok", "coupon_invalid", "ok"]
    assert [used(user, code) for code in ("RETIRED", "NOSUCH", "LATER", "OVER")] == [
        *["coupon_invalid"] * 3,
        "ok",
    ]
    shop.operator("coupon", "add", "P9", "--percent", "9", "--max-uses", "1")
    assert [used(user, code) for code in ("RENEWING", "ELSEWHERE", "PREMIUM", "P9", "P9")] == [
        "coupon_not_applicable"
    ] * 5
    shop.clock.advance(days=3)
    assert [used(user, code) for code in ("LATER", "OVER")] == ["ok", "coupon_invalid"]


def test_a_quote_or_refusal_uses_up_no_coupon(shop: RunningService) -> None:
    user = new_user(shop, credit_count=9)
    shop.operator("coupon", "add", "SINGLE", "--fixed", "1", "--max-uses", "1")
    body = {"registration_mode": "plus", "coupon_code": "SINGLE"}
    for _ in range(2):
        assert post(shop, user, unused_name(), **body).status_code == 402
    assert post(shop, user, unused_name(), **body, confirm=True).json()["charged_credits"] == 9


def test_history_of_credits(service: RunningService) -> None:
    """Decisions, "Values": payments newest first; kinds, signed credits, balance_after, amount and currency,
    subdomain.
    """
    shop = (
        service  # one whose clock was not moved: the command line has the real one, and the list is by time
    )
    shop.add_domain()
    user = new_user(shop)
    package = shop.operator(
        "package", "add", "Ten", "--credits", "10", "--price", "9.90", "--currency", "EUR"
    )
    record = ("payment", "record", user.email, "--reference")
    shop.operator(*record, "INV-1", "--package", str(package["id"]))
    shop.operator("credits", "grant", user.email, "--credits", "5", "--reason", "Welcome")
    fqdn = unused_name()
    shop.register(user, fqdn, registration_mode="plus", confirm=True)
    charge = shop.call(user, "GET", "/payments").json()["payments"][0]
    shop.operator("credits", "refund", str(charge["id"]), "--credits", "4", "--reason", "Sorry")
    shop.operator("credits", "adjust", user.email, "--credits", "-2", "--reason", "Correction")
    found = shop.call(user, "GET", "/payments").json()["payments"]
    fields = [
        "id",
        "kind",
        "credits",
        "balance_after",
        "amount",
        "currency",
        "description",
        "reference",
        "subdomain",
        "created_at",
    ]
    assert all(list(payment) == fields for payment in found)
    told = [
        (
            each["kind"],
            each["credits"],
            each["balance_after"],
            each["amount"],
            each["currency"],
            each["subdomain"],
        )
        for each in found
    ]
    assert told == [
        ("adjustment", -2, 7, None, None, None),
        ("refund", 4, 9, None, None, fqdn),
        ("charge", -10, 5, None, None, fqdn),
        ("grant", 5, 15, None, None, None),
        ("purchase", 10, 10, "9.90", "EUR", None),
    ]
    instants = [instant(payment["created_at"]) for payment in found[2:3]]
    assert abs((instants[0] - shop.clock()).total_seconds()) < 60
    assert shop.call(user, "GET", "/credits").json()["credit_balance"] == found[0]["balance_after"] == 7


def test_retired_packages_are_not_offered(shop: RunningService) -> None:
    user = new_user(shop)
    made = shop.operator("package", "add", "Gone", "--credits", "1", "--price", "1", "--currency", "EUR")
    assert "Gone" in [each["name"] for each in shop.call(user, "GET", "/credits").json()["packages"]]
    shop.operator("package", "retire", str(made["id"]))
    assert "Gone" not in [each["name"] for each in shop.call(user, "GET", "/credits").json()["packages"]]
