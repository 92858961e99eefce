"""Decisions, "Base, envelope, errors" and "Values": what is refused of a request, lists and their pages,
`Idempotency-Key`.
"""

import re
from typing import Any

import pytest

from sublet.audit import Actor
from sublet.credits.model import Payable
from sublet.db import Tx
from sublet.subdomains.api import FETCHED_AT_ONCE
from sublet.subdomains.model import Register
from sublet.subdomains.register import register
from support.error_triggers import new_user, unused_name
from support.running_service import DS, Registrant, RunningService

NS1 = "ns1.provider.example"


SETTINGS = {"free_quota": 50}


@pytest.fixture(scope="module")
def ada(shop: RunningService) -> Registrant:
    return new_user(shop, credit_count=1000)


# Requests


def test_unknown_query_parameters_are_refused_everywhere(shop: RunningService, ada: Registrant) -> None:
    for method, path in (
        ("GET", "/me"),
        ("GET", "/subdomains"),
        ("POST", "/subdomains"),
        ("GET", "/payments"),
    ):
        answer = shop.call(ada, method, path + "?stat=1")
        assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, "unknown_field"), path
    assert (
        shop.call(ada, "GET", "/subdomains?limit=1&limit=1").json()["errors"][0]["code"] == "duplicate_field"
    )


def test_the_order_of_checks(shop: RunningService) -> None:
    """Decisions: route, method, token, scope, 415, 413, 400, 404, state, 422, 409
    unavailable, quota, price.
    """
    user = new_user(shop, free_quota="0")
    reader = shop.issue_token(user.email, "subdomains:read")
    held = shop.register(new_user(shop), unused_name())["subdomain"]["fqdn"]
    big = b'{"x": "' + b"x" * 70_000 + b'"}'

    def code(
        token: str | None, method: str, path: str, content: bytes, content_type: str = "application/json"
    ) -> str:
        headers = {"content-type": content_type} | ({"authorization": f"Bearer {token}"} if token else {})
        answer = shop.client.request(method, shop.base_url + path, content=content, headers=headers)
        return str(answer.json()["error"])

    free = b', "registration_mode": "free"'
    steps = [
        (None, "PATCH", "/nothing", big, "text/plain", "not_found"),
        (None, "PATCH", "/subdomains", big, "text/plain", "method_not_allowed"),
        (None, "POST", "/subdomains", big, "text/plain", "token_missing"),
        (reader, "POST", "/subdomains", big, "text/plain", "insufficient_scope"),
        (user.token, "POST", "/subdomains", big, "text/plain", "unsupported_media_type"),
        (user.token, "POST", "/subdomains", big, "application/json", "payload_too_large"),
        (user.token, "POST", "/subdomains", b'{"domain": "no.test", "a": 1}', "application/json", "invalid_request"),  # noqa: E501
        (user.token, "POST", "/subdomains", b'{"fqdn": "-.no.test"}', "application/json", "platform_domain_not_found"),  # noqa: E501
        (user.token, "POST", "/subdomains", b'{"fqdn": "-.closed.test"}', "application/json", "registration_closed"),  # noqa: E501
        (user.token, "POST", "/subdomains", b'{"fqdn": "-.example.test"}', "application/json", "validation_failed"),  # noqa: E501
        (user.token, "POST", "/subdomains", f'{{"fqdn": "{held}"'.encode() + free + b"}", "application/json", "subdomain_unavailable"),  # noqa: E501
        (user.token, "POST", "/subdomains", f'{{"fqdn": "{unused_name()}"'.encode() + free + b"}", "application/json", "free_quota_exceeded"),  # noqa: E501
        (user.token, "POST", "/subdomains", f'{{"fqdn": "{unused_name()}"}}'.encode(), "application/json", "payment_confirmation_required"),  # noqa: E501
    ]  # fmt: skip
    for token, method, path, content, content_type, expected in steps:
        assert code(token, method, path, content, content_type) == expected


# Lists


def walk(shop: RunningService, who: Registrant, path: str, member: str) -> list[dict[str, Any]]:
    """Follow the `Link` headers from page to page; they must agree with `page`."""
    found: list[dict[str, Any]] = []
    for _ in range(50):
        answer = shop.call(who, "GET", path)
        body = answer.json()
        found += body[member]
        page = body["page"]
        assert list(page) == ["limit", "next_cursor", "has_more"]
        assert page["has_more"] == (page["next_cursor"] is not None) == ("link" in answer.headers)
        if not page["has_more"]:
            return found
        assert len(body[member]) == page["limit"]
        link = re.fullmatch(r'<(/api/v1[^>]+)>; rel="next"', answer.headers["link"])
        assert link
        assert f"cursor={page['next_cursor']}" in link[1]
        path = link[1].removeprefix("/api/v1")
    raise AssertionError("the pages have no end")


