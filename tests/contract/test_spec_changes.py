"""Spec, part 4: DELETE, PUT nameservers, retry and renew, with what parts 3 and 7 say of them; one test for
each rule.
"""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from support.error_triggers import new_user, unused_name
from support.open_registry import SUBDOMAIN_FIELDS, instant
from support.publisher_outage import service_with_outage
from support.running_service import DS, Registrant, RunningService
from support.waiting import wait_until

NS1, NS2, NS3 = (f"ns{number}.provider.example" for number in (1, 2, 3))


SETTINGS = {"free_quota": 50}


@pytest.fixture(scope="module")
def ada(shop: RunningService) -> Registrant:
    return new_user(shop, credit_count=1000)


def put(shop: RunningService, who: Registrant, fqdn: str, body: Any) -> httpx.Response:
    return shop.call(who, "PUT", f"/subdomains/{fqdn}/nameservers", body)


def code_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]


def delegated(shop: RunningService, who: Registrant) -> dict[str, Any]:
    """A name with a nameserver outside, one inside with glue, and a DS record."""
    fqdn = unused_name()
    glue = [{"host": f"ns1.{fqdn}", "ipv4": "8.8.4.4"}]
    members = {"nameservers": [NS1, f"ns1.{fqdn}"], "glue": glue, "ds_records": [DS]}
    return dict(shop.register(who, fqdn, **members)["subdomain"])


# DELETE


def test_delete_moves_to_the_trash(shop: RunningService, ada: Registrant) -> None:
    """Part 3, rule 1 and part 4: {ok, deleted: {id, fqdn}}; it leaves account, list and DNS."""
    found = delegated(shop, ada)
    answer = shop.call(ada, "DELETE", f"/subdomains/{found['fqdn']}")
    assert answer.json() == {"ok": True, "deleted": {"id": found["id"], "fqdn": found["fqdn"]}}
    gone = shop.call(ada, "GET", f"/subdomains/{found['fqdn']}")
    assert code_of(gone) == (404, "subdomain_not_found")
    until = instant(gone.json()["details"]["restorable_until"])
    assert gone.json()["details"]["in_trash"] is True
    assert timedelta(days=29, hours=23) < until - shop.clock() <= timedelta(days=30)
    listed = shop.call(ada, "GET", "/subdomains").json()["subdomains"]
    assert found["fqdn"] not in [each["fqdn"] for each in listed]
    wait_until(lambda: shop.delegation(found["fqdn"]) == set())
    assert code_of(shop.call(ada, "DELETE", f"/subdomains/{found['fqdn']}")) == (404, "subdomain_not_found")


# PUT nameservers


def test_put_answers_subdomain_and_provisioning(shop: RunningService, ada: Registrant) -> None:
    """Part 4: PUT updates nameservers, glue and DS records; returns {ok, subdomain, provisioning}."""
    fqdn = shop.register(ada, unused_name())["subdomain"]["fqdn"]
    glue = [{"host": f"ns1.{fqdn}", "ipv4": "8.8.4.4"}]
    answer = put(shop, ada, fqdn, {"nameservers": [NS2, f"ns1.{fqdn}"], "glue": glue, "ds_records": [DS]})
    body = answer.json()
    assert (answer.status_code, list(body)) == (200, ["ok", "subdomain", "provisioning"])
    assert list(body["subdomain"]) == SUBDOMAIN_FIELDS
    assert (body["subdomain"]["status"], body["provisioning"]["status"]) == ("active", "published")
    assert shop.delegation(fqdn) == {NS2, f"ns1.{fqdn}"}


def test_put_an_omitted_member_keeps_its_value(shop: RunningService, ada: Registrant) -> None:
    """Decisions, "Subdomain states": an omitted member keeps, but glue of hosts that are no nameservers any
    more goes.
    """
    found = delegated(shop, ada)
    kept = put(shop, ada, found["fqdn"], {}).json()["subdomain"]
    assert kept == found
    order = [f"ns1.{found['fqdn']}", NS1]
    changed = put(shop, ada, found["fqdn"], {"nameservers": order}).json()["subdomain"]
    assert (changed["nameservers"], changed["glue"], changed["ds_records"]) == (
        order,
        found["glue"],
        found["ds_records"],
    )
    pruned = put(shop, ada, found["fqdn"], {"nameservers": [NS1]}).json()["subdomain"]
    assert (pruned["glue"], pruned["ds_records"]) == ([], found["ds_records"])
    assert put(shop, ada, found["fqdn"], {"ds_records": []}).json()["subdomain"]["nameservers"] == [NS1]


