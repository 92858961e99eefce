"""Spec, part 4, POST /subdomains, and what parts 2, 3 and 7 say of it; one test for each rule."""

import json
from typing import Any

import httpx
import pytest

from support.error_triggers import new_user, unused_name
from support.open_registry import SUBDOMAIN_FIELDS, instant
from support.running_service import DS, Registrant, RunningService

NS1, NS2 = "ns1.provider.example", "ns2.provider.example"


SETTINGS = {"free_quota": 50}


@pytest.fixture(scope="module")
def ada(shop: RunningService) -> Registrant:
    return new_user(shop, credit_count=1000)


def post(shop: RunningService, who: Registrant, **body: Any) -> httpx.Response:
    return shop.call(who, "POST", "/subdomains", body)


def refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    body: dict[str, Any] = answer.json()
    assert (answer.status_code, body["error"]) == (status, code), answer.text
    return body


def domain_id(shop: RunningService, domain: str = "example.test") -> int:
    return int(shop.operator("domain", "show", domain)["id"])


def test_platform_domain_by_platform_domain_id(shop: RunningService, ada: Registrant) -> None:
    """Part 4: platform_domain_id selects the platform domain."""
    answer = post(shop, ada, platform_domain_id=domain_id(shop), label="by-id")
    assert answer.json()["subdomain"]["fqdn"] == "by-id.example.test"


def test_platform_domain_by_domain(shop: RunningService, ada: Registrant) -> None:
    """Part 4: domain selects it, in any form of the name."""
    assert post(shop, ada, domain="example.test", label="by-domain").status_code == 201
    assert post(shop, ada, domain="EXAMPLE.Test.", label="by-domain2").status_code == 201


def test_platform_domain_by_the_domain_part_of_fqdn(shop: RunningService, ada: Registrant) -> None:
    """Part 4: the domain part inside fqdn selects it, and the label is derivable from fqdn."""
    answer = post(shop, ada, fqdn="By-Fqdn.Example.TEST.")
    found = answer.json()["subdomain"]
    assert (found["fqdn"], found["label"], found["domain"]) == (
        "by-fqdn.example.test",
        "by-fqdn",
        "example.test",
    )


def test_all_ways_of_naming_at_once_must_agree(shop: RunningService, ada: Registrant) -> None:
    """Part 4: fqdn may supply both domain and label; what contradicts it is refused."""
    members = {"fqdn": "all.example.test", "label": "ALL", "domain": "example.test"}
    assert post(shop, ada, **members, platform_domain_id=domain_id(shop)).status_code == 201
    for wrong in (
        {"label": "other"},
        {"domain": "strict.test"},
        {"platform_domain_id": domain_id(shop, "strict.test")},
    ):
        body = refused(post(shop, ada, **{**members, **wrong}), 422, "validation_failed")
        assert "fqdn_mismatch" in [error["code"] for error in body["errors"]], wrong


def test_one_of_the_three_is_required(shop: RunningService, ada: Registrant) -> None:
    """Part 4: platform_domain_id, or domain, or a domain part inside fqdn: yes (one of them)."""
    body = refused(post(shop, ada, label="alone"), 422, "validation_failed")
    assert [error["code"] for error in body["errors"]] == ["platform_domain_required"]
    refused(post(shop, ada, fqdn="alone"), 404, "platform_domain_not_found")


def test_label_is_required_unless_derivable(shop: RunningService, ada: Registrant) -> None:
    """Part 4: label is required unless it can be derived from fqdn."""
    for members in ({"domain": "example.test"}, {"fqdn": "example.test"}):
        body = refused(post(shop, ada, **members), 422, "validation_failed")
        assert [error["code"] for error in body["errors"]] == ["label_required"]


def test_success_is_201_with_exactly_these_members(shop: RunningService, ada: Registrant) -> None:
    """Part 4: HTTP 201 with {ok, subdomain, provisioning, charged_credits, coupon}; coupon null when none was
    used.
    """
    answer = post(shop, ada, fqdn=unused_name(), nameservers=["ns1.provider.example"])
    body = answer.json()
    assert answer.status_code == 201
    assert list(body) == ["ok", "subdomain", "provisioning", "charged_credits", "coupon"]
    assert list(body["subdomain"]) == SUBDOMAIN_FIELDS
    assert body["charged_credits"] == 0
    assert body["coupon"] is None


def test_provisioning_shows_the_answer_of_the_name_server(shop: RunningService, ada: Registrant) -> None:
    """Decisions, "Values": provisioning; `active` means that the parent zone's name server answers with it
    now.
    """
    body = post(shop, ada, fqdn=unused_name(), nameservers=["ns1.provider.example"]).json()
    provisioning = body["provisioning"]
    instant(provisioning.pop("published_at"))
    serial = provisioning.pop("serial")
    assert [type(warning) for warning in provisioning.pop("warnings")] == [str]
    assert provisioning == {
        "status": "published", "generation": 1, "published_generation": 1, "attempts": 0, "next_attempt_at": None,  # noqa: E501
        "zone": "example.test", "servers": 1, "servers_current": 1, "error": None,
    }  # fmt: skip
    assert body["subdomain"]["status"] == "active"
    assert shop.delegation(body["subdomain"]["fqdn"]) == {"ns1.provider.example"}
    assert f" {serial} " in shop.dig("example.test", "SOA", "+short")


