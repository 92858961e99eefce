"""The OpenAPI 3.1 document, made from the route table: what the code does and what the document says are one source."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from sublet.errors import NotFound, Refusal
from sublet.http.bodies import NoBody, RegisterBody
from sublet.http.endpoints import Endpoint, all_refusals, takes_body
from sublet.http.errors import JSON_TYPE, MethodNotAllowed
from sublet.http.openapi_refusals import (
    REQUEST_ID_EXAMPLE,
    envelope_schemas,
    example_components,
    field_code_schema,
    responses,
)
from sublet.http.openapi_schemas import (
    REQUIRED_MEMBERS,
    answer_schemas,
    body_schemas,
    query_schemas,
    reference,
)
from sublet.http.shapes import FieldErrorShape, PageShape, QuoteShape

SECURITY_SCHEME = "token"
_TAGS = {
    "Account and credits": "Who the token stands for, and the account's credits.",
    "Subdomains": "Registered names and their delegation in the DNS.",
    "Support tickets": "Questions to the people who run the service.",
}
_INTRODUCTION = """\
Register names under platform domains, delegate them to your nameservers, renew and delete them.

Every answer is JSON. A success has `"ok": true` and named members; a failure has `"ok": false`, a code in `error`, a sentence in
`message`, all malformed fields (400) or all invalid ones (422) in `errors`, and is problem details (RFC 9457) too with `Accept: application/problem+json`.

