"""JSON schemas of the Structs on the wire, made as exact as what is really taken and given.

msgspec derives a schema from a Struct's types. What it can't know is put in here: members that rules ask for, the forms of a
DS entry, that numbers end at 64 bits and that no text has a NUL (RFC 8259 leaves both to the receiver).
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from sublet.http.bodies import (
    AutoRenewBody,
    Dnskey,
    DsEntry,
    DsRecord,
    RegisterBody,
    RemindersBody,
    ReplyBody,
    TicketBody,
)

REF_TEMPLATE = "#/components/schemas/{name}"
INTEGER_MAX = 2**63 - 1
TEXT_PATTERN = r"^[^\x00]*$"
REQUIRED_MEMBERS: dict[str, tuple[str, ...]] = {
    AutoRenewBody.__name__: ("enabled",),
    TicketBody.__name__: ("subject", "message"),
    ReplyBody.__name__: ("message",),
    RemindersBody.__name__: ("enabled",),
}
"""Members that the spec (part 4) or an extension requires. The Structs have them optional so that a missing one is told with the rest (422)."""
_DS_FORMS = (DsRecord, Dnskey)

Schema = dict[str, Any]


def reference(struct: type[msgspec.Struct]) -> Schema:
    """Return the reference to the schema of a Struct."""
    return {"$ref": REF_TEMPLATE.format(name=struct.__name__)}


def body_schemas(structs: Iterable[type[msgspec.Struct]]) -> dict[str, Schema]:
    """Return the schemas of request bodies, by name, with those of everything inside them.

    Not in them, since JSON Schema has no good words for it: that `nameservers` and `ns1` to `ns4` exclude each other, and all
    that depends on what is stored.
    """
    _, found = msgspec.json.schema_components([*structs, *_DS_FORMS], ref_template=REF_TEMPLATE)
    found.pop(DsEntry.__name__, None)
    schemas = {name: _sent(schema) for name, schema in found.items()}
    for name, members in REQUIRED_MEMBERS.items():
        if name in schemas:
            _require(schemas[name], members)
    if RegisterBody.__name__ in schemas:
        schemas[RegisterBody.__name__]["anyOf"] = [
            _with("fqdn"),
            _with("label", "platform_domain_id"),
            _with("label", "domain"),
        ]
    return schemas


def answer_schemas(structs: Iterable[type[msgspec.Struct]]) -> dict[str, Schema]:
    """Return the schemas of answers, by name, with those of everything inside them: every member is always there."""
    _, found = msgspec.json.schema_components(list(structs), ref_template=REF_TEMPLATE)
    for schema in found.values():
        for member in schema.get("properties", {}).values():
            member.pop("default", None)
        schema["required"] = list(schema.get("properties", {}))
    return dict(found)


def query_schemas(struct: type[msgspec.Struct]) -> dict[str, Schema]:
    """Return the schema of each query parameter of a Struct, by name. A parameter has no null: it is left out."""
    _, found = msgspec.json.schema_components([struct], ref_template=REF_TEMPLATE)
    properties: dict[str, Schema] = found[struct.__name__]["properties"]
    schemas = {}
    for name, schema in properties.items():
        kinds = [kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
        schemas[name] = _exact(kinds[0])
    return schemas


def _sent(schema: Any) -> Any:
    """Return a schema of a body with all its parts exact."""
    if isinstance(schema, list):
        return [_sent(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("anyOf") == [{"type": "string"}, reference(DsEntry)]:
        text = {"type": "string", "pattern": TEXT_PATTERN, "description": "The zone-file text of either."}
        return {"oneOf": [text, *(reference(form) for form in _DS_FORMS)]}
    kept = {name: _sent(part) for name, part in schema.items() if (name, part) != ("default", None)}
    if kept.get("required") == []:
        del kept["required"]
    return _exact(kept)


def _exact(schema: Schema) -> Schema:
    if schema.get("type") == "integer":
        return {"maximum": INTEGER_MAX, **schema}
    if schema.get("type") == "string" and not schema.keys() & {"pattern", "enum", "format"}:
        return {**schema, "pattern": TEXT_PATTERN}
    return schema


def _with(*members: str) -> Schema:
    """Return the schema of an object that has these members, not null."""
    return {
        "required": list(members),
        "properties": {
            member: {"type": "integer" if member.endswith("_id") else "string"} for member in members
        },
    }


def _require(schema: Schema, members: tuple[str, ...]) -> None:
    """Make members required in place, and no longer nullable."""
    schema["required"] = list(members)
    for member in members:
        kinds = schema["properties"][member]["anyOf"]
        schema["properties"][member] = next(kind for kind in kinds if kind.get("type") != "null")