@pytest.mark.parametrize("empty", [[], None], ids=["empty list", "null"])
def test_put_an_empty_list_or_null_clears(shop: RunningService, ada: Registrant, empty: Any) -> None:
    """Decisions, "Subdomain states": `[]` or null clears it."""
    found = delegated(shop, ada)
    fqdn = found["fqdn"]
    unsigned = put(shop, ada, fqdn, {"ds_records": empty}).json()["subdomain"]
    assert (unsigned["ds_records"], unsigned["dnssec_enabled"], unsigned["glue"]) == (
        [],
        False,
        found["glue"],
    )
    answer = put(shop, ada, fqdn, {"glue": empty})
    assert [error["code"] for error in answer.json()["errors"]] == ["glue_required"]
    cleared = put(shop, ada, fqdn, {"nameservers": empty}).json()["subdomain"]
    assert (cleared["nameservers"], cleared["glue"], cleared["status"]) == ([], [], "inactive")
    assert shop.delegation(fqdn) == set()
    signed = delegated(shop, ada)["fqdn"]
    refused = put(shop, ada, signed, {"nameservers": empty})
    assert [error["code"] for error in refused.json()["errors"]] == ["ds_without_nameservers"]


def test_put_requires_public_glue_of_either_family(shop: RunningService, ada: Registrant) -> None:
    """Part 4: a nameserver inside the own subdomain needs a public IPv4 or IPv6 glue
    address; part 7, rule 6.
    """
    fqdn = shop.register(ada, unused_name())["subdomain"]["fqdn"]
    host = f"ns1.{fqdn}"

    def codes(glue: Any) -> list[str]:
        answer = put(shop, ada, fqdn, {"nameservers": [NS1, host], "glue": glue})
        return [error["code"] for error in answer.json().get("errors", [])]

    assert codes([]) == ["glue_required"]
    assert "glue_not_public" in codes([{"host": host, "ipv4": "10.0.0.1"}])
    assert "glue_not_public" in codes([{"host": host, "ipv6": "2001:db8::1"}])
    assert codes([{"host": host, "ipv6": "2620:fe::fe"}]) == []
    assert codes([{"host": host, "ipv4": "8.8.8.8"}]) == []


def test_put_a_refusal_changes_nothing(shop: RunningService, ada: Registrant) -> None:
    """Part 1: what is refused is not half done."""
    found = delegated(shop, ada)
    assert put(shop, ada, found["fqdn"], {"nameservers": [NS2], "ds_records": ["1 2 3 4"]}).status_code == 422
    assert shop.call(ada, "GET", f"/subdomains/{found['fqdn']}").json()["subdomain"] == found
    assert shop.delegation(found["fqdn"]) == set(found["nameservers"])


# Retry


def test_retry_requires_nameserver_1(shop: RunningService, ada: Registrant) -> None:
    """Part 3, rule 2, part 4 and part 7, rule 7: a retry without nameserver 1 set is rejected, before all
    else.
    """
    fqdn = shop.register(ada, unused_name())["subdomain"]["fqdn"]
    assert code_of(shop.call(ada, "POST", f"/subdomains/{fqdn}/retry")) == (409, "nameserver_required")


