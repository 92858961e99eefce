"""Spec, parts 1, 2, 5 and 9, and of part 4 "Account and credits"; one test for each rule."""

import re
from typing import Any

import pytest

from sublet.surfaces import API_OPERATIONS
from support.error_triggers import new_user, unused_name
from support.open_registry import SUBDOMAIN_FIELDS, instant
from support.running_service import DS, RunningService

DELEGATED: dict[str, Any] = {"nameservers": ["ns1.provider.example"], "ds_records": [DS]}


ROUTES = [
    ("GET", "/me"), ("GET", "/credits"), ("GET", "/payments"), ("GET", "/platform-domains"),
    ("GET", "/usage/free-subdomains"), ("GET", "/subdomains"), ("POST", "/subdomains"), ("GET", "/subdomains/{fqdn}"),  # noqa: E501
    ("DELETE", "/subdomains/{fqdn}"), ("PUT", "/subdomains/{fqdn}/nameservers"), ("POST", "/subdomains/{fqdn}/retry"),  # noqa: E501
    ("POST", "/subdomains/{fqdn}/renew"), ("GET", "/support/tickets"), ("POST", "/support/tickets"),
    ("GET", "/support/tickets/{id}"), ("POST", "/support/tickets/{id}/reply"),
]  # fmt: skip


def test_part_4_the_service_has_every_route_of_the_spec() -> None:
    assert set(ROUTES) <= {(endpoint.method, endpoint.path) for endpoint in API_OPERATIONS}


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_part_1_rule_1_every_endpoint_requires_the_token(
    shop: RunningService, method: str, path: str
) -> None:
    answer = shop.call(None, method, path.replace("{fqdn}", "a.example.test").replace("{id}", "1"))
    assert (answer.status_code, answer.json()["error"]) == (401, "token_missing")


@pytest.mark.uncovered
@pytest.mark.parametrize(
    ("method", "path"), [*ROUTES, ("GET", "/nothing"), ("PATCH", "/me"), ("TRACE", "/me")]
)
def test_part_1_rule_2_all_responses_are_json(shop: RunningService, method: str, path: str) -> None:
    user = new_user(shop)
    answer = shop.call(user, method, path.replace("{fqdn}", "a.example.test").replace("{id}", "1"))
    assert answer.headers["content-type"] == "application/json"
    assert isinstance(answer.json()["ok"], bool)
    assert answer.json()["ok"] == (answer.status_code < 400)


def test_part_1_rule_3_a_body_needs_its_content_type(shop: RunningService) -> None:
    user = new_user(shop)
    content = b'{"fqdn": "plain.example.test"}'
    for content_type, status in (
        ("application/json", 201),
        ("application/json; charset=utf-8", 409),
        ("text/plain", 415),
    ):
        headers = {"authorization": f"Bearer {user.token}", "content-type": content_type}
        answer = shop.client.post(shop.base_url + "/subdomains", content=content, headers=headers)
        assert answer.status_code == status, answer.text


def test_part_1_rule_4_success_has_ok_true_and_exactly_the_named_members(shop: RunningService) -> None:
    """The members of each answer as part 4 lists them; lists have `page` beside them (decisions, "Lists")."""
    user = new_user(shop)
    fqdn = shop.register(user, unused_name(), **DELEGATED)["subdomain"]["fqdn"]
    number = shop.call(user, "POST", "/support/tickets", {"subject": "a", "message": "b"}).json()["ticket"][
        "id"
    ]
    members = {
        ("GET", "/me"): ["user", "organization", "token"],
        ("GET", "/credits"): ["credit_balance", "packages"],
        ("GET", "/payments"): ["payments", "page"],
        ("GET", "/platform-domains"): ["platform_domains", "page"],
        ("GET", "/usage/free-subdomains"): ["usage"],
        ("GET", "/subdomains"): ["subdomains", "page"],
        ("GET", f"/subdomains/{fqdn}"): ["subdomain"],
        ("PUT", f"/subdomains/{fqdn}/nameservers"): ["subdomain", "provisioning"],
        ("GET", "/support/tickets"): ["tickets", "page"],
        ("GET", f"/support/tickets/{number}"): ["ticket"],
        ("DELETE", f"/subdomains/{fqdn}"): ["deleted"],
    }
    for (method, path), names in members.items():
        answer = shop.call(user, method, path)
        assert (answer.status_code, list(answer.json())) == (200, ["ok", *names]), path
        assert answer.json()["ok"] is True


