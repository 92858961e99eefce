"""Choices, "Timeline" and "Automatic renewal": what the owner sees of a name's life, and who sees nothing;
over the real service.
"""

from typing import Any

from sublet.accounts.store import find_user
from sublet.db import Tx
from sublet.structs import replace
from sublet.subdomains import store
from sublet.subdomains.sweep.auto_renew import auto_renew
from support.error_triggers import new_user, unused_name
from support.open_registry import instant
from support.running_service import Registrant, RunningService

NS1 = "ns1.provider.example"
PLUS_RENEWAL = 10
MEMBERS = ["event", "at", "past", "detail", "by", "expires_at", "charged_credits"]
OFF = {
    "enabled": False,
    "max_credits": None,
    "renewal_price_credits": 0,
    "next_attempt_at": None,
    "last_attempt": None,
}
OFF_PLUS = {**OFF, "renewal_price_credits": PLUS_RENEWAL}


SETTINGS = {"free_quota": 50}


def plus(shop: RunningService, who: Registrant) -> str:
    """Register a paid name."""
    body = {"registration_mode": "plus", "confirm": True, "nameservers": [NS1]}
    return str(shop.register(who, unused_name(), **body)["subdomain"]["fqdn"])


def seen(shop: RunningService, who: Registrant | str, fqdn: str) -> dict[str, Any]:
    answer = shop.call(who, "GET", f"/subdomains/{fqdn}/timeline")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    assert list(body) == ["ok", "timeline", "allowed_actions", "renewal_available", "warnings"]
    assert all(list(each) == MEMBERS for each in body["timeline"])
    return body


def words(body: dict[str, Any], *, past: bool) -> list[tuple[str, str | None]]:
    return [(each["event"], each["by"]) for each in body["timeline"] if each["past"] is past]


def test_the_timeline_has_dates_and_costs_but_no_actors_and_reasons(
    shop: RunningService,
) -> None:
    user = new_user(shop, credit_count=100)
    fqdn = plus(shop, user)
    path = f"/subdomains/{fqdn}"
    shop.call(user, "PUT", f"{path}/nameservers", {"nameservers": [NS1, "ns2.provider.example"]})
    shop.operator("subdomain", "suspend", fqdn, "--reason", "Phishing, see T-000002")
    held = seen(shop, user, fqdn)
    assert held["allowed_actions"] == []
    assert words(held, past=False) == [("expires", None)]
    assert held["timeline"][2]["detail"].startswith("Reason: Phishing, see T-000002. A suspended name ")
    assert "ask for a review" in held["timeline"][2]["detail"]
    shop.operator("subdomain", "unsuspend", fqdn, "--reason", "another secret reason")
    shop.call(user, "DELETE", path)
    trashed = seen(shop, user, fqdn)
    assert trashed["allowed_actions"] == ["restore"]
    assert words(trashed, past=False) == [("purged", None), ("released", None)]
    until = shop.call(user, "GET", path).json()["details"]["restorable_until"]
    assert [each["at"] for each in trashed["timeline"] if each["event"] == "purged"] == [until]
    assert shop.call(user, "POST", f"{path}/restore").status_code == 200
    whole = seen(shop, user, fqdn)
    assert words(whole, past=True) == [
        ("registered", "user"),
        ("nameservers_updated", "user"),
        ("suspended", "operator"),
        ("unsuspended", "operator"),
        ("deleted", "user"),
        ("restored", "user"),
    ]
    assert whole["timeline"][2]["detail"] == "Reason: Phishing, see T-000002."
    first = whole["timeline"][0]
    subdomain = shop.call(user, "GET", path).json()["subdomain"]
    assert (first["at"], first["expires_at"]) == (subdomain["registered_at"], subdomain["expires_at"])
    assert first["charged_credits"] == 10
    assert "secret" not in str(held) + str(whole)


# Automatic renewal


def set_(shop: RunningService, who: Registrant | str, fqdn: str, body: Any, **headers: str) -> Any:
    return shop.call(who, "PUT", f"/subdomains/{fqdn}/auto-renew", body, **headers)


