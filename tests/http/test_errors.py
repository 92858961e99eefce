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
)
from sublet.http.head import request_id_of

ALL = [
    each for each in Refusal.__subclasses__() if each.__module__ in ("sublet.errors", "sublet.http.errors")
]


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
