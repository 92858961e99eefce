"""Decisions, "Subdomain states": trash and restore, cooling-off, expiry, suspension; over the real service
and its clock.
"""

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from support.error_triggers import new_user, unused_name
from support.open_registry import instant, opened
from support.running_service import Registrant, RunningService

NS1 = "ns1.provider.example"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with opened(tmp_path_factory.mktemp("life"), free_quota=50) as service:
        yield service


def held(shop: RunningService, who: Registrant, **body: Any) -> str:
    return str(shop.register(who, unused_name(), ns1=NS1, **body)["subdomain"]["fqdn"])


def get(shop: RunningService, who: Registrant, fqdn: str) -> httpx.Response:
    return shop.call(who, "GET", f"/subdomains/{fqdn}")


def until_delegation(shop: RunningService, fqdn: str, expected: set[str]) -> set[str]:
    """Changes of the command line are published within the publisher's poll; wait for it, within bounds."""
    for _ in range(100):
        if shop.delegation(fqdn) == expected:
            break
        time.sleep(0.05)
    return shop.delegation(fqdn)


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
    assert until_delegation(shop, fqdn, set()) == set()
    answer = shop.call(user, "POST", f"/subdomains/{fqdn}/restore")
    body = answer.json()
    assert (answer.status_code, list(body)) == (
        200,
        ["ok", "subdomain", "provisioning", "charged_credits", "coupon"],
    )
    assert (body["charged_credits"], body["coupon"]) == (0, None)
    assert {**body["subdomain"], "updated_at": None} == {**before, "updated_at": None}
    assert shop.delegation(fqdn) == {NS1}


def test_restore_after_the_expiry_is_a_paid_renewal(shop: RunningService) -> None:
    """Decisions: after the paid time the name is renewed with it, by quote and
    confirm, from the old expiry.
    """
    user = new_user(shop, credit_count=30)
    fqdn = held(shop, user, registration_mode="plus", confirm=True)
    expires_at = instant(get(shop, user, fqdn).json()["subdomain"]["expires_at"])
    shop.clock.advance(days=360)
    shop.believe_clock()
    shop.call(user, "DELETE", f"/subdomains/{fqdn}")
    shop.clock.advance(days=6)
    quoted = shop.call(user, "POST", f"/subdomains/{fqdn}/restore")
    assert (quoted.status_code, quoted.json()["error"]) == (402, "payment_confirmation_required")
    assert (quoted.json()["quote"]["action"], quoted.json()["quote"]["price"]) == ("restore", 10)
    assert get(shop, user, fqdn).status_code == 404
    done = shop.call(user, "POST", f"/subdomains/{fqdn}/restore", {"confirm": True}).json()
    assert done["charged_credits"] == 10
    assert done["subdomain"]["expires_at"] == quoted.json()["quote"]["new_expires_at"]
    assert instant(done["subdomain"]["expires_at"]) - expires_at == timedelta(days=365)
    assert shop.call(user, "GET", "/credits").json()["credit_balance"] == 10


def test_in_the_trash_only_the_former_owner_reads_so(shop: RunningService) -> None:
    """Decisions: GET after DELETE is 404 with in_trash and restorable_until, for the former owner alone."""
    user, other = new_user(shop), new_user(shop)
    fqdn = held(shop, user)
    shop.call(user, "DELETE", f"/subdomains/{fqdn}")
    assert set(get(shop, user, fqdn).json()["details"]) == {"in_trash", "restorable_until"}
    assert get(shop, other, fqdn).json()["details"] == {}
    for who, owned in ((user, True), (other, False)):
        answer = shop.call(who, "POST", "/subdomains", {"fqdn": fqdn})
        assert (answer.status_code, answer.json()["error"]) == (409, "subdomain_unavailable")
        assert answer.json()["details"] == {"reason": "in_trash", "owned": owned}
    for method, path in (("PUT", "/nameservers"), ("POST", "/renew"), ("POST", "/retry"), ("DELETE", "")):
        answer = shop.call(user, method, f"/subdomains/{fqdn}{path}")
        assert (answer.status_code, answer.json()["details"].get("in_trash")) == (404, True), path