def test_part_1_rule_4_no_success_is_without_a_named_member() -> None:
    for operation in API_OPERATIONS:
        assert len(operation.answer.__struct_fields__) > 1, (operation.method, operation.path)


def test_part_1_rule_5_hidden_and_not_enabled_platform_domains_are_omitted(shop: RunningService) -> None:
    user, other = new_user(shop), new_user(shop)
    for domain in ("rule5a.test", "rule5b.test", "rule5c.test"):
        shop.add_domain(domain)
    held = shop.register(user, "kept.rule5a.test", **DELEGATED)["subdomain"]
    shop.operator("domain", "edit", "rule5a.test", "--hidden")
    shop.operator("domain", "edit", "rule5b.test", "--restricted")
    shop.operator("domain", "grant", "rule5b.test", "--organization", other.organization["slug"])

    def listed(who: Any) -> set[str]:
        found = shop.call(who, "GET", "/platform-domains").json()["platform_domains"]
        return {each["domain"] for each in found if each["domain"].startswith("rule5")}

    assert (listed(user), listed(other)) == ({"rule5c.test"}, {"rule5b.test", "rule5c.test"})
    for domain in ("rule5a.test", "rule5b.test"):
        answer = shop.call(user, "POST", "/subdomains", {"label": "new", "domain": domain})
        assert (answer.status_code, answer.json()["error"]) == (404, "platform_domain_not_found")
    assert shop.register(other, "new.rule5b.test")["charged_credits"] == 0
    # Names already held stay visible, changeable and renewable for their owners.
    path = f"/subdomains/{held['fqdn']}"
    assert shop.call(user, "GET", path).json()["subdomain"] == held
    changed = shop.call(user, "PUT", path + "/nameservers", {"nameservers": ["ns9.provider.example"]}).json()
    assert changed["subdomain"]["status"] == "active"
    assert shop.delegation(held["fqdn"]) == {"ns9.provider.example"}
    shop.clock.advance(days=330)
    assert shop.call(user, "POST", path + "/renew").status_code == 200
    assert shop.call(user, "DELETE", path).status_code == 200
    assert shop.call(user, "POST", path + "/restore").status_code == 200


def test_part_2_account_resources(shop: RunningService) -> None:
    """GET /me, /credits, /platform-domains and /usage: fields and types (decisions, "Values")."""
    user = new_user(shop, credit_count=7)
    shop.operator("package", "add", "Ten", "--credits", "10", "--price", "9.90", "--currency", "EUR")
    me = shop.call(user, "GET", "/me").json()
    assert list(me["user"]) == ["id", "email", "name", "reminders", "created_at"]
    assert (me["user"]["id"], me["user"]["email"]) == (user.id, user.email)
    assert list(me["organization"]) == ["id", "name", "slug", "created_at"]
    assert me["organization"]["id"] == user.organization["id"]
    assert instant(me["user"]["created_at"]).tzinfo is not None
    credit = shop.call(user, "GET", "/credits").json()
    assert credit["credit_balance"] == 7
    package = credit["packages"][-1]
    assert list(package) == ["id", "name", "credits", "price", "currency"]
    assert (package["name"], package["credits"], package["price"], package["currency"]) == (
        "Ten",
        10,
        "9.90",
        "EUR",
    )
    domain = next(
        each
        for each in shop.call(user, "GET", "/platform-domains").json()["platform_domains"]
        if each["domain"] == "strict.test"
    )
    modes = domain.pop("modes")
    assert isinstance(domain.pop("id"), int)
    assert domain == {
        "domain": "strict.test", "public_name": "Strict.Test", "description": "", "registration_open": True, "idn": True,  # noqa: E501
        "dnssec_signed": False, "nameservers_min": 2, "nameservers_max": 3, "label_length_min": 4, "record_types": [],  # noqa: E501
        "renewal_window_days": 60, "grace_days": 30, "trash_days": 30,
    }  # fmt: skip
    assert modes == [
        {"mode": "free", "price_credits": 0, "renewal_price_credits": 0, "period_days": 365},
        {"mode": "plus", "price_credits": 10, "renewal_price_credits": 10, "period_days": 365},
    ]
    usage = shop.call(user, "GET", "/usage/free-subdomains").json()["usage"]
    assert usage == {"used": 0, "limit": 5, "remaining": 5}