def test_retry_is_only_possible_after_a_failure(registry_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Part 3, rule 2: only after a provisioning failure; the answer is that of the nameserver update."""
    with service_with_outage(registry_url, monkeypatch, publish_wait_ms=20_000) as outage:
        shop = outage.service
        ada = shop.add_user()
        fqdn = shop.register(ada, unused_name())["subdomain"]["fqdn"]
        outage.server.nsupdate([f"add {fqdn}. 300 TXT hand"])
        failed = put(shop, ada, fqdn, {"nameservers": [NS1]}).json()
        assert (failed["subdomain"]["status"], failed["provisioning"]["status"]) == ("failed", "failed")
        assert isinstance(failed["subdomain"]["provision_error"], str)
        assert failed["provisioning"]["error"] == failed["subdomain"]["provision_error"]
        outage.server.nsupdate([f"delete {fqdn}. TXT"])
        answer = shop.call(ada, "POST", f"/subdomains/{fqdn}/retry")
        body = answer.json()
        if answer.status_code == 409:  # its own back-off was faster
            body = shop.call(ada, "GET", f"/subdomains/{fqdn}").json()
        else:
            assert (answer.status_code, list(body)) == (200, ["ok", "subdomain", "provisioning"])
            assert body["provisioning"]["status"] == "published"
        assert (body["subdomain"]["status"], body["subdomain"]["provision_error"]) == ("active", None)
        assert outage.on.records() == {(fqdn, "NS", f"{NS1}.")}
        assert code_of(shop.call(ada, "POST", f"/subdomains/{fqdn}/retry")) == (409, "retry_not_available")
        wait_until(lambda: shop.doctor() == [])


def test_retry_takes_no_members(shop: RunningService, ada: Registrant) -> None:
    """Part 4: no body fields are stated; none, an empty object and no body at all are the same."""
    fqdn = shop.register(ada, unused_name(), nameservers=[NS1])["subdomain"]["fqdn"]
    for body, expected in (
        (None, "retry_not_available"),
        ({}, "retry_not_available"),
        ({"ns1": NS1}, "invalid_request"),
    ):
        assert shop.call(ada, "POST", f"/subdomains/{fqdn}/retry", body).json()["error"] == expected


# Renew


def test_renewal_is_refused_before_its_window(shop: RunningService, ada: Registrant) -> None:
    """Part 2: renewal_available is a boolean, true exactly when POST renew works; `details.opens_at` says
    from when.
    """
    found = shop.register(ada, unused_name())["subdomain"]
    answer = shop.call(ada, "POST", f"/subdomains/{found['fqdn']}/renew")
    assert (code_of(answer), found["renewal_available"]) == ((409, "renewal_not_available"), False)
    assert instant(found["expires_at"]) - instant(answer.json()["details"]["opens_at"]) == timedelta(days=60)


def test_free_renewal(shop: RunningService) -> None:
    """Part 4: {ok, subdomain, renewal}; renewal has expires_at, renewal_available,
    charged_credits, coupon.
    """
    user = new_user(shop)
    found = shop.register(user, unused_name())["subdomain"]
    shop.clock.advance(days=306)
    shop.believe_clock()
    path = f"/subdomains/{found['fqdn']}"
    assert shop.call(user, "GET", path).json()["subdomain"]["renewal_available"] is True
    answer = shop.call(user, "POST", path + "/renew")
    body = answer.json()
    assert (answer.status_code, list(body)) == (200, ["ok", "subdomain", "renewal"])
    assert list(body["renewal"]) == ["expires_at", "renewal_available", "charged_credits", "coupon"]
    renewed = body["subdomain"]
    assert list(renewed) == SUBDOMAIN_FIELDS
    assert body["renewal"] == {
        "expires_at": renewed["expires_at"], "renewal_available": False, "charged_credits": 0, "coupon": None,
    }  # fmt: skip
    # From the old expiry, whatever the day (decisions, "Subdomain states").
    assert instant(renewed["expires_at"]) - instant(found["expires_at"]) == timedelta(days=365)
    assert instant(renewed["last_renewed_at"]) > instant(found["registered_at"])
    assert renewed["registered_at"] == found["registered_at"]
    assert code_of(shop.call(user, "POST", path + "/renew")) == (409, "renewal_not_available")


def test_paid_renewal_is_quoted_then_confirmed(shop: RunningService) -> None:
    """Part 3, rule 4, part 4 and part 7, rule 2: the same quote-then-confirm pattern as registration."""
    user = new_user(shop, credit_count=25)
    found = shop.register(user, unused_name(), registration_mode="plus", confirm=True)["subdomain"]
    shop.clock.advance(days=306)
    shop.believe_clock()
    path = f"/subdomains/{found['fqdn']}"
    quoted = shop.call(user, "POST", path + "/renew", {})
    assert code_of(quoted) == (402, "payment_confirmation_required")
    quote = quoted.json()["quote"]
    assert (quote["action"], quote["price"], quote["balance"], quote["balance_after"]) == ("renew", 10, 15, 5)
    assert shop.call(user, "GET", path).json()["subdomain"]["expires_at"] == found["expires_at"]
    assert shop.call(user, "GET", "/credits").json()["credit_balance"] == 15
    done = shop.call(user, "POST", path + "/renew", {"confirm": True}).json()
    assert (done["renewal"]["charged_credits"], done["renewal"]["coupon"]) == (10, None)
    assert done["subdomain"]["expires_at"] == quote["new_expires_at"]
    assert shop.call(user, "GET", "/credits").json()["credit_balance"] == 5


def test_renewal_takes_a_coupon_code(shop: RunningService) -> None:
    """Part 4: optional fields confirm and coupon_code; the coupon is shown in `renewal`."""
    user = new_user(shop, credit_count=25)
    shop.operator("coupon", "add", "RENEW30", "--percent", "35", "--action", "renew")
    found = shop.register(user, unused_name(), registration_mode="plus", confirm=True)["subdomain"]
    shop.clock.advance(days=306)
    shop.believe_clock()
    body = {"confirm": True, "coupon_code": "renew30"}
    done = shop.call(user, "POST", f"/subdomains/{found['fqdn']}/renew", body).json()
    assert done["renewal"]["charged_credits"] == 7  # floor(10 x 35 / 100) = 3 off
    assert done["renewal"]["coupon"] == {
        "code": "RENEW30",
        "kind": "percent",
        "value": 35,
        "discount_credits": 3,
    }