A paid request first answers 402 with a `quote` and does nothing; the same request with `"confirm": true` completes it. Send an
`Idempotency-Key` with every write: a repeated request then acts once. Unknown members and query parameters are refused,
and so is an integer written with a fraction or an exponent (`1.0`).
"""
_PATH_PARAMETERS: dict[str, dict[str, Any]] = {
    "fqdn": {
        "description": "The name in any case, with or without the final dot, as U-labels or A-labels; or the subdomain's id.",
        "example": "blog.example.net",
    },
    "id": {"description": "The ticket's id or its number.", "example": "T-000123"},
}
# Neither `/` nor controls can be in one segment of a path, and clients take `.` and `..` for other paths.
_SEGMENT: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 254,
    "pattern": r"^[^\x00-\x20\x7f/\\?#%.][^\x00-\x20\x7f/\\?#%]*$",
}
_HEADERS: dict[str, dict[str, Any]] = {
    "X-Request-Id": {
        "description": "Names this request in the service's log; the client's own where it sent a good one.",
        "required": True,
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
        "example": REQUEST_ID_EXAMPLE,
    },
    "RateLimit": {
        "description": "What is left: r requests in the next t seconds. Absent where limits are off.",
        "schema": {"type": "string"},
        "example": '"read";r=299;t=60',
    },
    "RateLimit-Policy": {
        "description": "The limit: q requests in w seconds. Absent where limits are off.",
        "schema": {"type": "string"},
        "example": '"read";q=300;w=60',
    },
    "Link": {
        "description": 'The next page, with `rel="next"`; absent on the last one.',
        "schema": {"type": "string"},
        "example": '</api/v1/subdomains?limit=100&cursor=bmV4dA>; rel="next"',
    },
    "Idempotent-Replayed": {
        "description": "This answer repeats that of an earlier request with the same `Idempotency-Key`.",
        "schema": {"type": "string", "enum": ["true"]},
        "example": "true",
    },
    "WWW-Authenticate": {
        "description": "How to authenticate (RFC 6750).",
        "required": True,
        "schema": {"type": "string", "pattern": "^Bearer"},
        "example": 'Bearer error="invalid_token"',
    },
    "Retry-After": {
        "description": "Seconds after which to ask again.",
        "required": True,
        "schema": {"type": "integer", "minimum": 1},
        "example": 30,
    },
    "Allow": {
        "description": "The methods that the path takes.",
        "required": True,
        "schema": {"type": "string"},
        "example": "GET, HEAD",
    },
}


def build_document(endpoints: Sequence[Endpoint], base_url: str, version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of these endpoints, in their order. `base_url` is the server's, for clients."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Sublet", "version": version, "description": _INTRODUCTION},
        "servers": [{"url": base_url.rstrip("/")}],
        "tags": [{"name": name, "description": description} for name, description in _TAGS.items()],
        "paths": paths,
        "components": {
            "securitySchemes": {
                SECURITY_SCHEME: {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "`Authorization: Bearer <API_TOKEN>`; the operator of the service issues tokens.",
                }
            },
            "headers": _HEADERS,
            "examples": example_components(
                dict.fromkeys(refusal for endpoint in endpoints for refusal in _refusals(endpoint))
            ),
            "schemas": _schemas(endpoints),
        },
    }


def _schemas(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    bodies = [endpoint.body for endpoint in endpoints if endpoint.body is not None]
    answers = [endpoint.answer for endpoint in endpoints]
    shapes = answer_schemas(dict.fromkeys([*answers, FieldErrorShape, QuoteShape, PageShape]))
    shapes[FieldErrorShape.__name__]["properties"]["code"] = field_code_schema()
    return body_schemas(dict.fromkeys(bodies)) | shapes | envelope_schemas()


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    refusals = _refusals(endpoint)
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "tags": [_tag(endpoint.path)],
        "summary": endpoint.summary,
        "description": f"{endpoint.description}\n\nScope: {_scope(endpoint)}. Rate limit: `{endpoint.rate_class}`.",
        # OpenAPI 3.1 lets a requirement of any scheme list what the credential must be good for.
        "security": [{SECURITY_SCHEME: [] if endpoint.scope is None else [endpoint.scope]}],
    }
    if parameters := _parameters(endpoint):
        operation["parameters"] = parameters
    if body := _request_body(endpoint):
        operation["requestBody"] = body
    operation["responses"] = {str(endpoint.status): _success(endpoint)} | responses(refusals)
    operation["x-refusals"] = [refusal.code for refusal in refusals]
    return operation


def _scope(endpoint: Endpoint) -> str:
    return "none, any valid token will do" if endpoint.scope is None else f"`{endpoint.scope}`"


def _refusals(endpoint: Endpoint) -> tuple[type[Refusal], ...]:
    """Return every refusal in the order checked, with those of its path: another method, and a path of another form."""
    of_path: tuple[type[Refusal], ...] = (MethodNotAllowed,)
    if "{" in endpoint.path:
        of_path = (NotFound, MethodNotAllowed)
    return tuple(dict.fromkeys((*of_path, *all_refusals(endpoint))))


def _tag(path: str) -> str:
    if path.startswith("/subdomains"):
        return "Subdomains"
    return "Support tickets" if path.startswith("/support/") else "Account and credits"


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    found = [
        {"name": name, "in": "path", "required": True, "schema": _SEGMENT, **described}
        for name, described in _PATH_PARAMETERS.items()
        if f"{{{name}}}" in endpoint.path
    ]
    if endpoint.query is not None:
        for name, schema in query_schemas(endpoint.query).items():
            description = schema.pop("description", None)
            parameter: dict[str, Any] = {"name": name, "in": "query", "required": False, "schema": schema}
            found.append(parameter | ({"description": description} if description else {}))
    if takes_body(endpoint):
        found.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "description": "Any text of the client's choice, new for each request: within 24 hours the same request with "
                "the same key acts once.",
                "schema": {"type": "string", "pattern": "^[\\x21-\\x7e]{1,255}$"},
                "example": "0f8fad5b-d9cb-469f-a165-70867728950e",
            }
        )
    return found


def _request_body(endpoint: Endpoint) -> dict[str, Any] | None:
    """Return the body; none for DELETE, where HTTP gives one no meaning and only an empty object is taken."""
    if endpoint.body is None or (endpoint.method == "DELETE" and endpoint.body is NoBody):
        return None
    media: dict[str, Any] = {"schema": reference(endpoint.body)}
    if "body" in endpoint.examples:
        media["example"] = endpoint.examples["body"]
    name = endpoint.body.__name__
    return {
        "required": name in REQUIRED_MEMBERS or name == RegisterBody.__name__,
        "content": {JSON_TYPE: media},
    }


def _success(endpoint: Endpoint) -> dict[str, Any]:
    names = ["X-Request-Id", "RateLimit", "RateLimit-Policy"]
    if "page" in endpoint.answer.__struct_fields__:
        names.append("Link")
    if takes_body(endpoint):
        names.append("Idempotent-Replayed")
    media: dict[str, Any] = {"schema": reference(endpoint.answer)}
    if "answer" in endpoint.examples:
        media["example"] = endpoint.examples["answer"]
    return {
        "description": (endpoint.answer.__doc__ or HTTPStatus(endpoint.status).phrase).strip(),
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in names},
        "content": {JSON_TYPE: media},
    }
