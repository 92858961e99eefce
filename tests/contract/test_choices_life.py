"""Decisions, "Subdomain states": trash and restore, cooling-off, expiry, suspension; over the real service
and its clock.
"""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from sublet.subdomains.lifecycle import ACTIONS
from support.error_triggers import new_user, unused_name
from support.open_registry import instant
from support.running_service import Registrant, RunningService
from support.subdomain_states import ACTION_REQUESTS
from support.waiting import wait_until

NS1 = "ns1.provider.example"


SETTINGS = {"free_quota": 50}


def held(shop: RunningService, who: Registrant, **body: Any) -> str:
    return str(shop.register(who, unused_name(), ns1=NS1, **body)["subdomain"]["fqdn"])


def get(shop: RunningService, who: Registrant, fqdn: str) -> httpx.Response:
    return shop.call(who, "GET", f"/subdomains/{fqdn}")


def test_restore_within_the_paid_time_is_free(shop: RunningService) -> None:
    """POST restore brings it back as it was; the answer is that of a registration, and it stands in the DNS
    again.
    """
    user = new_user(shop)
    fqdn = held(shop, user)
    before = get(shop, user, fqdn).json()["subdomain"]
    shop.call(user, "DELETE", f"/subdomains/{fqdn}")
    trash = shop.call(user, "GET", "/subdomains?status=trashed").json()["subdomains"]
    assert [(each["fqdn"], each["status"], each["renewal_available"]) for each in trash] == [
        (fqdn, "trashed", False)
    ]
    wait_until(lambda: shop.delegation(fqdn) == set())
    answer = shop.call(user, "POST", f"/subdomains/{fqdn}/restore")
    body = answer.json()
    assert (answer.status_code, list(body)) == (
        200,
        ["ok", "subdomain", "provisioning", "charged_credits", "coupon"],
    )
    assert (body["charged_credits"], body["coupon"]) == (0, None)
    assert {**body["subdomain"], "updated_at": None} == {**before, "updated_at": None}
    assert shop.delegation(fqdn) == {NS1}


STATES = {
    "live": "example.test",
    "renewable": "window.test",
    "trashed": "example.test",
    "suspended": "example.test",
}
"""States of a name, each with the platform domain of its names."""


@pytest.mark.parametrize("state", STATES)
def test_an_action_is_listed_exactly_if_its_request_succeeds(shop: RunningService, state: str) -> None:
    """All states, without HTTP: tests/verbs/test_every_state_and_verb.py."""
    assert list(ACTION_REQUESTS) == list(ACTIONS), "add its request to tests/support/subdomain_states.py"
    user = new_user(shop)
    if state == "renewable":
        shop.add_domain("window.test", "--renewal-window-days", "365")
    for action, (method, suffix, body) in ACTION_REQUESTS.items():
        fqdn = shop.register(user, unused_name(STATES[state]), ns1=NS1)["subdomain"]["fqdn"]
        path = f"/subdomains/{fqdn}"
        if state == "trashed":
            shop.call(user, "DELETE", path)
        elif state == "suspended":
            shop.operator("subdomain", "suspend", fqdn)
        shown = shop.call(user, "GET", f"{path}/timeline").json()
        answer = shop.call(user, method, path + suffix, body)
        assert (answer.status_code == 200) is (action in shown["allowed_actions"]), (action, answer.text)
        assert shown["renewal_available"] is (state == "renewable")


def test_an_expired_name_may_be_renewed_changed_or_deleted(shop: RunningService) -> None:
    """Decisions: expired: as before in the zone, until the sweep puts it into the trash."""
    user = new_user(shop)
    fqdn = held(shop, user)
    shop.clock.advance(days=365, seconds=1)
    shop.believe_clock()
    expired = get(shop, user, fqdn).json()["subdomain"]
    assert (expired["status"], expired["status_label"], expired["renewal_available"]) == (
        "expired",
        "Expired",
        True,
    )
    assert shop.delegation(fqdn) == {NS1}
    changed = shop.call(
        user, "PUT", f"/subdomains/{fqdn}/nameservers", {"ns1": "ns2.provider.example"}
    ).json()
    assert (changed["subdomain"]["status"], changed["provisioning"]["status"]) == ("expired", "published")
    renewed = shop.call(user, "POST", f"/subdomains/{fqdn}/renew").json()["subdomain"]
    assert renewed["status"] == "active"
    assert instant(renewed["expires_at"]) - instant(expired["expires_at"]) == timedelta(days=365)


def test_a_suspended_name_can_only_be_read(shop: RunningService) -> None:
    """Decisions: suspended: out of the zone, with a reason; reading and tickets only.

    Let go, it comes back as stored.
    """
    user = new_user(shop)
    fqdn = held(shop, user)
    shop.operator("subdomain", "suspend", fqdn, "--reason", "Phishing")
    shop.clock.advance(days=330)
    shop.believe_clock()
    shown = get(shop, user, fqdn).json()["subdomain"]
    assert (shown["status"], shown["renewal_available"], shown["nameservers"]) == ("suspended", False, [NS1])
    wait_until(lambda: shop.delegation(fqdn) == set())
    path = f"/subdomains/{fqdn}"
    for method, where in (
        ("PUT", "/nameservers"),
        ("POST", "/renew"),
        ("POST", "/retry"),
        ("DELETE", ""),
        ("POST", "/restore"),
    ):
        answer = shop.call(user, method, path + where)
        assert (answer.status_code, answer.json()["error"]) == (409, "subdomain_suspended"), where
        assert "Phishing" in answer.json()["message"]
    ticket = {"subject": "Why?", "message": "Why?", "fqdn": fqdn}
    assert shop.call(user, "POST", "/support/tickets", ticket).status_code == 201
    shop.operator("subdomain", "unsuspend", fqdn)
    wait_until(lambda: shop.delegation(fqdn) == {NS1})
    assert get(shop, user, fqdn).json()["subdomain"]["renewal_available"] is True
