"""Decisions, "Tokens" and rate limits: what a token is good for, how often it and an address may ask."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sublet.accounts.store import Use, touch_tokens
from sublet.restrictions import SCOPES
from sublet.surfaces import API_OPERATIONS
from support.console_client import console
from support.error_triggers import new_user, unused_name
from support.open_registry import instant, opened
from support.running_service import RunningService

WHOLE_ACCOUNT = ("export", "delete_me")


@pytest.mark.parametrize("scope", SCOPES)
def test_a_scope_allows_its_endpoints_only(shop: RunningService, scope: str) -> None:
    user = new_user(shop)
    token = shop.issue_token(user.email, scope)
    for endpoint in API_OPERATIONS:
        path = endpoint.path.replace("{fqdn}", "nothing.example.test").replace("{id}", "777777")
        if endpoint.name in WHOLE_ACCOUNT:  # they need all scopes but one
            continue
        answer = shop.call(token, endpoint.method, path)
        refused = answer.status_code == 403 and answer.json()["error"] == "insufficient_scope"
        assert refused == (endpoint.scope not in (None, scope)), endpoint.name
        if refused:
            assert answer.json()["details"] == {"required_scope": endpoint.scope}


def test_me_needs_no_scope_and_shows_the_token(shop: RunningService) -> None:
    """Spec, part 5, rule 2: "GET /me needs nothing else" than the token; decisions, "Tokens": what it shows
    of it.
    """
    user, scope = new_user(shop), "tickets:read"
    issued = shop.operator(
        *("token", "issue", user.email, "--name", "narrow", "--scope", scope, "--expires-in-days", "3000")
    )
    answer = shop.call(issued["token"], "GET", "/me")
    assert answer.status_code == 200
    shown = answer.json()["token"]
    assert list(shown) == ["id", "name", "scopes", "created_at", "expires_at", "last_used_at"]
    assert (shown["name"], shown["scopes"], shown["last_used_at"]) == ("narrow", [scope], None)
    created, expires = (instant(shown[name]) for name in ("created_at", "expires_at"))
    assert (expires - created).days == 3000
    assert issued["token"] not in answer.text


def test_me_shows_when_the_token_was_last_used(shop: RunningService) -> None:
    issued = shop.operator("token", "issue", new_user(shop).email, "--name", "script")
    used_at = datetime.now(UTC)
    shop.write(lambda tx: touch_tokens(tx, {issued["id"]: Use(used_at, "192.0.2.7")}))
    shown = shop.call(issued["token"], "GET", "/me").json()["token"]
    assert (instant(shown["last_used_at"]), shown["expires_at"]) == (used_at, None)


def test_credits_spend_is_needed_for_payments_but_not_for_quotes(shop: RunningService) -> None:
    user = new_user(shop, credit_count=10)
    token = shop.issue_token(user.email, "subdomains:write")
    body = {"fqdn": unused_name(), "registration_mode": "plus"}
    assert shop.call(token, "POST", "/subdomains", body).json()["error"] == "payment_confirmation_required"
    answer = shop.call(token, "POST", "/subdomains", {**body, "confirm": True})
    assert (answer.status_code, answer.json()["error"]) == (403, "insufficient_scope")
    assert answer.json()["details"] == {"required_scope": "credits:spend"}
    assert (
        shop.call(token, "POST", "/subdomains", {"fqdn": unused_name(), "confirm": True}).status_code == 201
    )
    both = shop.issue_token(user.email, "subdomains:write", "credits:spend")
    assert shop.call(both, "POST", "/subdomains", {**body, "confirm": True}).status_code == 201


def test_the_ticket_limit_counts_created_tickets_and_replies(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Decisions, part 8: a refused ticket or reply counts as a write, and as a ticket once the token has no
    write left.
    """
    settings = {"rate_limit_ticket_per_minute": 3, "rate_limit_write_per_minute": 8}
    with opened(tmp_path_factory.mktemp("tickets"), rate_limits=True, **settings) as service:
        user = new_user(service)
        good = {"subject": "a", "message": "b"}

        def send(body: Any, path: str = "", **headers: str) -> tuple[int, str]:
            answer = service.call(user, "POST", f"/support/tickets{path}", body, **headers)
            assert answer.headers["ratelimit-policy"] == '"ticket";q=3;w=60'
            return answer.status_code, answer.headers["ratelimit"].partition(";t=")[0]

        assert [send({}) for _ in range(3)] == [(422, '"ticket";r=3')] * 3
        assert send(good, idempotency_key="k") == (201, '"ticket";r=2')
        assert send(good, idempotency_key="k") == (201, '"ticket";r=2')  # the same ticket
        assert send({"message": "c"}, "/T-999999/reply") == (404, '"ticket";r=2')
        assert send({"nonsense": 1}) == (400, '"ticket";r=2')
        assert send(good) == (201, '"ticket";r=1')
        assert [send({}) for _ in range(2)] == [(422, '"ticket";r=1')] * 2  # the last two writes
        assert send({}) == (422, '"ticket";r=0')
        assert send(good) == (429, '"ticket";r=0')
        assert service.call(user, "POST", "/subdomains", {}).status_code == 429


def test_all_tokens_and_sessions_of_a_user_share_the_ticket_limit(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    settings = {"rate_limit_ticket_per_minute": 3}
    with opened(tmp_path_factory.mktemp("tickets"), rate_limits=True, **settings) as service:
        user, other = new_user(service), new_user(service)
        organization = service.call(user, "POST", "/organizations", {"name": "Guild"}).json()["organization"]
        tokens = [user.token, service.issue_token(user.email), service.token_for(user, organization["id"])]
        good = {"subject": "a", "message": "b"}

        def send(token: str) -> int:
            return service.call(token, "POST", "/support/tickets", good).status_code

        assert [send(each) for each in tokens] == [201, 201, 201]
        assert [send(each) for each in (*tokens, service.issue_token(user.email))] == [429] * 4
        page = console(service, user.email)
        assert page.submit(page.get("/tickets/new"), "/tickets/new", subject="a", message="b").status == 429
        assert send(other.token) == 201
