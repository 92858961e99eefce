"""Paths, methods, the parts of requests and the envelope of every answer, over a socket to the whole service.

The order of checks, and what a repeated request gets: tests/contract/test_choices_requests.py.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text as sql_text

from support.running_service import Registrant, RunningService, registry_address, running_service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """One service for this file; no test here needs another's names."""
    with running_service(registry_address(tmp_path_factory.mktemp("edge"))) as running:
        running.add_domain("example.test")
        yield running
        assert running.doctor() == []


@pytest.fixture(scope="module")
def ada(service: RunningService) -> Registrant:
    return service.add_user("ada@example.org")


def send(
    service: RunningService, method: str, path: str, content: Any = None, **headers: str
) -> httpx.Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return service.client.request(method, service.base_url + path, content=content, headers=sent)


def refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Check that an answer is this refusal, in the envelope, and return it."""
    assert (answer.status_code, answer.json().get("error")) == (status, code), answer.text
    envelope = answer.json()
    assert [name for name in envelope if name != "quote"] == [
        "ok",
        "error",
        "message",
        "errors",
        "details",
        "request_id",
    ]
    assert envelope["ok"] is False
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"] == envelope["request_id"]
    return dict(envelope)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/docs",
        "/openapi.json",
        "/me/",
        "/Me",
        "/me/more",
        "/subdomains/",
        "/subdomains/a%2fhealth",
        "/subdomains/a%2Fb/c",
        "/..%2Fhealthz",
        "/<script>",
    ],
)
def test_unknown_paths_need_no_token(service: RunningService, path: str) -> None:
    refused(send(service, "GET", path), 404, "not_found")


@pytest.mark.parametrize("path", ["/api", "/api/v1", "/api/v2/me", "/metrics/", "/favicon.ico"])
def test_paths_outside_the_base_answer_in_the_envelope_too(service: RunningService, path: str) -> None:
    root = service.origin
    refused(service.client.get(root + path), 404, "not_found")


@pytest.mark.parametrize("path", ["/docs", "/openapi.json"])
def test_the_documentation_is_outside_the_base_path(
    service: RunningService, ada: Registrant, path: str
) -> None:
    root = service.origin
    found = service.client.get(root + path)
    assert found.status_code == 200
    assert found.headers["content-type"].startswith("text/html" if path == "/docs" else "application/json")
    assert refused(service.client.post(root + path), 405, "method_not_allowed")["details"] == {
        "allow": ["GET", "HEAD"]
    }
    for method in ("GET", "POST"):  # the old paths are as all others without anything
        refused(service.call(ada, method, path), 404, "not_found")
        refused(service.call(None, method, path), 404, "not_found")
    problem = service.call(ada, "GET", path, accept="application/problem+json").json()
    assert problem["type"] == "/docs#error-not_found"
    assert 'id="error-not_found"' in service.client.get(root + "/docs").text


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("POST", "/me", "DELETE, GET, HEAD, PATCH"),
        ("OPTIONS", "/me", "DELETE, GET, HEAD, PATCH"),
        ("TRACE", "/me", "DELETE, GET, HEAD, PATCH"),
        ("BREW", "/me", None),
        ("PUT", "/subdomains", "GET, HEAD, POST"),
        ("PATCH", "/subdomains/x", "DELETE, GET, HEAD"),
        ("GET", "/subdomains/x/renew", "POST"),
        ("HEAD", "/subdomains/x/renew", "POST"),
    ],
)
def test_an_unsupported_method_needs_no_token(
    service: RunningService, method: str, path: str, allow: str | None
) -> None:
    answer = send(service, method, path)
    if method == "HEAD":
        assert (answer.status_code, answer.content) == (405, b"")
    elif allow is None:  # the parser of requests doesn't know the method
        assert answer.status_code == 400
        return
    else:
        assert refused(answer, 405, "method_not_allowed")["details"] == {"allow": allow.split(", ")}
    assert answer.headers["allow"] == allow


def test_all_malformed_parts_of_a_request_are_told_together(service: RunningService, ada: Registrant) -> None:
    rights = {"authorization": f"Bearer {ada.token}", "idempotency_key": "a b", **JSON_HEADERS}
    path = "/subdomains/missing.example.test/renew?x=1"
    refused(send(service, "POST", path, b"\xff", **rights), 400, "invalid_json")
    body = b'{"a": 1, "confirm": 1, "confirm": true}'
    malformed = refused(send(service, "POST", path, body, **rights), 400, "invalid_request")
    assert {(each["field"], each["code"]) for each in malformed["errors"]} == {
        ("a", "unknown_field"),
        ("confirm", "duplicate_field"),
        ("x", "unknown_field"),
        ("Idempotency-Key", "value_invalid"),
    }


JSON_HEADERS = {"content_type": "application/json"}


def test_an_answer_lists_50_wrong_fields_and_counts_the_others(
    service: RunningService, ada: Registrant
) -> None:
    body: dict[str, Any] = {f"member_{number}": 1 for number in range(3000)} | {"confirm": "true"}
    malformed = refused(service.call(ada, "POST", "/subdomains", body), 400, "invalid_request")
    assert len(malformed["errors"]) == 50
    assert malformed["details"] == {"errors_omitted": 2951}
    assert malformed["message"].startswith("3001 fields are malformed. The first is member_0: ")
    body = {"fqdn": "many.example.test", "nameservers": [f"-{number}.example" for number in range(60)]}
    invalid = refused(service.call(ada, "POST", "/subdomains", body), 422, "validation_failed")
    assert len(invalid["errors"]) == 50
    assert invalid["details"] == {"errors_omitted": 11}  # the last one is `too_many_nameservers`
    assert invalid["message"].startswith("61 fields are wrong. The first is nameservers[0]: ")
    body = {"fqdn": "many.example.test", "glue": [{}] * 60}
    missing = refused(service.call(ada, "POST", "/subdomains", body), 422, "validation_failed")
    assert (len(missing["errors"]), missing["details"]) == (50, {"errors_omitted": 10})
    twice = "{" + ",".join(f'"{number % 60}": 1' for number in range(120)) + "}"
    rights = {"authorization": f"Bearer {ada.token}"}
    answer = send(service, "POST", "/subdomains", twice.encode(), **JSON_HEADERS, **rights)
    duplicate = refused(answer, 400, "invalid_request")
    assert (len(duplicate["errors"]), duplicate["details"]) == (50, {"errors_omitted": 70})


def test_a_list_of_too_many_items_is_not_read(service: RunningService, ada: Registrant) -> None:
    lists: dict[str, list[Any]] = {"nameservers": [1] * 1001, "ds_records": [{}] * 20_000}
    for field, items in lists.items():
        body = {"fqdn": "many.example.test", field: items}
        found = refused(service.call(ada, "POST", "/subdomains", body), 422, "validation_failed")
        assert [(each["field"], each["code"]) for each in found["errors"]] == [(field, "too_long")]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content_type": "application/x-www-form-urlencoded"},
        {"content_type": "application/json; charset=latin-1"},
        {"content_type": ""},
        {"content_encoding": "gzip"},
    ],
)
@pytest.mark.parametrize("in_chunks", [False, True])
def test_an_empty_body_of_any_media_type_counts_as_no_body(
    service: RunningService, ada: Registrant, headers: dict[str, str], *, in_chunks: bool
) -> None:
    sent = {**headers, "authorization": f"Bearer {ada.token}"}
    empty = iter([b""]) if in_chunks else b""
    refused(send(service, "POST", "/subdomains", empty, **sent), 422, "validation_failed")
    named = iter([b"a=b"]) if in_chunks else b"a=b"
    refused(send(service, "POST", "/subdomains", named, **sent), 415, "unsupported_media_type")


def test_a_get_ignores_its_body(service: RunningService, ada: Registrant) -> None:
    answer = send(
        service, "GET", "/me", b"\xff", authorization=f"Bearer {ada.token}", content_type="text/plain"
    )
    assert answer.status_code == 200


@pytest.mark.parametrize("path", ["/me", "/me/export"])
def test_head_is_get_without_the_body(service: RunningService, ada: Registrant, path: str) -> None:
    """An answer that is streamed tells its length in neither."""
    get, head = (service.call(ada, method, path) for method in ("GET", "HEAD"))
    assert (head.status_code, head.content) == (200, b"")
    length = str(len(get.content)) if path == "/me" else None
    assert [each.headers.get("content-length") for each in (get, head)] == [length, length]


@pytest.mark.parametrize("path", ["/me", "/nowhere", "/docs", "/openapi.json"])
def test_every_answer_has_a_request_id(service: RunningService, ada: Registrant, path: str) -> None:
    given = service.call(ada, "GET", path, x_request_id="mine-1.2_3")
    assert given.headers["x-request-id"] == "mine-1.2_3"
    for bad in ("a b", "x" * 65, "<a>"):
        made = service.call(ada, "GET", path, x_request_id=bad).headers["x-request-id"]
        assert made != bad
        assert len(made) == 32


def test_health_and_metrics_are_outside_the_base_path(service: RunningService, ada: Registrant) -> None:
    assert service.call(ada, "GET", "/me").status_code == 200
    root = service.origin
    assert service.client.get(f"{root}/healthz").json() == {"ok": True}
    ready = service.client.get(f"{root}/readyz")
    assert (ready.status_code, ready.json()["ok"], ready.json()["checks"]["database"]) == (200, True, True)
    metrics = service.client.get(f"{root}/metrics").text
    assert 'sublet_http_requests_total{endpoint="me",status="200"}' in metrics
    assert "x-request-id" in service.client.get(f"{root}/healthz").headers


# Idempotency-Key


def key_of(name: str) -> dict[str, str]:
    return {"idempotency_key": name}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/subdomains", {"fqdn": "reused-2.example.test"}),
        ("POST", "/subdomains", {"fqdn": "reused.example.test", "confirm": True}),
        ("POST", "/support/tickets", {"fqdn": "reused.example.test"}),
        ("DELETE", "/subdomains/reused.example.test", None),
    ],
)
def test_a_key_reused_for_another_request_is_refused(
    service: RunningService, ada: Registrant, method: str, path: str, body: Any
) -> None:
    taken = service.call(ada, "POST", "/subdomains", {"fqdn": "reused.example.test"}, **key_of("reused"))
    assert taken.status_code == 201
    answer = service.call(ada, method, path, body, **key_of("reused"))
    refused(answer, 422, "idempotency_key_reused")


def test_a_key_can_be_used_again_after_a_refusal(service: RunningService, ada: Registrant) -> None:
    refused(
        service.call(ada, "POST", "/support/tickets", {"subject": "a"}, **key_of("free")),
        422,
        "validation_failed",
    )
    answer = service.call(ada, "POST", "/support/tickets", {"subject": "a", "message": "b"}, **key_of("free"))
    assert answer.status_code == 201


# Rate limits


def test_the_changes_of_a_names_nameservers_in_a_day_are_limited(tmp_path: Path) -> None:
    with running_service(
        registry_address(tmp_path), rate_limits=True, nameserver_changes_per_day=2
    ) as service:
        service.add_domain()
        ada = service.add_user()
        service.register(ada, "shop.example.test")
        for number in range(2):
            body = {"nameservers": [f"ns{number}.provider.example"]}
            changed = service.call(ada, "PUT", "/subdomains/shop.example.test/nameservers", body)
            assert changed.status_code == 200
        body = {"nameservers": ["ns3.provider.example"]}
        limited = service.call(ada, "PUT", "/subdomains/shop.example.test/nameservers", body)
        refused(limited, 429, "rate_limited")
        assert 86_000 < int(limited.headers["retry-after"]) <= 86_400


def test_rate_limits(tmp_path: Path) -> None:
    with running_service(
        registry_address(tmp_path), rate_limits=True, rate_limit_read_per_minute=2
    ) as service:
        ada = service.add_user()
        first = service.call(ada, "GET", "/me")
        assert first.headers["ratelimit-policy"] == '"read";q=2;w=60'
        assert first.headers["ratelimit"].startswith('"read";r=1;t=')
        assert service.call(ada, "GET", "/credits").status_code == 200
        third = service.call(ada, "GET", "/me")
        refused(third, 429, "rate_limited")
        assert 1 <= int(third.headers["retry-after"]) <= 60
        assert third.headers["ratelimit"].startswith('"read";r=0;t=')
        # Another class and another token of the user are counted apart.
        refused(service.call(ada, "POST", "/support/tickets", {}), 422, "validation_failed")
        assert service.call(service.issue_token(ada.email), "GET", "/me").status_code == 200


def rename(service: RunningService, old: str, new: str) -> None:
    change = sql_text(f"ALTER TABLE packages RENAME COLUMN {old} TO {new}")
    service.write(lambda tx: tx.connection.execute(change))


def test_an_internal_error_shows_no_details(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running_service(registry_address(tmp_path)) as service:
        ada = service.add_user()
        rename(service, "price", "canary_of_the_schema")
        answer = service.call(ada, "GET", "/credits")
        assert answer.status_code in (500, 503)
        envelope = refused(answer, answer.status_code, answer.json()["error"])
        assert "canary" not in json.dumps(envelope)
        assert "packages" not in json.dumps(envelope)
        rename(service, "canary_of_the_schema", "price")
        assert service.call(ada, "GET", "/credits").status_code == 200