def test_automatic_renewal_is_set_and_shown(shop: RunningService) -> None:
    user = new_user(shop, credit_count=50)
    fqdn = plus(shop, user)
    path = f"/subdomains/{fqdn}/auto-renew"
    assert shop.call(user, "GET", path).json() == {"ok": True, "auto_renew": OFF_PLUS}
    done = set_(shop, user, fqdn, {"enabled": True, "max_credits": 20}).json()
    opens_at = next(
        each["at"] for each in seen(shop, user, fqdn)["timeline"] if each["event"] == "renewal_opens"
    )
    assert done["auto_renew"] == {
        "enabled": True,
        "max_credits": 20,
        "renewal_price_credits": PLUS_RENEWAL,
        "next_attempt_at": opens_at,
        "last_attempt": None,
    }
    assert list(done) == ["ok", "subdomain", "auto_renew"]
    assert done["subdomain"]["fqdn"] == fqdn
    assert shop.call(user, "GET", path).json() == {"ok": True, "auto_renew": done["auto_renew"]}
    assert ("auto_renew", None) in words(seen(shop, user, fqdn), past=False)
    assert shop.operator("subdomain", "show", fqdn)["auto_renew_max_credits"] == 20
    assert set_(shop, user, fqdn, {"enabled": False}).json()["auto_renew"] == OFF_PLUS
    assert set_(shop, user, fqdn, {"enabled": False, "max_credits": None}).json()["auto_renew"] == OFF_PLUS
    assert shop.call(user, "GET", "/credits").json()["credit_balance"] == 40


def test_the_cost_of_a_renewal_is_shown_before_its_window_opens(shop: RunningService) -> None:
    """The price of now: the label's own where it has one, else the offer's. A token that may only read the
    name sees it too.
    """
    user = new_user(shop, credit_count=50)
    fqdn = plus(shop, user)
    path = f"/subdomains/{fqdn}/auto-renew"
    token = shop.issue_token(user.email, "subdomains:read")
    domain = fqdn.partition(".")[2]
    shop.operator(
        *("label", "set", fqdn.partition(".")[0], "--domain", domain, "--class", "standard"),
        *("--renewal-price", "33"),
    )
    assert shop.call(token, "GET", path).json()["auto_renew"]["renewal_price_credits"] == 33
    put = set_(shop, user, fqdn, {"enabled": True, "max_credits": 0})
    assert put.json()["auto_renew"]["renewal_price_credits"] == 33
    shop.operator("label", "unset", fqdn.partition(".")[0], "--domain", domain)
    assert shop.call(token, "GET", path).json()["auto_renew"]["renewal_price_credits"] == PLUS_RENEWAL


def test_invalid_bodies_are_refused(shop: RunningService) -> None:
    user = new_user(shop)
    fqdn = shop.register(user, unused_name())["subdomain"]["fqdn"]
    bodies: list[tuple[dict[str, Any], str, str, str]] = [
        ({}, "enabled", "required", "is missing. Give true to renew the name automatically, or false."),
        ({"enabled": None, "max_credits": 5}, "enabled", "required", ""),
        ({"enabled": True}, "max_credits", "required", ""),
        ({"enabled": False, "max_credits": 0}, "max_credits", "value_invalid", ""),
        ({"enabled": True, "max_credits": -1}, "max_credits", "value_invalid", ""),
    ]
    for body, field, code, says in bodies:
        answer = set_(shop, user, fqdn, body)
        assert answer.status_code == 422, answer.text
        assert [(each["field"], each["code"]) for each in answer.json()["errors"]] == [(field, code)]
        assert answer.json()["message"].endswith(says)
    assert shop.call(user, "GET", f"/subdomains/{fqdn}/auto-renew").json()["auto_renew"] == OFF


def test_the_last_attempt_and_its_mail_are_shown(shop: RunningService) -> None:
    """What the sweep noted of a name, told to its user."""
    user = new_user(shop, credit_count=10)
    added = shop.register(user, unused_name(), registration_mode="plus", confirm=True)["subdomain"]
    at = shop.clock()

    def attempt_now(tx: Tx) -> None:
        # The window opens in months only; `auto_renew` leaves to its caller when it is tried.
        owner, name = find_user(tx, user.id), store.find_subdomain(tx, added["id"])
        assert owner is not None
        assert name is not None
        assert not auto_renew(replace(tx, now=at), owner, replace(name, auto_renew_max_credits=5))

    shop.write(attempt_now)
    sentence = "It would cost 10 credits, and the ceiling is 5."
    path = f"/subdomains/{added['fqdn']}"
    attempt = shop.call(user, "GET", f"{path}/auto-renew").json()["auto_renew"]["last_attempt"]
    assert instant(attempt.pop("at")) == at
    assert attempt == {"outcome": "failed", "detail": sentence, "charged_credits": None}
    (event,) = (
        each for each in seen(shop, user, added["fqdn"])["timeline"] if each["event"] == "auto_renew_failed"
    )
    assert (event["detail"], event["by"], event["past"]) == (sentence, "system", True)
