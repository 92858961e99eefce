"""The answers of refusals in the OpenAPI document: one response a status, one named example a code."""

import inspect
from collections import defaultdict
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

from sublet import errors
from sublet.errors import FIELD_CODES, FIELD_ERRORS_MAX, MALFORMED_FIELD_CODES, Category, Refusal
from sublet.http import errors as http_errors
from sublet.http.endpoints import DOCS_PATH
from sublet.http.examples import QUOTE
from sublet.http.json_body import BODY_MAX_BYTES
from sublet.http.openapi_schemas import Schema, reference
from sublet.http.shapes import FieldErrorShape, QuoteShape

PROBLEM_PREFIX = "problem_"
REQUEST_ID_EXAMPLE = "4bf92f3577b34da6a3ce929d0e0e4736"
_QUOTED = (errors.PaymentConfirmationRequired, errors.InsufficientCredits, errors.PriceChanged)
_DETAILS: dict[type[Refusal], dict[str, Any]] = {
    http_errors.MethodNotAllowed: {"allow": ["GET", "HEAD"]},
    http_errors.PayloadTooLarge: {"limit_bytes": BODY_MAX_BYTES},
    errors.InsufficientScope: {"required_scope": "credits:spend"},
    errors.FreeQuotaExceeded: {"limit": 5, "used": 5},
    errors.SubdomainNotFound: {"in_trash": True, "restorable_until": "2026-12-21T09:30:00Z"},
    errors.SubdomainUnavailable: {"reason": "taken", "owned": False},
    errors.RenewalNotAvailable: {
        "opens_at": "2027-09-22T09:30:00Z",
        "expires_at": "2027-11-21T09:30:00Z",
        "last_renewed_at": None,
    },
}
_FIELD_EXAMPLES: dict[type[Refusal], dict[str, str]] = {
    errors.InvalidRequest: {
        "field": "nameserver",
        "code": "unknown_field",
        "message": "unknown field `nameserver`; did you mean `nameservers`?",
    },
    errors.ValidationFailed: {"field": "label", "code": "label_invalid", "message": "is not a host name"},
}


def meaning(refusal: type[Refusal]) -> str:
    """Return what a code means: the text of its class, as one paragraph."""
    return " ".join(inspect.cleandoc(refusal.__doc__ or refusal.code).split())


def example(refusal: type[Refusal]) -> dict[str, Any]:
    """Return an envelope as the service would send it for this code."""
    members: dict[str, Any] = {
        "ok": False,
        "error": refusal.code,
        "message": meaning(refusal).split("; ")[0].rstrip("."),
    }
    if refusal in _QUOTED:
        short = refusal is errors.InsufficientCredits
        money = {"balance": 2, "balance_after": -3, "sufficient": False, "shortfall": 3} if short else {}
        members["quote"] = QUOTE | money
    members["message"] += "."
    members["errors"] = [_FIELD_EXAMPLES[refusal]] if refusal in _FIELD_EXAMPLES else []
    members["details"] = _DETAILS.get(refusal, {})
    members["request_id"] = REQUEST_ID_EXAMPLE
    return members


def problem(refusal: type[Refusal]) -> dict[str, Any]:
    """Return the same as RFC 9457's problem details."""
    members = example(refusal)
    status = http_errors.status_of(refusal)
    return members | {
        "type": f"{DOCS_PATH}#error-{refusal.code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": members["message"],
    }