def test_pages_of_every_list_without_gap_or_duplicate(shop: RunningService) -> None:
    """Decisions, "Lists": limit and cursor; `page` and a `Link` header; newest first, filters kept from page
    to page.
    """
    user = new_user(shop, credit_count=1, free_quota="20")
    names = [shop.register(user, unused_name())["subdomain"]["fqdn"] for _ in range(7)]
    shop.register(user, unused_name(), nameservers=[NS1])
    for number in range(4):
        shop.operator(
            "credits", "grant", user.email, "--credits", str(number + 1), "--reason", f"No. {number}"
        )
        body = {"subject": str(number), "message": "x", "type": "abuse" if number % 2 else "contact"}
        assert shop.call(user, "POST", "/support/tickets", body).status_code == 201
    found = walk(shop, user, "/subdomains?limit=3&status=inactive", "subdomains")
    assert [each["fqdn"] for each in found] == names[::-1]
    assert len(walk(shop, user, "/subdomains?limit=8", "subdomains")) == 8
    assert [each["subject"] for each in walk(shop, user, "/support/tickets?limit=1", "tickets")] == [
        "3",
        "2",
        "1",
        "0",
    ]
    abuse = walk(shop, user, "/support/tickets?limit=1&type=abuse", "tickets")
    assert [each["subject"] for each in abuse] == ["3", "1"]
    assert [each["credits"] for each in walk(shop, user, "/payments?limit=2", "payments")] == [4, 3, 2, 1, 1]
    domains = walk(shop, user, "/platform-domains?limit=1", "platform_domains")
    assert [each["domain"] for each in domains] == [
        "records.test",
        "checked.test",
        "closed.test",
        "strict.test",
        "example.test",
    ]


def test_pages_are_stable_while_items_are_added_and_removed(shop: RunningService) -> None:
    user = new_user(shop)
    names = [shop.register(user, unused_name())["subdomain"]["fqdn"] for _ in range(4)]
    first = shop.call(user, "GET", "/subdomains?limit=2").json()
    shop.register(user, unused_name())
    shop.call(user, "DELETE", f"/subdomains/{names[2]}")  # the one at which the page ended
    rest = shop.call(user, "GET", f"/subdomains?cursor={first['page']['next_cursor']}").json()["subdomains"]
    assert [each["fqdn"] for each in rest] == [names[1], names[0]]


def test_a_long_page_has_each_name_once(shop: RunningService) -> None:
    """The names of a long page are read in several parts."""
    user = new_user(shop, free_quota="400")
    fqdns = [unused_name() for _ in range(2 * FETCHED_AT_ONCE + 1)]

    def register_all(tx: Tx) -> None:
        for each in fqdns:
            command = Register(fqdn=each, payable=Payable())
            register(tx, Actor(kind="user", user_id=user.id), command, free_quota=400)

    shop.write(register_all)
    for limit in (FETCHED_AT_ONCE - 1, FETCHED_AT_ONCE, 2 * FETCHED_AT_ONCE, 500):
        listed = walk(shop, user, f"/subdomains?limit={limit}", "subdomains")
        assert [each["fqdn"] for each in listed] == fqdns[::-1]


def test_the_bounds_of_limit_and_cursor(shop: RunningService, ada: Registrant) -> None:
    """Decisions, "Lists": limit 100, at most 500; a cursor of another list is refused."""
    assert shop.call(ada, "GET", "/subdomains").json()["page"]["limit"] == 100
    assert shop.call(ada, "GET", "/subdomains?limit=500").json()["page"]["limit"] == 500
    for bad in ("0", "501", "-1", "1.0", "%2B1", "", "\u0661"):
        assert shop.call(ada, "GET", f"/subdomains?limit={bad}").json()["error"] == "invalid_request", bad
    cursor = shop.call(ada, "GET", "/platform-domains?limit=1").json()["page"]["next_cursor"]
    for path in (
        f"/subdomains?cursor={cursor}",
        "/payments?cursor=%21",
        f"/platform-domains?cursor={cursor[:-1]}",
    ):
        answer = shop.call(ada, "GET", path)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_cursor")