def test_nothing_shows_a_name_whose_time_in_the_trash_is_over(shop: RunningService) -> None:
    """Decisions: nothing shown may contradict what the service then does: what can't be restored is not in
    the trash list.
    """
    user = new_user(shop)
    fqdn = held(shop, user)
    shop.call(user, "DELETE", f"/subdomains/{fqdn}")
    shop.clock.advance(days=30, seconds=1)
    restored = shop.call(user, "POST", f"/subdomains/{fqdn}/restore")
    assert (restored.status_code, restored.json()["details"]) == (404, {})
    assert get(shop, user, fqdn).json()["details"] == {}
    assert shop.call(user, "GET", "/subdomains?status=trashed").json()["subdomains"] == []


def test_cooling_off_then_free_for_all(shop: RunningService) -> None:
    """Decisions: after the trash no user can register the label until the cooling-off is over, not even
    its former owner.
    """
    user, other = new_user(shop), new_user(shop)
    fqdn = held(shop, user)
    shop.call(user, "DELETE", f"/subdomains/{fqdn}")
    shop.operator("subdomain", "purge", fqdn)
    for who in (user, other):
        answer = shop.call(who, "POST", "/subdomains", {"fqdn": fqdn})
        assert answer.json()["details"] == {"reason": "cooling_off", "owned": False}
        assert shop.call(who, "POST", f"/subdomains/{fqdn}/restore").json()["error"] == "subdomain_not_found"
    assert until_delegation(shop, fqdn, set()) == set()
    old_id = shop.operator("subdomain", "show", fqdn)["id"]
    for _ in range(50):
        if shop.operator("subdomain", "show", str(old_id))["provisioning_status"] != "pending":
            break
        time.sleep(0.05)
    shop.operator("subdomain", "purge", fqdn, "--release")
    again = shop.register(other, fqdn)["subdomain"]
    assert again["id"] != old_id
    assert get(shop, user, fqdn).json()["error"] == "subdomain_not_found"


def test_taken_tells_whether_it_is_ones_own(shop: RunningService) -> None:
    """Decisions: `details.reason` taken and `details.owned`."""
    user, other = new_user(shop), new_user(shop)
    fqdn = held(shop, user)
    for who, owned in ((user, True), (other, False)):
        answer = shop.call(who, "POST", "/subdomains", {"fqdn": fqdn})
        assert answer.json()["details"] == {"reason": "taken", "owned": owned}


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
    assert until_delegation(shop, fqdn, set()) == set()
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
    assert until_delegation(shop, fqdn, {NS1}) == {NS1}
    assert get(shop, user, fqdn).json()["subdomain"]["renewal_available"] is True


def test_a_suspended_user_may_read_and_open_tickets_and_nothing_else(shop: RunningService) -> None:
    """Decisions, "Tokens"; and no name of his says that it could be renewed."""
    user = new_user(shop, credit_count=10)
    fqdn = held(shop, user)
    ticket = shop.call(user, "POST", "/support/tickets", {"subject": "a", "message": "b"}).json()["ticket"][
        "id"
    ]
    shop.clock.advance(days=330)
    shop.believe_clock()
    shop.operator("user", "suspend", user.email, "--reason", "Unpaid")
    for path in ("/me", "/credits", "/payments", "/platform-domains", "/usage/free-subdomains", "/subdomains",
                 f"/subdomains/{fqdn}", "/support/tickets", f"/support/tickets/{ticket}"):  # fmt: skip
        assert shop.call(user, "GET", path).status_code == 200, path
    assert get(shop, user, fqdn).json()["subdomain"]["renewal_available"] is False
    listed = shop.call(user, "GET", "/subdomains").json()["subdomains"]
    assert [each["renewal_available"] for each in listed] == [False]
    assert shop.call(user, "GET", "/subdomains?renewal_available=true").json()["subdomains"] == []
    for method, path in (("POST", "/subdomains"), ("PUT", f"/subdomains/{fqdn}/nameservers"), ("DELETE", f"/subdomains/{fqdn}"),  # noqa: E501
                         ("POST", f"/subdomains/{fqdn}/renew"), ("POST", f"/subdomains/{fqdn}/retry"),
                         ("POST", f"/subdomains/{fqdn}/restore"), ("POST", f"/support/tickets/{ticket}/reply")):  # fmt: skip  # noqa: E501
        answer = shop.call(user, method, path, {})
        assert (answer.status_code, answer.json()["error"]) == (403, "account_suspended"), path
    assert shop.delegation(fqdn) == {NS1}
    assert (
        shop.call(user, "POST", "/support/tickets", {"subject": "Why?", "message": "Why?"}).status_code == 201
    )
    shop.operator("user", "unsuspend", user.email)
    assert shop.call(user, "POST", f"/subdomains/{fqdn}/renew").status_code == 200
