"""Spec, part 7: each error code has a request that is answered with it, in the one envelope.

The refusal leaves no trace in the database.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

import sublet.db.sqlite
from sublet import errors
from sublet.errors import Refusal, UriTooLong
from sublet.http.errors import status_of
from sublet.http.security_headers import SECURITY_HEADERS
from sublet.mail.store import count_waiting
from support import error_triggers
from support.error_triggers import REFUSALS, Send
from support.field_error_triggers import FIELD_CODES
from support.hostile_input import stored
from support.running_service import RunningService, registry_address, running_service
from support.waiting import wait_until

pytestmark = pytest.mark.slow

ONLY_ON_THE_COMMAND_LINE: frozenset[str] = frozenset()
"""Codes that no HTTP request can bring about; each with its reason beside it. There is none."""

ENVELOPE = ["ok", "error", "message", "errors", "details", "request_id"]
WITH_QUOTE = ["ok", "error", "message", "quote", "errors", "details", "request_id"]
NOTED = {"authorization_pending": "device_requests", "slow_down": "device_requests"}
"""Answers to a program that polls: the time of the poll is stored, to find out whether it polls too often
(RFC 8628, section 3.5).
"""
TRIES = 5
"""A trace of the refusal is there every time. The service's own work, such as a daily step after a test moved
the clock, is there once.
"""
SENT_ONCE = frozenset({"authorization_pending", "idempotency_in_progress"})
"""Codes that the same request doesn't get a second time."""


def every_refusal() -> dict[str, type[Refusal]]:
    """Every kind of refusal that the program has, wherever it is defined, by code."""
    found: dict[str, type[Refusal]] = {}
    waiting = list(Refusal.__subclasses__())
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        found.setdefault(kind.code, kind)
        # The one code with two statuses: `invalid_request` is 414 for a long path (docs/errors.md).
        if kind is UriTooLong:
            assert status_of(kind) == 414
            continue
        assert status_of(found[kind.code]) == status_of(kind), kind
    return found


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sublet.db.sqlite, "BUSY_TIMEOUT_SECONDS", error_triggers.BUSY_TIMEOUT_SECONDS)
        url = registry_address(tmp_path_factory.mktemp("codes"))
        with running_service(url, **error_triggers.SETTINGS) as service:
            patch.undo()  # for commands, which wait for the service's writes
            error_triggers.furnish(service)
            yield service
            assert service.doctor() == []


@contextmanager
def prepared(service: RunningService, code: str) -> Iterator[Send]:
    table = REFUSALS if code in REFUSALS else FIELD_CODES
    yield from table[code](service)


def test_every_code_is_in_the_tables() -> None:
    """Meta-test: no code without a provocation, no provocation without a code."""
    assert set(REFUSALS) == set(every_refusal()) - ONLY_ON_THE_COMMAND_LINE
    assert set(FIELD_CODES) == {*errors.FIELD_CODES, *errors.MALFORMED_FIELD_CODES}


def refused(service: RunningService, code: str) -> httpx.Response:
    """Return the answer of the code's request.

    Fail if it left a trace, or if its problem of RFC 9457 has other members.
    """
    traces: dict[str, list[tuple[Any, ...]]] = {}
    for _ in range(TRIES):
        with prepared(service, code) as send:
            # Mail of the preparation is sent in its own time, which is no trace of the refusal.
            wait_until(lambda: service.read(count_waiting).waiting == 0)
            before = service.read(stored)
            answer = send()
            after = service.read(stored)
            if code not in SENT_ONCE:
                check_problem(send_for_a_problem(service, send), answer)
        if code in NOTED:
            assert after.pop(NOTED[code]) != before.pop(NOTED[code])
        traces = {
            table: [row for row in [*before[table], *rows] if (row in before[table]) != (row in rows)]
            for table, rows in after.items()
            if rows != before[table]
        }
        if not traces:
            return answer
    pytest.fail(f"the refusal changed rows of these tables {TRIES} times: {traces}")


def send_for_a_problem(service: RunningService, send: Send) -> httpx.Response:
    service.client.headers["accept"] = "application/problem+json"
    try:
        return send()
    finally:
        service.client.headers["accept"] = "*/*"


def check_problem(problem: httpx.Response, answer: httpx.Response) -> None:
    """Decisions, "errors": with `Accept: application/problem+json` the same members come as RFC 9457."""
    body = problem.json()
    assert problem.headers["content-type"] == "application/problem+json"
    assert (body["error"], problem.status_code) == (answer.json()["error"], answer.status_code)
    assert (body["status"], body["detail"]) == (problem.status_code, body["message"])
    assert body["type"].endswith(f"#error-{body['error']}")
    assert body["title"]
    assert set(body) - {"quote"} == {*ENVELOPE, "type", "title", "status", "detail"}


