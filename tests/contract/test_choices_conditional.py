"""Conditional requests (RFC 9110, section 13): ETag and If-None-Match of a name or ticket, If-Match of its changes."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from support.error_triggers import new_user, unused_name
from support.open_registry import opened
from support.running_service import Registrant, RunningService

OTHER = '"00000000000000000000000000000000"'


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with opened(tmp_path_factory.mktemp("conditional"), free_quota=500) as service:
        service.add_domain("renewable.test", "--renewal-window-days", "365")
        yield service


@pytest.fixture(scope="module")
def ada(shop: RunningService) -> Registrant:
    return new_user(shop, credit_count=1000)


def name_of(shop: RunningService, who: Registrant, domain: str = "example.test") -> str:
    label = unused_name().partition(".")[0]
    return f"/subdomains/{shop.register(who, f'{label}.{domain}')['subdomain']['fqdn']}"


def ticket_of(shop: RunningService, who: Registrant) -> str:
    body = {"subject": "One", "message": "Two"}
    return f"/support/tickets/{shop.call(who, 'POST', '/support/tickets', body).json()['ticket']['id']}"


def tag_of(shop: RunningService, who: Registrant, path: str) -> str:
    return str(shop.call(who, "GET", path).headers["etag"])


def code_of(answer: httpx.Response) -> tuple[int, str | None]:
    return answer.status_code, answer.json().get("error")


CHANGES: list[tuple[str, str, dict[str, Any]]] = [
    ("PUT", "/nameservers", {"nameservers": ["ns1.provider.example"]}),
    ("PUT", "/auto-renew", {"enabled": True, "max_credits": 5}),
    ("POST", "/renew", {"confirm": True}),
    ("DELETE", "", {}),
]
FAILED = (412, "precondition_failed")


@pytest.mark.parametrize("made", [name_of, ticket_of])
def test_the_tag_is_that_of_the_whole_answer(shop: RunningService, ada: Registrant, made: Any) -> None:
    path = made(shop, ada)
    first, second = (shop.call(ada, "GET", path) for _ in range(2))
    assert first.headers["etag"] == second.headers["etag"] == shop.call(ada, "HEAD", path).headers["etag"]
    assert first.headers["etag"].startswith('"')  # strong
    if made is name_of:
        shop.call(ada, "PUT", f"{path}/auto-renew", {"enabled": True, "max_credits": 5})
    else:
        shop.call(ada, "POST", f"{path}/reply", {"message": "Three"})
    changed = shop.call(ada, "GET", path)
    assert changed.content != first.content
    assert changed.headers["etag"] != first.headers["etag"]
    assert "etag" not in shop.call(ada, "GET", "/subdomains").headers


def test_a_change_by_the_platform_domain_changes_the_tag(shop: RunningService, ada: Registrant) -> None:
    shop.add_domain("window.test")
    path = f"/subdomains/{shop.register(ada, 'a.window.test')['subdomain']['fqdn']}"
    before = shop.call(ada, "GET", path)
    shop.operator("domain", "edit", "window.test", "--renewal-window-days", "365")
    after = shop.call(ada, "GET", path)
    shown = [each.json()["subdomain"]["renewal_available"] for each in (before, after)]
    assert shown == [False, True]
    assert after.headers["etag"] != before.headers["etag"]


@pytest.mark.parametrize("made", [name_of, ticket_of])
def test_if_none_match(shop: RunningService, ada: Registrant, made: Any) -> None:
    path = made(shop, ada)
    tag = tag_of(shop, ada, path)
    for header in (tag, f"W/{tag}", f"{OTHER}, {tag}", f'"a,b" ,\t{tag},', "*"):
        answer = shop.call(ada, "GET", path, if_none_match=header)
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag), header
        assert answer.headers["x-request-id"]
        assert shop.call(ada, "HEAD", path, if_none_match=header).status_code == 304
    for header in (OTHER, tag.strip('"'), "", f'"{tag}', "W/*"):
        answer = shop.call(ada, "GET", path, if_none_match=header)
        assert (answer.status_code, answer.json()["ok"]) == (200, True), header
    assert shop.call(ada, "GET", "/subdomains/missing.example.test", if_none_match="*").status_code == 404


@pytest.mark.parametrize(("method", "suffix", "body"), CHANGES)
def test_if_match_of_a_name(
    shop: RunningService, ada: Registrant, method: str, suffix: str, body: dict[str, Any]
) -> None:
    path = name_of(shop, ada, "renewable.test" if suffix == "/renew" else "example.test")
    before = shop.call(ada, "GET", path)
    tag = before.headers["etag"]
    for header in (OTHER, f"W/{tag}", f'"{tag}', tag.strip('"'), ""):
        assert code_of(shop.call(ada, method, path + suffix, body, if_match=header)) == FAILED, header
    assert shop.call(ada, "GET", path).content == before.content
    answer = shop.call(ada, method, path + suffix, body, if_match=f"{OTHER}, {tag}")
    assert answer.status_code == 200, answer.text
    if method != "DELETE":
        assert code_of(shop.call(ada, method, path + suffix, body, if_match=tag)) == FAILED
        assert shop.call(ada, method, path + suffix, body, if_match="*").status_code in (200, 409)


def test_if_match_of_a_retry(shop: RunningService, ada: Registrant) -> None:
    path = name_of(shop, ada)
    assert code_of(shop.call(ada, "POST", f"{path}/retry", {}, if_match=OTHER)) == FAILED
    allowed = shop.call(ada, "POST", f"{path}/retry", {}, if_match=tag_of(shop, ada, path))
    assert code_of(allowed) == (409, "nameserver_required")


def test_if_match_of_a_ticket(shop: RunningService, ada: Registrant) -> None:
    path, body = ticket_of(shop, ada), {"message": "Three"}
    tag = tag_of(shop, ada, path)
    assert code_of(shop.call(ada, "POST", f"{path}/reply", body, if_match=OTHER)) == FAILED
    assert shop.call(ada, "POST", f"{path}/reply", body, if_match=tag).status_code == 200
    assert code_of(shop.call(ada, "POST", f"{path}/reply", body, if_match=tag)) == FAILED
    assert len(shop.call(ada, "GET", path).json()["ticket"]["messages"]) == 2


def test_a_name_in_the_trash_or_missing_has_no_tag(shop: RunningService, ada: Registrant) -> None:
    """The refusals of the change come first (section 13.2.1); a restore, which would succeed, has nothing to match."""
    path = name_of(shop, ada)
    assert shop.call(ada, "DELETE", path, if_match="*").status_code == 200
    assert code_of(shop.call(ada, "DELETE", path, if_match="*")) == (404, "subdomain_not_found")
    for header in ("*", OTHER):
        assert code_of(shop.call(ada, "POST", f"{path}/restore", {}, if_match=header)) == FAILED
    assert shop.call(ada, "GET", path).status_code == 404
    assert shop.call(ada, "POST", f"{path}/restore", {}).status_code == 200
    missing = shop.call(ada, "POST", "/subdomains/missing.example.test/renew", {}, if_match=OTHER)
    assert code_of(missing) == (404, "subdomain_not_found")


def test_a_suspended_user_is_refused_first(shop: RunningService) -> None:
    user = new_user(shop)
    path = name_of(shop, user)
    shop.operator("user", "suspend", user.email, "--reason", "test")
    assert code_of(shop.call(user, "DELETE", path, if_match=OTHER)) == (403, "account_suspended")


def test_a_replay_is_answered_even_if_the_tag_has_changed(shop: RunningService, ada: Registrant) -> None:
    path = name_of(shop, ada)
    body = {"nameservers": ["ns1.provider.example"]}
    headers = {"if_match": tag_of(shop, ada, path), "idempotency_key": unused_name()}
    answers = [shop.call(ada, "PUT", f"{path}/nameservers", body, **headers) for _ in range(2)]
    assert [each.status_code for each in answers] == [200, 200]
    assert answers[1].headers["idempotent-replayed"] == "true"


def test_a_key_can_be_used_again_after_a_failed_precondition(shop: RunningService, ada: Registrant) -> None:
    path, key = name_of(shop, ada), unused_name()
    for header, status in ((OTHER, 412), ("*", 200)):
        answer = shop.call(ada, "DELETE", path, if_match=header, idempotency_key=key)
        assert answer.status_code == status


def test_of_two_changes_with_one_tag_one_succeeds(shop: RunningService, ada: Registrant) -> None:
    path = name_of(shop, ada)
    for _ in range(20):
        tag = tag_of(shop, ada, path)
        ceiling = shop.call(ada, "GET", f"{path}/auto-renew").json()["auto_renew"]["max_credits"] or 0

        def change(step: int, tag: str = tag, ceiling: int = ceiling) -> int:
            body = {"enabled": True, "max_credits": ceiling + step}
            return shop.call(ada, "PUT", f"{path}/auto-renew", body, if_match=tag).status_code

        with ThreadPoolExecutor(4) as threads:
            statuses = sorted(threads.map(change, (1, 2, 3, 4)))
        assert statuses == [200, 412, 412, 412]
