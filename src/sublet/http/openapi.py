"""The OpenAPI 3.1 document, made from the operations: schemas of Structs, answers of refusals, then the
document.

msgspec derives the schema of a Struct from its types. This module adds what the types don't say: members that
the rules require, the forms of a DS entry, the 64 bits of numbers, and that texts have no NUL.
"""

import inspect
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from sublet import errors
from sublet.errors import (
    FIELD_CODES,
    FIELD_ERRORS_MAX,
    MALFORMED_FIELD_CODES,
    Category,
    MethodNotAllowed,
    NotFound,
    Refusal,
)
from sublet.http.errors import JSON_TYPE, PROBLEM_TYPE, STATUS_BY_CATEGORY, status_of
from sublet.http.head import ORGANIZATION_HEADER
from sublet.http.read_body import BODY_MAX_BYTES
from sublet.operations.client import COOKIE
from sublet.operations.operation import (
    BASE_PATH,
    DOCS_PATH,
    Operation,
    all_refusals,
)
from sublet.operations.shapes import (
    QUOTE,
    Body,
    FieldErrorShape,
    NoBody,
    PageShape,
    QuoteShape,
    TextOrObject,
)
from sublet.operations.tags import TAGS

REF_TEMPLATE = "#/components/schemas/{name}"
INTEGER_MAX = 2**63 - 1
TEXT_PATTERN = r"^[^\x00]*$"

Schema = dict[str, Any]


def reference(struct: type[msgspec.Struct]) -> Schema:
    """Return the reference to the schema of a Struct."""
    return {"$ref": REF_TEMPLATE.format(name=struct.__name__)}


def _components(structs: Iterable[type[msgspec.Struct]]) -> dict[str, Schema]:
    """Return the schemas of Structs and of the Structs inside them, by name."""
    _, found = msgspec.json.schema_components(list(structs), ref_template=REF_TEMPLATE)
    for schema in found.values():
        if "description" in schema:
            schema["description"] = _unwrap(schema["description"])
    return dict(found)


def _unwrap(docstring: str) -> str:
    """Return a docstring with each paragraph on one line, and an empty line between them."""
    return "\n\n".join(" ".join(each.split()) for each in docstring.split("\n\n"))


def body_schemas(structs: Iterable[type[Body]]) -> dict[str, Schema]:
    """Return the schemas of request bodies and of the Structs inside them, by name.

    Not in the schemas: that `nameservers` and `ns1` to `ns4` exclude each other, and rules that depend on
    stored data.
    """
    wanted = [*structs, *(form for each in TextOrObject.__subclasses__() for form in each.__subclasses__())]
    found = _components(wanted)
    for each in TextOrObject.__subclasses__():
        found.pop(each.__name__, None)
    schemas = {name: _with_limits(schema) for name, schema in found.items()}
    for struct in wanted:
        if struct.required_members:
            _require(schemas[struct.__name__], struct.required_members)
        if struct.required_alternatives:
            alternatives = [_object_with_members(*each) for each in struct.required_alternatives]
            schemas[struct.__name__]["anyOf"] = alternatives
    return schemas


def answer_schemas(structs: Iterable[type[msgspec.Struct]]) -> dict[str, Schema]:
    """Return the schemas of answers and of the Structs inside them, by name.

    Every member is required, because answers have them all.
    """
    found = _components(structs)
    for schema in found.values():
        for member in schema.get("properties", {}).values():
            member.pop("default", None)
        schema["required"] = list(schema.get("properties", {}))
    return found