def test_without_nameservers_it_is_inactive(shop: RunningService, ada: Registrant) -> None:
    """Part 4: nameservers, glue and ds_records are optional."""
    body = post(shop, ada, fqdn=unused_name()).json()
    assert (body["subdomain"]["status"], body["provisioning"]["status"]) == ("inactive", "none")
    assert (body["subdomain"]["nameservers"], body["subdomain"]["ds_records"]) == ([], [])
    assert body["subdomain"]["dnssec_enabled"] is False
    assert shop.delegation(body["subdomain"]["fqdn"]) == set()


def test_ns1_to_ns4_are_the_alternative(shop: RunningService, ada: Registrant) -> None:
    """Part 4: alternatively the separate keys ns1 to ns4; never both (decisions, "Nameservers")."""
    hosts = [f"ns{number}.provider.example" for number in (4, 2, 3, 1)]
    keys = {f"ns{number}": host for number, host in enumerate(hosts, start=1)}
    assert post(shop, ada, fqdn=unused_name(), **keys).json()["subdomain"]["nameservers"] == hosts
    fewer = post(shop, ada, fqdn=unused_name(), ns1=hosts[0], ns2=hosts[1], ns3=None, ns4=None).json()
    assert fewer["subdomain"]["nameservers"] == hosts[:2]
    refused(
        post(shop, ada, fqdn=unused_name(), nameservers=hosts[:1], ns2=hosts[1]), 422, "validation_failed"
    )
    refused(post(shop, ada, fqdn=unused_name(), ns5=hosts[0]), 400, "invalid_request")


NUMBERED: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "the last of four": (
        {"ns1": NS1, "ns2": NS2, "ns3": "ns3.provider.example", "ns4": "a_b.example"},
        {"ns4": "nameserver_invalid"},
    ),
    "a duplicate": ({"ns1": NS1, "ns2": NS2, "ns3": NS1.upper()}, {"ns3": "nameserver_duplicate"}),
    "no glue": ({"ns1": NS1, "ns2": "ns1.{fqdn}"}, {"ns2": "glue_required"}),
    "too many": (
        {"ns1": NS1, "ns2": NS2, "ns3": "a.example", "ns4": "b.example"},
        {"ns1": "too_many_nameservers"},
    ),
}


@pytest.mark.parametrize("case", NUMBERED)
def test_an_error_names_the_key_that_was_sent(shop: RunningService, case: str) -> None:
    """Decisions, "Nameservers": `ns4`, not `nameservers[3]`; for the whole list `ns1`."""
    members, wanted = NUMBERED[case]
    # This platform domain allows three nameservers.
    ada, fqdn = new_user(shop), unused_name("strict.test" if case == "too many" else "example.test")
    shop.register(ada, fqdn)
    sent = json.loads(json.dumps(members).replace("{fqdn}", fqdn))
    answer = shop.call(ada, "PUT", f"/subdomains/{fqdn}/nameservers", sent)
    body = refused(answer, 422, "validation_failed")
    assert {each["field"]: each["code"] for each in body["errors"]} == wanted
    assert body["message"].startswith(next(iter(wanted)))


def test_glue_entries_are_host_and_ipv4(shop: RunningService, ada: Registrant) -> None:
    """Part 4: glue entries {host, ipv4}, for nameservers inside the subdomain; an IPv6 address may stand
    beside or alone.
    """
    fqdn = unused_name()
    glue = [
        {"host": f"ns1.{fqdn}", "ipv4": "8.8.4.4", "ipv6": "2620:FE::9"},
        {"host": f"ns1.{fqdn}", "ipv4": "8.8.8.8"},
        {"host": f"ns2.{fqdn}", "ipv6": "2620:fe::fe"},
    ]
    answer = post(shop, ada, fqdn=fqdn, nameservers=[f"ns1.{fqdn}", f"ns2.{fqdn}"], glue=glue)
    assert answer.json()["subdomain"]["glue"] == [
        {"host": f"ns1.{fqdn}", "ipv4": "8.8.4.4", "ipv6": "2620:fe::9"},
        {"host": f"ns1.{fqdn}", "ipv4": "8.8.8.8", "ipv6": None},
        {"host": f"ns2.{fqdn}", "ipv4": None, "ipv6": "2620:fe::fe"},
    ]
    additional = shop.dig(fqdn, "NS", "+noall", "+additional")
    assert all(address in additional for address in ("8.8.4.4", "8.8.8.8", "2620:fe::9", "2620:fe::fe"))


