"""The envelope of failures: one shape for all codes, with RFC 9457 on request."""

import json
import re

import pytest
from starlette.datastructures import Headers

from sublet import errors
from sublet.errors import FieldError, MethodNotAllowed, Refusal
from sublet.http.errors import (
    PROBLEM_TYPE,
    names_media_type,
    render_refusal,
    status_of,
)
from sublet.http.head import request_id_of

ALL = [
    each for each in Refusal.__subclasses__() if each.__module__ in ("sublet.errors", "sublet.http.errors")
]
STATUS = {
    "invalid_json": 400,
    "invalid_request": 400,
    "invalid_cursor": 400,
    "token_missing": 401,
    "token_invalid": 401,
    "token_expired": 401,
    "token_revoked": 401,
    "session_invalid": 401,
    "payment_confirmation_required": 402,
    "authorization_pending": 400,
    "slow_down": 400,
    "expired_token": 400,
    "access_denied": 400,
    "insufficient_credits": 402,
    "insufficient_scope": 403,
    "insufficient_role": 403,
    "token_restricted": 403,
    "account_suspended": 403,
    "registration_mode_not_allowed": 403,
    "records_not_allowed": 403,
    "free_quota_exceeded": 403,
    "registration_closed": 403,
    "signup_closed": 403,
    "session_required": 403,
    "sign_in_required": 403,
    "origin_refused": 403,
    "subdomain_not_found": 404,
    "platform_domain_not_found": 404,
    "ticket_not_found": 404,
    "token_not_found": 404,
    "organization_not_found": 404,
    "transfer_not_found": 404,
    "transfer_pending": 409,
    "records_exist": 409,
    "delegation_exists": 409,
    "session_not_found": 404,
    "passkey_not_found": 404,
    "device_not_found": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "subdomain_unavailable": 409,
    "ticket_closed": 409,
    "retry_not_available": 409,
    "delegation_broken": 422,
    "nameserver_required": 409,
    "renewal_not_available": 409,
    "subdomain_suspended": 409,
    "price_changed": 409,
    "conflict": 409,
    "idempotency_in_progress": 409,
    "precondition_failed": 412,
    "payload_too_large": 413,
    "unsupported_media_type": 415,
    "validation_failed": 422,
    "idempotency_key_reused": 422,
    "rate_limited": 429,
    "internal_error": 500,
    "unavailable": 503,
    "clock_implausible": 503,
}


def test_every_code_has_its_status() -> None:
    assert {each.code: status_of(each) for each in ALL} == STATUS


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.code)
def test_every_failure_has_the_same_members(kind: type[Refusal]) -> None:
    details = {"allow": ["GET"]} if kind is MethodNotAllowed else {}
    status, headers, body = render_refusal(kind("A sentence.", details=details), "id-1")
    assert list(json.loads(body)) == ["ok", "error", "message", "errors", "details", "request_id"]
    assert json.loads(body) == {
        "ok": False,
        "error": kind.code,
        "message": "A sentence.",
        "errors": [],
        "details": details,
        "request_id": "id-1",
    }
    assert headers["content-type"] == "application/json"
    assert ("www-authenticate" in headers) == (status == 401)
    assert ("retry-after" in headers) == (status in (429, 503))
    assert ("allow" in headers) == (status == 405)


def test_wrong_fields_are_listed() -> None:
    refusal = errors.validation_failed([FieldError("glue[0].ipv4", "glue_not_public", "is private")])
    assert json.loads(render_refusal(refusal, "x")[2])["errors"] == [
        {"field": "glue[0].ipv4", "code": "glue_not_public", "message": "is private"}
    ]


def test_a_problem_has_the_same_members_and_those_of_rfc_9457() -> None:
    refusal = errors.TicketClosed("This ticket is closed.")
    plain = json.loads(render_refusal(refusal, "x")[2])
    status, headers, body = render_refusal(refusal, "x", "application/problem+json", "/docs")
    assert headers["content-type"] == "application/problem+json"
    assert json.loads(body) == plain | {
        "type": "/docs#error-ticket_closed",
        "title": "Conflict",
        "status": status,
        "detail": "This ticket is closed.",
    }


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", False),
        ("*/*", False),
        ("application/json", False),
        ("application/problem+json", True),
        ("application/json, Application/Problem+JSON;q=0.5", True),
        ("application/problem+json;q=0", False),
        ("application/problem+json;q=0.000", False),
        ("application/problem+jsonx", False),
        (";,;;,", False),
    ],
)
def test_accept(accept: str, wanted: bool) -> None:
    assert names_media_type(accept, PROBLEM_TYPE) is wanted


@pytest.mark.parametrize(
    ("text", "taken"),
    [("a", True), ("A.b_c-9", True), ("x" * 64, True)]
    + [(each, False) for each in ("", "x" * 65, "a b", "a\n", "é", "a;b", "<b>")],
)
def test_valid_request_ids_of_clients_are_used(text: str, taken: bool) -> None:
    found = request_id_of(Headers({"x-request-id": text}))
    assert (found == text) is taken
    assert re.fullmatch("[A-Za-z0-9._-]{1,64}", found)


def test_a_refusal_to_retry_later_has_retry_after() -> None:
    assert render_refusal(errors.RateLimited("Wait.", retry_after_seconds=17), "x")[1]["retry-after"] == "17"
