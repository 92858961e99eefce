"""GET /availability: the shape of its answer, who sees which date, its scope and its rate limit."""

import pytest

from support.error_triggers import new_user, unused_name
from support.open_registry import opened
from support.running_service import RunningService

SETTINGS = {"free_quota": 5}


def test_the_answer_about_a_free_name_and_then_a_taken_one(shop: RunningService) -> None:
    ada, ben, name = new_user(shop), new_user(shop), unused_name()
    label, _, domain = name.partition(".")
    by_fqdn = shop.call(ada, "GET", f"/availability?fqdn={name.upper()}.")
    by_label = shop.call(ada, "GET", f"/availability?label={label}&domain={domain}")
    assert by_fqdn.json() == by_label.json()
    modes = by_fqdn.json()["availability"].pop("modes")
    assert modes[0] == {"mode": "free", "price_credits": 0, "renewal_price_credits": 0, "period_days": 365}
    assert by_fqdn.json() == {
        "ok": True,
        "availability": {
            "fqdn": name,
            "available": True,
            "reason": None,
            "unavailable_reason": None,
            "owned": False,
            "available_at": None,
            "modes": [
                modes[0],
                {"mode": "plus", "price_credits": 10, "renewal_price_credits": 10, "period_days": 365},
            ],
        },
    }
    held = shop.register(ada, name)["subdomain"]
    assert shop.call(ada, "DELETE", f"/subdomains/{name}").status_code == 200
    mine, theirs = (
        shop.call(who, "GET", f"/availability?fqdn={name}").json()["availability"] for who in (ada, ben)
    )
    assert (mine["available"], mine["reason"], mine["modes"]) == (False, "subdomain_unavailable", [])
    assert held["registered_at"] < mine["available_at"] < held["expires_at"]
    assert (mine["unavailable_reason"], mine["owned"]) == ("in_trash", True)
    assert theirs == {**mine, "available_at": None, "owned": False}


def test_a_request_without_a_name_is_refused_like_a_registration(shop: RunningService) -> None:
    user = new_user(shop)
    for query, body in (
        ("", {}),
        ("?label=-a&domain=example.test", {"label": "-a", "domain": "example.test"}),
        ("?fqdn=a.exampel.test", {"fqdn": "a.exampel.test"}),
    ):
        asked = shop.call(user, "GET", f"/availability{query}", x_request_id="same")
        tried = shop.call(user, "POST", "/subdomains", body, x_request_id="same")
        assert (asked.status_code, asked.content) == (tried.status_code, tried.content)


def test_availability_needs_the_scope_of_a_registration(shop: RunningService) -> None:
    user, name = new_user(shop, credit_count=100), unused_name()
    reading = shop.issue_token(user.email, "subdomains:read")
    assert shop.call(reading, "GET", f"/availability?fqdn={name}").json()["error"] == "insufficient_scope"
    for _ in range(5):
        shop.register(user, unused_name())
    # Only the mode that costs credits is left.
    without = shop.issue_token(user.email, "subdomains:write")
    asked = shop.call(without, "GET", f"/availability?fqdn={name}").json()["availability"]
    assert (asked["reason"], [each["mode"] for each in asked["modes"]]) == ("insufficient_scope", ["plus"])
    assert shop.call(user, "GET", f"/availability?fqdn={name}").json()["availability"]["available"] is True


def test_availability_has_its_own_rate_limit(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = {"rate_limits": True, "rate_limit_availability_per_minute": 2}
    with opened(tmp_path_factory.mktemp("limit"), **settings) as service:
        user = new_user(service)
        answers = [service.call(user, "GET", "/availability?fqdn=a.example.test") for _ in range(3)]
        assert [each.status_code for each in answers] == [200, 200, 429]
        assert answers[0].headers["ratelimit-policy"] == '"availability";q=2;w=60'
        assert service.call(user, "GET", "/subdomains").status_code == 200
        assert service.call(user, "POST", "/subdomains", {"fqdn": "a.example.test"}).status_code == 201
