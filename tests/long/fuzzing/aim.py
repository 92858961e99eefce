"""What requests are aimed at: the operations of the OpenAPI document, good values, tokens; and what a request
is.
"""

from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]

WELL_FORMED, DAMAGED, RAW = "well-formed", "damaged", "raw"


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """An operation of the document: its path has `{name}` for parameters; the body's schema is without
    references.
    """

    method: str
    path: str
    queries: tuple[tuple[str, Schema], ...]
    body: Schema | None


@dataclass(frozen=True, slots=True)
class Aim:
    """What requests are aimed at; the same for every client."""

    address: tuple[str, int]
    operations: tuple[Operation, ...]
    texts: dict[str, list[str]]
    """Good values of members and parameters, by their name."""
    tokens: tuple[str, ...]
    bad_tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """Octets to send; `ends`: our side is ended after them, and the connection isn't used again."""

    kind: str
    operation: str
    token: str
    octets: bytes
    ends: bool = False


def operations_of(document: dict[str, Any]) -> tuple[Operation, ...]:
    """Return the operations of an OpenAPI document."""
    schemas = document["components"]["schemas"]
    found = []
    for path, methods in document["paths"].items():
        for method, each in methods.items():
            queries = tuple(
                (parameter["name"], _resolved(parameter["schema"], schemas))
                for parameter in each.get("parameters", [])
                if parameter["in"] == "query"
            )
            content = each.get("requestBody", {}).get("content", {})
            body = _resolved(content["application/json"]["schema"], schemas) if content else None
            found.append(Operation(method.upper(), path, queries, body))
    return tuple(found)


def _resolved(schema: Any, schemas: dict[str, Schema]) -> Any:
    """Return a schema with what its references stand for in their place."""
    if isinstance(schema, list):
        return [_resolved(each, schemas) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _resolved(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    return {name: _resolved(each, schemas) for name, each in schema.items()}