def envelope_schemas() -> dict[str, Schema]:
    """Return the schemas of the envelope of failures: `Failure`, and `Problem` with RFC 9457's members too."""
    field_error = reference(FieldErrorShape)
    failure = {
        "title": "Failure",
        "description": "What every failure is answered with.",
        "type": "object",
        "properties": {
            "ok": {"type": "boolean", "const": False},
            "error": {"type": "string", "description": "The code, for programs."},
            "message": {"type": "string", "description": "One sentence that a person can act on."},
            "quote": reference(QuoteShape),
            "errors": {
                "type": "array",
                "items": field_error,
                "maxItems": FIELD_ERRORS_MAX,
                "description": "Malformed fields (400), or invalid ones (422); `details.errors_omitted` counts those beyond 50.",
            },
            "details": {
                "type": "object",
                "properties": {
                    "errors_omitted": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "How many wrong fields `errors` leaves out; absent where it has them all.",
                    }
                },
                "description": "Members that the code defines.",
            },
            "request_id": {"type": "string", "description": "The same as in `X-Request-Id`."},
        },
        "required": ["ok", "error", "message", "errors", "details", "request_id"],
    }
    problem_members = {
        "type": {"type": "string", "format": "uri-reference", "description": "Where the code is explained."},
        "title": {"type": "string", "description": "The status as text."},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string", "description": "The same as `message`."},
    }
    return {
        "Failure": failure,
        "Problem": {
            "title": "Problem",
            "description": "A failure as problem details (RFC 9457), for `Accept: application/problem+json`.",
            "type": "object",
            "allOf": [{"$ref": "#/components/schemas/Failure"}],
            "properties": problem_members,
            "required": list(problem_members),
        },
    }


def field_code_schema() -> Schema:
    """Return the schema of the code of one wrong field."""
    return {"type": "string", "enum": sorted({**FIELD_CODES, **MALFORMED_FIELD_CODES})}


def example_components(refusals: Iterable[type[Refusal]]) -> dict[str, Any]:
    """Return the examples of refusals that `responses` refers to: plain under the code, as problem details with a prefix."""
    found = {}
    for refusal in refusals:
        found[refusal.code] = {"summary": meaning(refusal), "value": example(refusal)}
        found[PROBLEM_PREFIX + refusal.code] = {"summary": meaning(refusal), "value": problem(refusal)}
    return found


def responses(refusals: Sequence[type[Refusal]]) -> dict[str, dict[str, Any]]:
    """Return the responses of refusals by status, in ascending order; the codes of each stay in the order given."""
    by_status: dict[int, list[type[Refusal]]] = defaultdict(list)
    for refusal in refusals:
        by_status[http_errors.status_of(refusal)].append(refusal)
    return {str(status): _response(status, by_status[status]) for status in sorted(by_status)}


def _response(status: int, refusals: list[type[Refusal]]) -> dict[str, Any]:
    lines = (f"- `{refusal.code}`: {meaning(refusal)}" for refusal in refusals)
    return {
        "description": f"{HTTPStatus(status).phrase}\n\n" + "\n".join(lines),
        "headers": _headers(status),
        "content": {
            http_errors.JSON_TYPE: {
                "schema": _schema("Failure", refusals),
                "examples": _references(refusals, ""),
            },
            http_errors.PROBLEM_TYPE: {
                "schema": _schema("Problem", refusals),
                "examples": _references(refusals, PROBLEM_PREFIX),
            },
        },
    }


def _references(refusals: Sequence[type[Refusal]], prefix: str) -> dict[str, Any]:
    return {refusal.code: {"$ref": f"#/components/examples/{prefix}{refusal.code}"} for refusal in refusals}


def _schema(base: str, refusals: list[type[Refusal]]) -> Schema:
    """Return the schema of a status: its codes; `quote` wherever a price is the matter."""
    schema: Schema = {
        "allOf": [{"$ref": f"#/components/schemas/{base}"}],
        "type": "object",
        "properties": {"error": {"enum": [refusal.code for refusal in refusals]}},
    }
    quoted = [refusal.code for refusal in refusals if refusal in _QUOTED]
    if len(quoted) == len(refusals):
        schema["required"] = ["quote"]
    elif quoted:
        schema["if"] = {"properties": {"error": {"enum": quoted}}, "required": ["error"]}
        schema["then"] = {"required": ["quote"]}
    return schema


def _headers(status: int) -> dict[str, Any]:
    names = ["X-Request-Id"]
    if status not in (HTTPStatus.UNAUTHORIZED, HTTPStatus.METHOD_NOT_ALLOWED):
        names += ["RateLimit", "RateLimit-Policy"]
    found = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
    if status == http_errors.STATUS_BY_CATEGORY[Category.UNAUTHENTICATED]:
        found["WWW-Authenticate"] = {"$ref": "#/components/headers/WWW-Authenticate"}
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        found["Allow"] = {"$ref": "#/components/headers/Allow"}
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        found["Retry-After"] = {"$ref": "#/components/headers/Retry-After"}
    return found
