"""The envelope of failures: one shape for all codes, with RFC 9457 on request."""

import re

import pytest
from starlette.datastructures import Headers

from sublet import errors
from sublet.http.errors import (
    PROBLEM_TYPE,
    names_media_type,
    render_refusal,
)
from sublet.http.head import request_id_of


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