@pytest.mark.parametrize("owner", ["", "ns1.", "a.b."])
def test_missing_glue_is_rejected(shop: RunningService, ada: Registrant, owner: str) -> None:
    """Part 7, rule 6: a glue address missing for a nameserver inside the own subdomain is rejected."""
    fqdn = unused_name()
    body = refused(post(shop, ada, fqdn=fqdn, nameservers=[f"{owner}{fqdn}"]), 422, "validation_failed")
    assert [error["code"] for error in body["errors"]] == ["glue_required"]


def test_ds_records_in_all_their_forms(shop: RunningService, ada: Registrant) -> None:
    """Decisions, "Values": a DS as an object, as zone-file text, or a DNSKEY, of which the SHA-256 DS is
    kept.
    """
    members = dict(zip(("key_tag", "algorithm", "digest_type"), (2371, 13, 2), strict=True))
    digest = DS.rpartition(" ")[2]
    key = "GojIhhXUN/u4v54ZQqGSnyhWJwaubCvTmeexv7bR6edbkrSqQpF64cYbcB7wNcP+e+MAnLr+Wi9xMWyQLc8NAA=="
    dnskey = {"flags": 257, "protocol": 3, "algorithm": 13, "public_key": key}
    forms: list[tuple[Any, Any]] = [
        (DS, {**members, "digest": digest}),
        ({**members, "digest": digest.upper()}, {**members, "digest": digest}),
    ]
    for given, expected in forms:
        found = post(
            shop, ada, fqdn=unused_name(), nameservers=["ns1.provider.example"], ds_records=[given]
        ).json()
        assert found["subdomain"]["ds_records"] == [expected]
        assert found["subdomain"]["dnssec_enabled"] is True
    fqdn = unused_name()
    both = [dnskey, f"257 3 13 {key}"]  # the same key twice is one record
    found = post(shop, ada, fqdn=fqdn, nameservers=["ns1.provider.example"], ds_records=both).json()[
        "subdomain"
    ]
    assert [
        (each["algorithm"], each["digest_type"], len(each["digest"])) for each in found["ds_records"]
    ] == [(13, 2, 64)]
    assert found["ds_records"][0]["digest"] in shop.dig(fqdn, "DS", "+short").lower().replace(" ", "")


@pytest.mark.parametrize("confirm", [None, True])
def test_mode_admin_is_rejected(shop: RunningService, ada: Registrant, confirm: bool | None) -> None:
    """Part 2 and part 7, rule 8: the admin mode is not available through the API."""
    answer = post(shop, ada, fqdn=unused_name(), registration_mode="admin", confirm=confirm)
    refused(answer, 403, "registration_mode_not_allowed")


def test_quote_then_confirm(shop: RunningService) -> None:
    """Part 3, rule 4 and part 7, rule 2: a quote with price and balance, nothing registered; confirm true
    completes it.
    """
    user = new_user(shop, credit_count=25)
    request = {"fqdn": unused_name(), "registration_mode": "plus", "nameservers": ["ns1.provider.example"]}
    for confirm in ({}, {"confirm": False}, {"confirm": None}):
        body = refused(post(shop, user, **request, **confirm), 402, "payment_confirmation_required")
        instant(body["quote"].pop("new_expires_at"))
        assert body["quote"] == {
            "action": "register", "fqdn": request["fqdn"], "registration_mode": "plus", "period_days": 365,
            "list_price": 10, "discount": 0, "price": 10, "balance": 25, "balance_after": 15, "sufficient": True,  # noqa: E501
            "shortfall": 0, "coupon": None,
        }  # fmt: skip
    assert shop.call(user, "GET", "/subdomains").json()["subdomains"] == []
    assert shop.call(user, "GET", "/credits").json()["credit_balance"] == 25
    answer = post(shop, user, **request, confirm=True)
    body = answer.json()
    assert (answer.status_code, body["charged_credits"], body["coupon"]) == (201, 10, None)
    assert body["subdomain"]["registration_type"] == "plus"
    assert shop.call(user, "GET", "/credits").json()["credit_balance"] == 15


def test_the_quote_shows_an_insufficient_balance(shop: RunningService) -> None:
    """Decisions, "Order of checks": without confirm a quote even where the balance is short; with it
    insufficient_credits.
    """
    user = new_user(shop, credit_count=3)
    request = {"fqdn": unused_name(), "registration_mode": "plus"}
    quoted = refused(post(shop, user, **request), 402, "payment_confirmation_required")
    assert quoted["message"].startswith("The balance of 3 credits is too low: this costs 10 credits")
    assert "Buy credits first" in quoted["message"]
    quote = quoted["quote"]
    assert (quote["sufficient"], quote["shortfall"], quote["balance_after"]) == (False, 7, -7)
    answer = refused(post(shop, user, **request, confirm=True), 402, "insufficient_credits")
    assert answer["message"].startswith("The balance of 3 credits is too low")
    short = answer["quote"]
    assert (short["sufficient"], short["shortfall"]) == (False, 7)
