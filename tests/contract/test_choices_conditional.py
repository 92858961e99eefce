"""Conditional requests (RFC 9110, section 13): ETag and If-None-Match of an object,
If-Match of its changes.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from msgspec.structs import fields
from sqlalchemy import update

from sublet.accounts.store import tokens
from sublet.db import Tx
from sublet.platform_domains.store import platform_domains
from sublet.subdomains.store import subdomains
from sublet.surfaces import API_OPERATIONS
from sublet.tickets.store import tickets
from support.error_triggers import new_user, unused_name
from support.open_registry import opened
from support.repetitions import share
from support.running_service import Registrant, RunningService

OTHER = '"0000000000000000-0000000000000000"'


UNREACHABLE = "unreachable.test"
"""A platform domain on a primary that doesn't answer, so that its names stay unpublished."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with opened(tmp_path_factory.mktemp("conditional"), free_quota=500, publish_wait_ms=0) as service:
        service.add_domain("renewable.test", "--renewal-window-days", "365")
        service.add_domain(UNREACHABLE)
        of = platform_domains.c.domain == UNREACHABLE
        service.write(
            lambda tx: tx.connection.execute(update(platform_domains).where(of).values(primary="away"))
        )
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


def delegated_name_of(shop: RunningService, who: Registrant) -> str:
    label = unused_name().partition(".")[0]
    registered = shop.register(who, f"{label}.{UNREACHABLE}", nameservers=["ns1.provider.example"])
    assert registered["subdomain"]["status"] in ("provisioning", "failed")
    return f"/subdomains/{registered['subdomain']['fqdn']}"


def token_of(shop: RunningService, who: Registrant) -> str:
    return f"/tokens/{shop.call(who, 'POST', '/tokens', {'name': 'one', 'scopes': ['account:read']}).json()['token']['id']}"  # noqa: E501


def publication_ends(tx: Tx, path: str) -> None:
    """Do what the publisher does after it has read the name back from the primary."""
    of = subdomains.c.fqdn == path.rpartition("/")[2]
    values = {"published_generation": subdomains.c.generation, "provision_error": None, "attempts": 0}
    tx.connection.execute(update(subdomains).where(of).values(**values))


def operator_sets_priority(tx: Tx, path: str) -> None:
    of = tickets.c.id == int(path.rpartition("/")[2])
    tx.connection.execute(update(tickets).where(of).values(priority="urgent", updated_at=tx.now))


def token_is_used(tx: Tx, path: str) -> None:
    of = tokens.c.id == int(path.rpartition("/")[2])
    tx.connection.execute(update(tokens).where(of).values(last_used_at=tx.now, last_used_from="192.0.2.1"))


@pytest.mark.parametrize(
    ("made", "method", "suffix", "body", "by_service"),
    [
        (delegated_name_of, *CHANGES[0], publication_ends),
        (delegated_name_of, *CHANGES[1], publication_ends),
        (delegated_name_of, *CHANGES[3], publication_ends),
        (ticket_of, "POST", "/reply", {"message": "Three"}, operator_sets_priority),
        (token_of, "PATCH", "", {"name": "two"}, token_is_used),
        (token_of, "POST", "/rotate", {}, token_is_used),
        (token_of, "DELETE", "", {}, token_is_used),
    ],
)
def test_what_the_service_changes_refuses_no_change(
    shop: RunningService,
    ada: Registrant,
    made: Any,
    method: str,
    suffix: str,
    body: dict[str, Any],
    by_service: Any,
) -> None:
    """The answer has changed, so `If-None-Match` doesn't match any more; what the client edits hasn't, so
    `If-Match` does.
    """
    path = made(shop, ada)
    tag = tag_of(shop, ada, path)
    shop.write(lambda tx: by_service(tx, path))
    seen = shop.call(ada, "GET", path, if_none_match=tag)
    assert (seen.status_code, seen.headers["etag"] != tag) == (200, True)
    answer = shop.call(ada, method, path + suffix, body, if_match=tag)
    assert answer.status_code == 200, answer.text


def test_each_object_with_a_tag_lists_what_requests_change() -> None:
    for endpoint in API_OPERATIONS:
        if endpoint.has_etag:
            shown: Any = endpoint.answer
            if not shown.changed_by_requests:
                (shown,) = (each.type for each in fields(endpoint.answer) if each.name != "ok")
            changed = set(shown.changed_by_requests)
            assert changed, endpoint.name
            assert changed <= {each.name for each in fields(shown)}, endpoint.name


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
    """The refusals of the change come first (section 13.2.1); a restore, which would succeed, has nothing to
    match.
    """
    path = name_of(shop, ada)
    assert shop.call(ada, "DELETE", path, if_match="*").status_code == 200
    assert code_of(shop.call(ada, "DELETE", path, if_match="*")) == (404, "subdomain_not_found")
    for header in ("*", OTHER):
        assert code_of(shop.call(ada, "POST", f"{path}/restore", {}, if_match=header)) == FAILED
    assert shop.call(ada, "GET", path).status_code == 404
    assert shop.call(ada, "POST", f"{path}/restore", {}).status_code == 200
    missing = shop.call(ada, "POST", "/subdomains/missing.example.test/renew", {}, if_match=OTHER)
    assert code_of(missing) == (404, "subdomain_not_found")


def test_a_replay_is_answered_even_if_the_tag_has_changed(shop: RunningService, ada: Registrant) -> None:
    path = name_of(shop, ada)
    body = {"nameservers": ["ns1.provider.example"]}
    headers = {"if_match": tag_of(shop, ada, path), "idempotency_key": unused_name()}
    answers = [shop.call(ada, "PUT", f"{path}/nameservers", body, **headers) for _ in range(2)]
    assert [each.status_code for each in answers] == [200, 200]
    assert answers[1].headers["idempotent-replayed"] == "true"


def test_of_two_changes_with_one_tag_one_succeeds(shop: RunningService, ada: Registrant) -> None:
    path = name_of(shop, ada)
    for _ in range(share(5, whole=20)):
        tag = tag_of(shop, ada, path)
        ceiling = shop.call(ada, "GET", f"{path}/auto-renew").json()["auto_renew"]["max_credits"] or 0

        def change(step: int, tag: str = tag, ceiling: int = ceiling) -> int:
            body = {"enabled": True, "max_credits": ceiling + step}
            return shop.call(ada, "PUT", f"{path}/auto-renew", body, if_match=tag).status_code

        with ThreadPoolExecutor(4) as threads:
            statuses = sorted(threads.map(change, (1, 2, 3, 4)))
        assert statuses == [200, 412, 412, 412]