def test_every_filter_of_the_list_of_subdomains(shop: RunningService) -> None:
    """Decisions, "Lists": status, domain, q, registration_type, expires_before/after, dnssec_enabled,
    renewal_available.
    """
    user = new_user(shop, credit_count=10, free_quota="9")
    shop.add_domain("brief.test")
    shop.operator("domain", "offer", "brief.test", "--mode", "free", "--period-days", "30")
    shop.operator("domain", "edit", "brief.test", "--renewal-window-days", "1")
    prefix = unused_name().partition(".")[0]
    names = {key: f"{prefix}-{key}.example.test" for key in ("plus", "plain", "gone", "held")}
    names["brief"] = f"{prefix}-brief.brief.test"
    made = {
        "plus": shop.register(
            user, names["plus"], registration_mode="plus", confirm=True, ns1=NS1, ds_records=[DS]
        ),
        "plain": shop.register(user, names["plain"]),
        "gone": shop.register(user, names["gone"]),
        "held": shop.register(user, names["held"], ns1=NS1),
        "brief": shop.register(user, names["brief"], ns1=NS1),
    }
    shop.call(user, "DELETE", f"/subdomains/{names['gone']}")
    shop.operator("subdomain", "suspend", names["held"])
    expiry = made["brief"]["subdomain"]["expires_at"]
    everything = {"brief", "held", "plain", "plus"}
    expected = {
        "": everything, "status=active": {"brief", "plus"}, "status=inactive": {"plain"}, "status=suspended": {"held"},  # noqa: E501
        "status=trashed": {"gone"}, "status=failed": set(), "status=expired": set(), "status=provisioning": set(),  # noqa: E501
        "domain=brief.test": {"brief"}, "domain=BRIEF.test.": {"brief"}, "domain=strict.test": set(),
        f"q={prefix}-pl": {"plain", "plus"}, f"q={prefix.upper()}-PLAIN": {"plain"}, "q=%25": set(), "q=_": set(),  # noqa: E501
        "registration_type=plus": {"plus"}, "registration_type=free": everything - {"plus"},
        f"expires_before={expiry}": set(), f"expires_after={expiry}": everything - {"brief"},
        "expires_before=2100-01-01T00:00:00%2B02:00": everything, "dnssec_enabled=true": {"plus"},
        "dnssec_enabled=false": everything - {"plus"}, "renewal_available=true": set(),
        "renewal_available=false": everything, "status=active&dnssec_enabled=true&domain=example.test": {"plus"},  # noqa: E501
    }  # fmt: skip

    def filtered(query: str) -> set[str]:
        found = shop.call(user, "GET", f"/subdomains?{query}").json()["subdomains"]
        return {each["fqdn"].partition(".")[0].removeprefix(f"{prefix}-") for each in found}

    assert {query: filtered(query) for query in expected} == expected
    shop.clock.advance(days=29, hours=1)
    assert filtered("renewal_available=true") == {"brief"}
    shop.clock.advance(days=1)
    assert filtered("status=expired") == {"brief"}
    for wrong in ("status=live", "registration_type=admin", "expires_before=today", "expires_after=2026-01-01T00:00:00",  # noqa: E501
                  "dnssec_enabled=1", "renewal_available=", "page=2"):  # fmt: skip
        assert shop.call(user, "GET", f"/subdomains?{wrong}").status_code == 400, wrong


# Idempotency-Key


def test_a_replay_gets_the_same_answer_and_has_no_effect(shop: RunningService) -> None:
    """Decisions: the same status, ids, charge and coupon, `Idempotent-Replayed: true`, the object rendered as
    it is now.
    """
    user = new_user(shop, credit_count=30)
    shop.operator("coupon", "add", "REPLAY", "--percent", "50")
    body = {
        "fqdn": unused_name(),
        "registration_mode": "plus",
        "confirm": True,
        "coupon_code": "REPLAY",
        "ns1": NS1,
    }
    first = shop.call(user, "POST", "/subdomains", body, idempotency_key="k1")
    changed = shop.call(
        user, "PUT", f"/subdomains/{body['fqdn']}/nameservers", {"ns1": "ns2.provider.example"}
    )
    again = shop.call(user, "POST", "/subdomains", dict(reversed(body.items())), idempotency_key="k1")
    assert (first.status_code, again.status_code) == (201, 201)
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    for member in ("charged_credits", "coupon"):
        assert first.json()[member] == again.json()[member]
    assert first.json()["charged_credits"] == 5
    assert again.json()["subdomain"] == changed.json()["subdomain"]
    assert shop.call(user, "GET", "/credits").json()["credit_balance"] == 25
    shop.clock.advance(hours=24, seconds=1)
    after = shop.call(user, "POST", "/subdomains", body, idempotency_key="k1")
    assert (after.status_code, after.json()["error"]) == (409, "subdomain_unavailable")


def test_every_writing_endpoint_replays(shop: RunningService) -> None:
    """Decisions: on every POST, PUT and DELETE, tickets too."""
    user = new_user(shop)
    fqdn = shop.register(user, unused_name(), ns1=NS1)["subdomain"]["fqdn"]
    ticket = shop.call(user, "POST", "/support/tickets", {"subject": "a", "message": "b"}).json()["ticket"][
        "id"
    ]
    shop.clock.advance(days=330)
    path = f"/subdomains/{fqdn}"
    for number, (method, where, body) in enumerate(
        [
            ("PUT", path + "/nameservers", {"ns1": "ns2.provider.example"}),
            ("POST", path + "/renew", {}),
            ("DELETE", path, None),
            ("POST", path + "/restore", None),
            ("POST", "/support/tickets", {"subject": "once", "message": "only"}),
            ("POST", f"/support/tickets/{ticket}/reply", {"message": "once"}),
        ]
    ):
        first, again = (shop.call(user, method, where, body, idempotency_key=f"w{number}") for _ in range(2))
        assert first.status_code in (200, 201), first.text
        assert (again.status_code, again.headers.get("idempotent-replayed")) == (first.status_code, "true"), (
            where
        )
        assert again.json() == first.json()
    messages = shop.call(user, "GET", f"/support/tickets/{ticket}").json()["ticket"]["messages"]
    assert [each["message"] for each in messages] == ["b", "once"]
    assert len(shop.call(user, "GET", "/support/tickets").json()["tickets"]) == 2