@pytest.mark.parametrize("code", sorted(REFUSALS))
def test_a_refusal_over_http(furnished: RunningService, code: str) -> None:
    answer = refused(furnished, code)
    body = check_envelope(answer)
    assert (answer.status_code, body["error"]) == (status_of(every_refusal()[code]), code), answer.text
    assert ("quote" in body) == (
        code in ("payment_confirmation_required", "insufficient_credits", "price_changed")
    )
    assert ("retry-after" in answer.headers) == (answer.status_code in (429, 503))
    if answer.status_code in (429, 503):
        assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert ("www-authenticate" in answer.headers) == (answer.status_code == 401)
    if answer.status_code == 401:
        assert answer.headers["www-authenticate"].startswith("Bearer")
    assert ("allow" in answer.headers) == (answer.status_code == 405)
    DETAILS.get(code, lambda details: details == {} or pytest.fail(str(details)))(body["details"])


DETAILS: dict[str, Any] = {
    "sign_in_required": lambda details: exactly(
        details, {"limit_seconds": 600, "how": ["mail", "passkey", "operator"]}
    ),
    "authorization_pending": lambda details: exactly(details, {"interval": 5}),
    "delegation_broken": lambda details: exactly(details, {"findings": ["nameserver_not_found"]}),
    "method_not_allowed": lambda details: exactly(details, {"allow": ["GET", "HEAD", "POST"]}),
    "payload_too_large": lambda details: exactly(details, {"limit_bytes": 65536}),
    "conflict": lambda details: exactly(details, {"status": "inactive"}),
    "insufficient_scope": lambda details: exactly(details, {"required_scope": "subdomains:write"}),
    "insufficient_role": lambda details: exactly(
        details, {"role": "viewer", "required_scope": "subdomains:write"}
    ),
    "token_restricted": lambda details: exactly(details, {"restriction": "networks"}),
    "free_quota_exceeded": lambda details: exactly(details, {"limit": 1, "used": 1}),
    "subdomain_unavailable": lambda details: exactly(details, {"reason": "taken", "owned": False}),
    "transfer_pending": lambda details: exactly(sorted(details), ["transfer_id"]),
    "renewal_not_available": lambda details: exactly(
        sorted(details), ["expires_at", "last_renewed_at", "opens_at"]
    ),
}
"""What `details` has for the codes that define it; for all others it is empty."""


def exactly(found: Any, expected: Any) -> None:
    assert found == expected


@pytest.mark.parametrize("code", sorted({*errors.FIELD_CODES, *errors.MALFORMED_FIELD_CODES}))
def test_a_field_code_over_http(furnished: RunningService, code: str) -> None:
    answer = refused(furnished, code)
    body = check_envelope(answer)
    assert [error["code"] for error in body["errors"]] == [code], answer.text
    expected = (
        (400, "invalid_request") if code in errors.MALFORMED_FIELD_CODES else (422, "validation_failed")
    )
    assert (answer.status_code, body["error"]) == expected


def test_an_internal_error_shows_no_details(furnished: RunningService) -> None:
    """Decisions, "errors": never a trace; what went wrong stays in the log, under the request id."""
    with prepared(furnished, "internal_error") as send:
        answer = send()
    assert not re.search(r"secret-detail|Traceback|\.py|sqlite|fromisoformat|ValueError", answer.text)
    assert (
        answer.json()["message"] == "An internal error occurred. Report it to the operator with the id "
        f"{answer.json()['request_id']}."
    )


def test_all_wrong_fields_are_reported_together(furnished: RunningService) -> None:
    """Decisions, "errors": `errors` holds all wrong fields, each with field, code and message."""
    with prepared(furnished, "validation_failed") as send:
        wrong = send().json()["errors"]
    assert [(error["field"], error["code"]) for error in wrong] == [
        ("nameservers[1]", "nameserver_invalid"),
        ("ds_records[1]", "ds_invalid"),
    ]


@pytest.mark.parametrize("code", sorted(SENT_ONCE))
def test_a_refusal_as_a_problem_of_rfc_9457(furnished: RunningService, code: str) -> None:
    with prepared(furnished, code) as send:
        problem = send_for_a_problem(furnished, send)
    with prepared(furnished, code) as send:
        check_problem(problem, send())


@pytest.mark.whole
def test_a_trace_would_be_found(furnished: RunningService) -> None:
    """A request that isn't refused changes the tables of names, terms and the audit."""
    user = error_triggers.new_user(furnished)
    before = furnished.read(stored)
    furnished.register(user, error_triggers.unused_name(), nameservers=["ns1.provider.example"])
    after = furnished.read(stored)
    changed = {name for name in after if after[name] != before[name]}
    assert {"subdomains", "nameserver_hosts", "terms", "audit_events"} <= changed
    assert {"users", "packages"} & changed == set()


def check_envelope(answer: httpx.Response) -> dict[str, Any]:
    """Check what every failure has in common, and return its members."""
    body = dict(answer.json())
    assert answer.headers["content-type"] == "application/json"
    assert list(body) in (ENVELOPE, WITH_QUOTE)
    assert body["ok"] is False
    assert {name: answer.headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS
    assert body["request_id"] == answer.headers["x-request-id"]
    assert re.fullmatch(r"\S.+[.?!)]", body["message"]) or body["errors"], body["message"]
    for error in body["errors"]:
        assert list(error) == ["field", "code", "message"]
        assert all(isinstance(value, str) and value for value in error.values())
    return body