def test_part_2_subdomain_object_has_exactly_the_twenty_fields(shop: RunningService) -> None:
    user = new_user(shop)
    fqdn = unused_name()
    members = {
        "nameservers": ["ns1.provider.example", f"ns1.{fqdn}"],
        "glue": [{"host": f"ns1.{fqdn}", "ipv4": "8.8.4.4"}],
        "ds_records": [DS],
    }
    registered = shop.register(user, fqdn, **members)["subdomain"]
    shown = shop.call(user, "GET", f"/subdomains/{fqdn}").json()["subdomain"]
    listed = shop.call(user, "GET", "/subdomains").json()["subdomains"][0]
    put = shop.call(user, "PUT", f"/subdomains/{fqdn}/nameservers", {}).json()["subdomain"]
    assert registered == shown == listed == put
    assert list(shown) == SUBDOMAIN_FIELDS
    label, _, domain = fqdn.partition(".")
    for name in ("registered_at", "expires_at", "created_at", "updated_at"):
        instant(shown.pop(name))
    assert shown == {
        "id": registered["id"], "fqdn": fqdn, "label": label, "domain": domain, "domain_public_name": "Example.Test",  # noqa: E501
        "status": "active", "status_label": "Active", "registration_type": "free", "registration_source": "api",  # noqa: E501
        "nameservers": members["nameservers"],
        "glue": [{"host": f"ns1.{fqdn}", "ipv4": "8.8.4.4", "ipv6": None}],
        "dnssec_enabled": True,
        "ds_records": [{"key_tag": 2371, "algorithm": 13, "digest_type": 2, "digest": DS.rpartition(" ")[2]}],
        "provision_error": None, "last_renewed_at": None, "renewal_available": False,
    }  # fmt: skip
    assert type(registered["id"]) is int


def test_part_4_the_id_or_the_name_in_any_form_is_taken_in_paths(shop: RunningService) -> None:
    """Any case, with or without the final dot, U-label or A-label (decisions, "Values")."""
    user = new_user(shop)
    registered = shop.register(user, "bücher.example.test")["subdomain"]
    assert registered["fqdn"] == "xn--bcher-kva.example.test"
    forms = [
        "xn--bcher-kva.example.test",
        "XN--BCHER-KVA.Example.TEST",
        "xn--bcher-kva.example.test.",
        "bücher.example.test",
    ]
    for form in [*forms, "BÜCHER.EXAMPLE.TEST.", "bu\u0308cher.example.test", str(registered["id"])]:
        answer = shop.call(user, "GET", f"/subdomains/{form}")
        assert answer.status_code == 200, form
        assert answer.json()["subdomain"]["id"] == registered["id"]
    assert shop.call(user, "PUT", f"/subdomains/{registered['id']}/nameservers", {}).status_code == 200
    assert shop.call(user, "DELETE", f"/subdomains/{registered['id']}").json()["deleted"] == {
        "id": registered["id"],
        "fqdn": registered["fqdn"],
    }


def test_part_5_rule_2_and_3_the_token_alone_identifies_user_and_organization(shop: RunningService) -> None:
    one, two = new_user(shop), new_user(shop)
    for user in (one, two):
        me = shop.call(user, "GET", "/me").json()
        assert (me["user"]["email"], me["organization"]["id"]) == (user.email, user.organization["id"])
    answer = shop.client.get(shop.base_url + "/me", headers={"authorization": f"bearer {one.token}"})
    assert answer.json()["user"]["id"] == one.id


@pytest.mark.uncovered
def test_part_9_all_endpoints_live_under_one_base_path(shop: RunningService) -> None:
    user = new_user(shop)
    assert shop.base_url.endswith("/api/v1")
    for path in ("/../../me", "/../me"):
        url = re.sub(r"/api/v1$", "", shop.base_url) + path.removeprefix("/../..").removeprefix("/..")
        assert shop.client.get(url, headers={"authorization": f"Bearer {user.token}"}).status_code == 404
    assert shop.call(user, "GET", "/me/").status_code == 404
