"""Convert refusals to HTTP answers: statuses and the envelope.

Every failure has the members `ok`, `error`, `message`, `errors`, `details` and `request_id`
(docs/spec-choices.md, "Base, envelope, errors"), and `quote` if it is about a price. With `Accept:
application/problem+json` it has the members of RFC 9457 too.
"""

import re
from http import HTTPStatus
from typing import Any

import msgspec

from sublet.errors import (
    Category,
    InternalError,
    MethodNotAllowed,
    PayloadTooLarge,
    PreconditionFailed,
    Refusal,
    UnsupportedMediaType,
    UriTooLong,
)

STATUS_BY_CATEGORY: dict[Category, int] = {
    Category.MALFORMED: 400,
    Category.UNAUTHENTICATED: 401,
    Category.PAYMENT: 402,
    Category.FORBIDDEN: 403,
    Category.MISSING: 404,
    Category.CONFLICT: 409,
    Category.INVALID: 422,
    Category.LIMITED: 429,
    Category.FAULT: 500,
    Category.UNAVAILABLE: 503,
}
JSON_TYPE = "application/json"
PROBLEM_TYPE = "application/problem+json"
_NO_WEIGHT = re.compile(r"q=0(\.0*)?")


def internal_error(request_id: str) -> InternalError:
    """Return the answer to an unexpected exception, without its details."""
    return InternalError(f"An internal error occurred. Report it to the operator with the id {request_id}.")


_STATUS: dict[type[Refusal], int] = {
    MethodNotAllowed: 405,
    PreconditionFailed: 412,
    PayloadTooLarge: 413,
    UriTooLong: 414,
    UnsupportedMediaType: 415,
}


def status_of(refusal: type[Refusal]) -> int:
    """Return the HTTP status of a kind of refusal."""
    return _STATUS.get(refusal) or STATUS_BY_CATEGORY[refusal.category]


def names_media_type(accept: str, wanted: str) -> bool:
    """True if an `Accept` header names a media type, with a weight above 0.

    Ranges such as `*/*` name none.
    """
    for item in accept.lower().split(","):
        media_type, _, parameters = item.partition(";")
        if media_type.strip() == wanted:
            weights = (each.strip() for each in parameters.split(";") if "q=0" in each)
            return not any(_NO_WEIGHT.fullmatch(each) for each in weights)
    return False


def refusal_members(refusal: Refusal, request_id: str) -> dict[str, Any]:
    """Return the members of a failure's envelope, in their order in the answer."""
    members: dict[str, Any] = {"ok": False, "error": refusal.code, "message": refusal.message}
    if refusal.quote is not None:
        # The operator's commands import this module, and the shapes would take a third of their time.
        from sublet.operations.shapes import QuoteShape  # noqa: PLC0415

        members["quote"] = QuoteShape.of(refusal.quote)
    members["errors"] = [
        {"field": error.field, "code": error.code, "message": error.message} for error in refusal.errors
    ]
    members["details"] = refusal.details
    members["request_id"] = request_id
    return members


def render_refusal(
    refusal: Refusal, request_id: str, accept: str = "", docs_path: str = ""
) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of the answer to a refused request.

    `accept` is the request's `Accept` header. `docs_path` is the path of the page that explains the codes,
    for RFC 9457's `type`.
    """
    status = status_of(type(refusal))
    members = refusal_members(refusal, request_id)
    headers = {"content-type": JSON_TYPE, **refusal_headers(refusal)}
    if names_media_type(accept, PROBLEM_TYPE):
        headers["content-type"] = PROBLEM_TYPE
        members |= {
            "type": f"{docs_path}#error-{refusal.code}",
            "title": HTTPStatus(status).phrase,
            "status": status,
            "detail": refusal.message,
        }
    if status == 401:
        # RFC 6750, section 3.1: a request without a token gets no error code.
        headers["www-authenticate"] = (
            "Bearer" if refusal.code == "token_missing" else 'Bearer error="invalid_token"'
        )
    return status, headers, msgspec.json.encode(members)


def refusal_headers(refusal: Refusal) -> dict[str, str]:
    """Return the headers of the answer that carries a refusal, as JSON or as a page."""
    headers = {}
    if isinstance(refusal, MethodNotAllowed):
        headers["allow"] = ", ".join(refusal.details["allow"])
    if status_of(type(refusal)) in (429, 503):
        headers["retry-after"] = str(refusal.retry_after_seconds or 1)
    return headers