def query_schemas(struct: type[msgspec.Struct]) -> dict[str, Schema]:
    """Return the schema of each query parameter of a Struct, by name. None of them is nullable."""
    properties: dict[str, Schema] = _components([struct])[struct.__name__]["properties"]
    schemas = {}
    for name, schema in properties.items():
        kinds = [kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
        schemas[name] = _with_limit(kinds[0])
    return schemas


def _with_limits(schema: Any) -> Any:
    """Return the schema of a body with the limits of numbers and texts in all its parts."""
    if isinstance(schema, list):
        return [_with_limits(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    for each in TextOrObject.__subclasses__():
        if schema.get("anyOf") == [{"type": "string"}, reference(each)]:
            text = {"type": "string", "pattern": TEXT_PATTERN, "description": each.text_description}
            return {"oneOf": [text, *(reference(form) for form in each.__subclasses__())]}
    kept = {name: _with_limits(part) for name, part in schema.items() if (name, part) != ("default", None)}
    if kept.get("required") == []:
        del kept["required"]
    return _with_limit(kept)


def _with_limit(schema: Schema) -> Schema:
    if schema.get("type") == "integer":
        return {"maximum": INTEGER_MAX, **schema}
    if schema.get("type") == "string" and not schema.keys() & {"pattern", "enum", "format"}:
        return {**schema, "pattern": TEXT_PATTERN}
    return schema


def _object_with_members(*members: str) -> Schema:
    """Return the schema of an object that has these members, none of them null."""
    return {
        "required": list(members),
        "properties": {
            member: {"type": "integer" if member.endswith("_id") else "string"} for member in members
        },
    }


def _require(schema: Schema, members: tuple[str, ...]) -> None:
    """Make members of a schema required and not nullable, in place."""
    schema["required"] = [*schema.get("required", []), *members]
    for member in members:
        kinds = schema["properties"][member]["anyOf"]
        schema["properties"][member] = next(kind for kind in kinds if kind.get("type") != "null")


PROBLEM_PREFIX = "problem_"
REQUEST_ID_EXAMPLE = "4bf92f3577b34da6a3ce929d0e0e4736"
_QUOTED = (errors.PaymentConfirmationRequired, errors.InsufficientCredits, errors.PriceChanged)
_DETAILS: dict[type[Refusal], dict[str, Any]] = {
    errors.MethodNotAllowed: {"allow": ["GET", "HEAD"]},
    errors.PayloadTooLarge: {"limit_bytes": BODY_MAX_BYTES},
    errors.InsufficientScope: {"required_scope": "credits:spend"},
    errors.InsufficientRole: {"role": "viewer", "required_scope": "subdomains:write"},
    errors.TokenRestricted: {"restriction": "networks"},
    errors.SignInRequired: {"limit_seconds": 600, "how": ["passkey", "operator"]},
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


def code_description(refusal: type[Refusal]) -> str:
    """Return the meaning of an error code: the docstring of its class, as one paragraph."""
    return " ".join(inspect.cleandoc(refusal.__doc__ or refusal.code).split())


def build_error_example(refusal: type[Refusal]) -> dict[str, Any]:
    """Return an example of the envelope for this error code."""
    members: dict[str, Any] = {
        "ok": False,
        "error": refusal.code,
        "message": code_description(refusal).split("; ")[0].rstrip("."),
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


def build_problem_example(refusal: type[Refusal]) -> dict[str, Any]:
    """Return the example of an error code as problem details of RFC 9457."""
    members = build_error_example(refusal)
    status = status_of(refusal)
    return members | {
        "type": f"{DOCS_PATH}#error-{refusal.code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": members["message"],
    }


def envelope_schemas() -> dict[str, Schema]:
    """Return the schemas of a failure's envelope: `Failure`, and `Problem` with the
    members of RFC 9457 too.
    """
    field_error = reference(FieldErrorShape)
    failure = {
        "title": "Failure",
        "description": "The answer to every request that fails.",
        "type": "object",
        "properties": {
            "ok": {"type": "boolean", "const": False},
            "error": {"type": "string", "description": "The error code, which programs can compare."},
            "message": {
                "type": "string",
                "description": "A message for the user: what is wrong, then what to do.",
            },
            "quote": reference(QuoteShape),
            "errors": {
                "type": "array",
                "items": field_error,
                "maxItems": FIELD_ERRORS_MAX,
                "description": "All malformed fields (400) or all invalid fields (422), but at most 50; "
                "`details.errors_omitted` counts the others.",
            },
            "details": {
                "type": "object",
                "properties": {
                    "errors_omitted": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "The number of wrong fields that `errors` "
                        "omits; absent if `errors` lists all.",
                    }
                },
                "description": "Members that depend on the code.",
            },
            "request_id": {"type": "string", "description": "The same as in `X-Request-Id`."},
        },
        "required": ["ok", "error", "message", "errors", "details", "request_id"],
    }
    problem_members = {
        "type": {
            "type": "string",
            "format": "uri-reference",
            "description": "The URL of the code's explanation.",
        },
        "title": {"type": "string", "description": "The reason phrase of the status."},
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
    """Return the schema of field error codes."""
    return {"type": "string", "enum": sorted({**FIELD_CODES, **MALFORMED_FIELD_CODES})}


def example_components(refusals: Iterable[type[Refusal]]) -> dict[str, Any]:
    """Return the examples that `responses` refers to, under the error code, and as problem details under
    `PROBLEM_PREFIX` and the code.
    """
    found = {}
    for refusal in refusals:
        found[refusal.code] = {"summary": code_description(refusal), "value": build_error_example(refusal)}
        found[PROBLEM_PREFIX + refusal.code] = {
            "summary": code_description(refusal),
            "value": build_problem_example(refusal),
        }
    return found


def responses(refusals: Sequence[type[Refusal]]) -> dict[str, dict[str, Any]]:
    """Return the responses of refusals by status, in ascending order.

    The codes of a status keep the given order.
    """
    by_status: dict[int, list[type[Refusal]]] = defaultdict(list)
    for refusal in refusals:
        by_status[status_of(refusal)].append(refusal)
    return {str(status): _response(status, by_status[status]) for status in sorted(by_status)}


def _response(status: int, refusals: list[type[Refusal]]) -> dict[str, Any]:
    lines = (f"- `{refusal.code}`: {code_description(refusal)}" for refusal in refusals)
    return {
        "description": f"{HTTPStatus(status).phrase}\n\n" + "\n".join(lines),
        "headers": _headers(status),
        "content": {
            JSON_TYPE: {
                "schema": _schema("Failure", refusals),
                "examples": _references(refusals, ""),
            },
            PROBLEM_TYPE: {
                "schema": _schema("Problem", refusals),
                "examples": _references(refusals, PROBLEM_PREFIX),
            },
        },
    }


def _references(refusals: Sequence[type[Refusal]], prefix: str) -> dict[str, Any]:
    return {refusal.code: {"$ref": f"#/components/examples/{prefix}{refusal.code}"} for refusal in refusals}


def _schema(base: str, refusals: list[type[Refusal]]) -> Schema:
    """Return the schema of a status with its codes.

    `quote` is required with the codes that are about a price.
    """
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
    if status == STATUS_BY_CATEGORY[Category.UNAUTHENTICATED]:
        found["WWW-Authenticate"] = {"$ref": "#/components/headers/WWW-Authenticate"}
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        found["Allow"] = {"$ref": "#/components/headers/Allow"}
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        found["Retry-After"] = {"$ref": "#/components/headers/Retry-After"}
    return found


SECURITY_SCHEME, SESSION_SCHEME, ORGANIZATION_SCHEME = "token", "session", "organization"
_INTRODUCTION = """\
Register names under platform domains, delegate them to your nameservers, renew and delete them.

Every answer is JSON. A success has `"ok": true` and named members. A failure has `"ok": false`, a code in `error`, a sentence in
`message`, and all malformed fields (400) or all invalid fields (422) in `errors`. With `Accept: application/problem+json` it also has the
members of problem details (RFC 9457).

A paid request first answers 402 with a `quote` and does nothing; the same request with `"confirm": true` completes it. Send an
`Idempotency-Key` with every write: a repeated request then takes effect once. Unknown members and query parameters are refused, and so is
an integer with a fraction or an exponent (`1.0`).
"""  # noqa: E501
# A path segment has no `/`, no control character, no character with a meaning in URLs, and no leading dot:
# clients resolve `.` and `..`.
_SEGMENT: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 254,
    "pattern": r"^[^\x00-\x20\x7f/\\?#%.][^\x00-\x20\x7f/\\?#%]*$",
}
_TAG_EXAMPLE = '"5f2b1c0d9e8a4f7b-6c3d2e1f0a9b8c7d"'
_HEADERS: dict[str, dict[str, Any]] = {
    "X-Request-Id": {
        "description": "The id of this request in the service's log: the "
        "client's `X-Request-Id` if it is valid, "
        "otherwise a new id.",
        "required": True,
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
        "example": REQUEST_ID_EXAMPLE,
    },
    "RateLimit": {
        "description": "The remaining requests: r in the next t seconds. Absent if rate limits are off.",
        "schema": {"type": "string"},
        "example": '"read";r=299;t=60',
    },
    "RateLimit-Policy": {
        "description": "The limit: q requests in w seconds. Absent if rate limits are off.",
        "schema": {"type": "string"},
        "example": '"read";q=300;w=60',
    },
    "Link": {
        "description": 'The URL of the next page, with `rel="next"`; absent on the last page.',
        "schema": {"type": "string"},
        "example": '</api/v1/subdomains?limit=100&cursor=bmV4dA>; rel="next"',
    },
    "ETag": {
        "description": "The tag of this answer, for `If-None-Match` of "
        "this request and `If-Match` of changes.",
        "required": True,
        "schema": {"type": "string", "pattern": '^"[0-9a-f]{16}-[0-9a-f]{16}"$'},
        "example": _TAG_EXAMPLE,
    },
    "Idempotent-Replayed": {
        "description": "Present if this repeats the answer to an earlier "
        "request with the same `Idempotency-Key`.",
        "schema": {"type": "string", "enum": ["true"]},
        "example": "true",
    },
    "WWW-Authenticate": {
        "description": "The authentication scheme (RFC 6750).",
        "required": True,
        "schema": {"type": "string", "pattern": "^Bearer"},
        "example": 'Bearer error="invalid_token"',
    },
    "Retry-After": {
        "description": "The number of seconds to wait before the next attempt.",
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


def build_document(operations: Sequence[Operation], base_url: str, version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of these operations, in their order.

    `base_url` is the URL of the API for clients.
    """
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        shown = paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
        if operation.is_open:
            shown["servers"] = [{"url": base_url.rstrip("/").removesuffix(BASE_PATH)}]
    return {
        "openapi": "3.1.0",
        "info": {"title": "Sublet", "version": version, "description": _INTRODUCTION},
        "servers": [{"url": base_url.rstrip("/")}],
        "tags": [{"name": name, "description": description} for name, description in TAGS.items()],
        "paths": paths,
        "components": {
            "securitySchemes": {
                SECURITY_SCHEME: {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "`Authorization: Bearer <API_TOKEN>`. The "
                    "operator or POST /tokens issues a token.",
                },
                SESSION_SCHEME: {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": COOKIE,
                    "description": "The session of a signed-in browser. A request "
                    "with `Authorization` ignores it. A "
                    "change must have an `Origin` or `Sec-Fetch-Site` of this service.",
                },
                ORGANIZATION_SCHEME: {
                    "type": "apiKey",
                    "in": "header",
                    "name": ORGANIZATION_HEADER,
                    "description": "The id of the organization that a session acts "
                    "for, with the user's role there. "
                    "Without it the session acts for its user. It isn't secret. A request with a token "
                    "may not send it.",
                },
            },
            "headers": _HEADERS,
            "examples": example_components(
                dict.fromkeys(refusal for operation in operations for refusal in _refusals(operation))
            ),
            "schemas": _schemas(operations),
        },
    }


def _schemas(operations: Sequence[Operation]) -> dict[str, Any]:
    bodies = [operation.body for operation in operations if operation.body is not None]
    answers = [operation.answer for operation in operations]
    shapes = answer_schemas(dict.fromkeys([*answers, FieldErrorShape, QuoteShape, PageShape]))
    shapes[FieldErrorShape.__name__]["properties"]["code"] = field_code_schema()
    return body_schemas(dict.fromkeys(bodies)) | shapes | envelope_schemas()


def _operation(operation: Operation) -> dict[str, Any]:
    refusals = _refusals(operation)
    shown: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": f"{operation.description}\n\nScope: {_scope(operation)}. "
        f"Rate limit: `{operation.rate_class}`.",
        "security": _security(operation),
    }
    if parameters := _parameters(operation):
        shown["parameters"] = parameters
    if body := _request_body(operation):
        shown["requestBody"] = body
    shown["responses"] = {str(operation.status): _success(operation)} | responses(refusals)
    if operation.has_etag:
        names = ("X-Request-Id", "RateLimit", "RateLimit-Policy", "ETag")
        shown["responses"]["304"] = {
            "description": "Unchanged: `If-None-Match` has the current `ETag`.",
            "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in names},
        }
    shown["x-refusals"] = [refusal.code for refusal in refusals]
    return shown


def _security(operation: Operation) -> list[dict[str, list[str]]]:
    if operation.is_open:
        return []
    by_session: dict[str, list[str]] = {SESSION_SCHEME: []}
    if operation.needs_session:
        return [by_session]
    for_organization: dict[str, list[str]] = {SESSION_SCHEME: [], ORGANIZATION_SCHEME: []}
    # In OpenAPI 3.1 a security requirement of any scheme may list scopes.
    return [
        {SECURITY_SCHEME: [] if operation.scope is None else [operation.scope]},
        by_session,
        for_organization,
    ]


def _scope(operation: Operation) -> str:
    if operation.is_open:
        return "none, no token needed"
    if operation.needs_session:
        return "none, but needs a session"
    return "none, any valid token" if operation.scope is None else f"`{operation.scope}`"


def _refusals(operation: Operation) -> tuple[type[Refusal], ...]:
    """Return every refusal of an operation and of its path, in the order in which they are checked."""
    of_path: tuple[type[Refusal], ...] = (MethodNotAllowed,)
    if "{" in operation.path:
        of_path = (NotFound, MethodNotAllowed)
    return tuple(dict.fromkeys((*of_path, *all_refusals(operation))))


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    found = [
        {"name": name, "in": "path", "required": True, "schema": _SEGMENT, **each._asdict()}
        for name, each in operation.parameters.items()
    ]
    if operation.query is not None:
        for name, schema in query_schemas(operation.query).items():
            description = schema.pop("description", None)
            parameter: dict[str, Any] = {"name": name, "in": "query", "required": False, "schema": schema}
            found.append(parameter | ({"description": description} if description else {}))
    if operation.takes_idempotency_key:
        found.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "description": "A text of the client's choice, different for each "
                "request. Within 24 hours the same "
                "request with the same key "
                "takes effect once.",
                "schema": {"type": "string", "pattern": "^[\\x21-\\x7e]{1,255}$"},
                "example": "0f8fad5b-d9cb-469f-a165-70867728950e",
            }
        )
    if operation.has_etag:
        found.append(
            _tags_parameter("If-None-Match", "Answer 304 without a body if the list has the current `ETag`.")
        )
    if operation.takes_if_match:
        found.append(
            _tags_parameter("If-Match", "Make the change only if the list has the resource's current `ETag`.")
        )
    return found


def _tags_parameter(name: str, description: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": f"{description} `*` stands for any.",
        "schema": {"type": "string"},
        "example": _TAG_EXAMPLE,
    }


def _request_body(operation: Operation) -> dict[str, Any] | None:
    """Return the request body; None for a DELETE that takes only an empty object, because HTTP defines no
    meaning for its body.
    """
    if operation.body is None or (operation.method == "DELETE" and operation.body is NoBody):
        return None
    media: dict[str, Any] = {"schema": reference(operation.body)}
    media["example"] = operation.example_body
    return {
        "required": bool(
            operation.body.required_members
            or operation.body.required_alternatives
            or any(each.required for each in msgspec.structs.fields(operation.body))
        ),
        "content": _text(operation, operation.example_body) | {JSON_TYPE: media},
    }


def _success(operation: Operation) -> dict[str, Any]:
    names = ["X-Request-Id", "RateLimit", "RateLimit-Policy"]
    if "page" in operation.answer.__struct_fields__:
        names.append("Link")
    if operation.has_etag:
        names.append("ETag")
    if operation.takes_idempotency_key:
        names.append("Idempotent-Replayed")
    media: dict[str, Any] = {"schema": reference(operation.answer)}
    media["example"] = {"ok": True, **operation.example}
    return {
        "description": _unwrap(operation.answer.__doc__ or HTTPStatus(operation.status).phrase),
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in names},
        "content": ({} if operation.takes_body else _text(operation, operation.example)) | {JSON_TYPE: media},
    }


def _text(operation: Operation, example: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the text that a body or an answer may be instead of JSON; empty if it may not."""
    if operation.text is None:
        return {}
    media = {"schema": {"type": "string"}, "example": (example or {})[operation.text.member]}
    return {operation.text.media_type: media}
