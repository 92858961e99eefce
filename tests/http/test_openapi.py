"""The documents say what the code does: the OpenAPI document from the route table, and the page from the
document.
"""

import json
import re
from functools import cache
from typing import Any, ClassVar

import jsonschema_rs
import msgspec
import pytest
from markupsafe import escape
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from sublet.http.docs_page import build_reference
from sublet.http.errors import status_of
from sublet.http.openapi import body_schemas, build_document
from sublet.http.read_structs import Reading, read_members
from sublet.operations.operation import Operation, all_refusals
from sublet.operations.shapes import Body
from sublet.surfaces import API_OPERATIONS

BASE_URL = "https://registry.example/api/v1"
DOCUMENT = build_document(API_OPERATIONS, BASE_URL, "1.2.3")
REFERENCE = build_reference(DOCUMENT)
PAGE = "".join(entry.html for group in REFERENCE.groups for entry in group.entries)
each_operation = pytest.mark.parametrize("operation", API_OPERATIONS, ids=lambda operation: operation.name)


def operation_of(operation: Operation) -> dict[str, Any]:
    shown: dict[str, Any] = DOCUMENT["paths"][operation.path][operation.method.lower()]
    return shown


def validator(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    return _validator(json.dumps(schema))


@cache
def _validator(schema: str) -> jsonschema_rs.Draft202012Validator:
    whole = {**json.loads(schema), "components": DOCUMENT["components"]}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)


def resolved(value: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in value:
        return value
    found: Any = DOCUMENT
    for part in value["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return dict(found)


def references(value: Any) -> set[str]:
    return set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(value)))


def body_accepts(name: str, body: Any) -> bool:
    return bool(validator({"$ref": f"#/components/schemas/{name}"}).is_valid(body))


def test_document_is_openapi_3_1_and_all_references_exist() -> None:
    OPENAPI_31_VALIDATOR.validate(DOCUMENT)
    for reference in references(DOCUMENT):
        assert resolved({"$ref": reference})
    assert DOCUMENT["servers"] == [{"url": BASE_URL}]
    assert DOCUMENT["info"]["version"] == "1.2.3"
    ids = [operation_of(operation)["operationId"] for operation in API_OPERATIONS]
    assert len(set(ids)) == len(ids)
    for schema in DOCUMENT["components"]["schemas"].values():
        validator(schema)


def test_texts_have_no_indents_of_docstrings() -> None:
    assert not re.findall(r"\\n .{20}", json.dumps(DOCUMENT))


@each_operation
def test_answer_example_fits_struct_and_schema(operation: Operation) -> None:
    media = operation_of(operation)["responses"][str(operation.status)]["content"]["application/json"]
    msgspec.convert(media["example"], operation.answer, strict=False)
    validator(media["schema"]).validate(media["example"])
    for member in operation.answer.__struct_fields__:
        without = {name: value for name, value in media["example"].items() if name != member}
        assert not validator(media["schema"]).is_valid(without), f"{member} is not required"


@each_operation
def test_body_example_fits_struct_and_schema(operation: Operation) -> None:
    body = operation_of(operation).get("requestBody")
    if body is None:
        assert operation.method in ("GET", "DELETE")
        return
    assert operation.body is not None
    media = body["content"]["application/json"]
    reading = Reading()
    assert read_members(media["example"], operation.body, reading) is not None, reading
    schema = validator(media["schema"])
    schema.validate(media["example"])
    assert not schema.is_valid({**media["example"], "unknown": 1})
    assert body["required"] != schema.is_valid({}), "a body may be left out where an empty object is taken"


@pytest.mark.uncovered
@each_operation
def test_every_refusal_is_documented_with_an_example(operation: Operation) -> None:
    shown = operation_of(operation)
    refusals = all_refusals(operation)
    codes = [refusal.code for refusal in refusals]
    assert [code for code in shown["x-refusals"] if code in codes] == codes, "in the order checked"
    for refusal in refusals:
        content = shown["responses"][str(status_of(refusal))]["content"]
        assert set(content) == {"application/json", "application/problem+json"}
        for media in content.values():
            example = resolved(media["examples"][refusal.code])["value"]
            assert example["error"] == refusal.code
            validator(media["schema"]).validate(example)
            assert not validator(media["schema"]).is_valid({**example, "error": "made_up"})


@each_operation
def test_parameters_headers_and_security(operation: Operation) -> None:
    shown = operation_of(operation)
    parameters = {(each["in"], each["name"]): each for each in shown.get("parameters", [])}
    assert {name for place, name in parameters if place == "path"} == set(
        re.findall(r"\{(\w+)\}", operation.path)
    )
    query = set(operation.query.__struct_fields__) if operation.query else set()
    assert {name for place, name in parameters if place == "query"} == query
    assert (("header", "Idempotency-Key") in parameters) == (operation.takes_body and operation.changes)
    by_token = {"token": [] if operation.scope is None else [operation.scope]}
    more = [by_token, {"session": [], "organization": []}] if not operation.needs_session else []
    assert shown["security"] == [*more[:1], {"session": []}, *more[1:]]
    for status, answer in shown["responses"].items():
        assert "X-Request-Id" in answer["headers"]
        assert ("WWW-Authenticate" in answer["headers"]) == (status == "401")
        assert ("Retry-After" in answer["headers"]) == (status in ("429", "503"))
    success = shown["responses"][str(operation.status)]
    assert ("Link" in success["headers"]) == ("page" in operation.answer.__struct_fields__)
    for parameter in parameters.values():
        if "example" in parameter:
            validator(parameter["schema"]).validate(parameter["example"])
        assert "null" not in json.dumps(parameter["schema"])


@pytest.mark.parametrize(
    ("name", "body", "good"),
    [
        ("RegisterBody", {"fqdn": "a.example.net"}, True),
        ("RegisterBody", {"fqdn": "a.example.net", "label": None, "confirm": None}, True),
        ("RegisterBody", {"label": "a", "domain": "example.net"}, True),
        ("RegisterBody", {"label": "a", "platform_domain_id": 1}, True),
        ("RegisterBody", {"label": "a"}, False),
        ("RegisterBody", {"domain": "example.net"}, False),
        ("RegisterBody", {"fqdn": None}, False),
        ("RegisterBody", {"fqdn": "a\0b"}, False),
        ("RegisterBody", {"fqdn": "a.example.net", "max_credits": 2**63}, False),
        ("RegisterBody", {"fqdn": "a.example.net", "registration_mode": "admin"}, False),
        ("NameserversBody", {}, True),
        ("NameserversBody", {"nameservers": None, "glue": [], "ds_records": None}, True),
        ("NameserversBody", {"ds_records": ["2371 13 2 00ff"]}, True),
        (
            "NameserversBody",
            {"ds_records": [{"key_tag": 1, "algorithm": 13, "digest_type": 2, "digest": "00ff"}]},
            True,
        ),
        (
            "NameserversBody",
            {"ds_records": [{"flags": 257, "protocol": 3, "algorithm": 13, "public_key": "AA=="}]},
            True,
        ),
        ("NameserversBody", {"ds_records": [{}]}, False),
        ("NameserversBody", {"ds_records": [{"flags": 257, "protocol": 3, "algorithm": 13}]}, False),
        ("NameserversBody", {"ds_records": [None]}, False),
        ("NameserversBody", {"glue": [{"ipv4": "8.8.8.8"}]}, False),
        ("NameserversBody", {"nameservers": ["a.example"] * 14}, False),
        ("TicketBody", {"subject": "s", "message": "m"}, True),
        ("TicketBody", {"subject": "s"}, False),
        ("TicketBody", {"subject": "s", "message": None}, False),
        ("ReplyBody", {}, False),
        ("NoBody", {}, True),
    ],
)
def test_body_schemas_accept_the_bodies_that_the_service_accepts(
    name: str, body: dict[str, Any], good: bool
) -> None:
    assert body_accepts(name, body) is good


class NoteBody(Body):
    """A body with a member that is required and may be null, and another."""

    required_members: ClassVar[tuple[str, ...]] = ("topic",)

    note: str | None
    topic: str | None = None


@pytest.mark.parametrize(
    ("body", "good"),
    [
        ({"note": None, "topic": "t"}, True),
        ({"topic": "t"}, False),
        ({"note": "n"}, False),
        ({"note": "n", "topic": None}, False),
    ],
)
def test_a_member_without_a_default_is_required_and_may_be_null(body: dict[str, Any], good: bool) -> None:
    assert validator(body_schemas([NoteBody])["NoteBody"]).is_valid(body) is good


def test_the_reference_has_every_endpoint_and_an_anchor_for_every_code() -> None:
    anchors = re.findall(r' id="([^"]+)"', PAGE)
    assert len(anchors) == len(set(anchors))
    entries = {entry.anchor: (group, entry) for group in REFERENCE.groups for entry in group.entries}
    assert list(entries) == anchors
    for operation in API_OPERATIONS:
        group, entry = entries[operation.name]
        assert (group.title, entry.mark, entry.name) == (operation.tag, operation.method, operation.path)
        assert escape(operation.summary) in entry.html
        for refusal in all_refusals(operation):
            assert f'href="/docs/errors#error-{refusal.code}"' in entry.html
            assert entries[f"error-{refusal.code}"][0].path == "/docs/errors"
    for target in re.findall(r'href="/docs/errors#([^"]+)"', PAGE):
        assert target in entries


def test_the_reference_loads_no_resources_and_runs_no_scripts() -> None:
    links = re.findall(r'(?:href|src)="([^"]*)"', PAGE)
    assert {re.sub(r"#[\w-]+$", "", each) for each in links} == {"/try", "/docs/errors"}
    assert not re.search(r"<script|<img|<iframe|<style|@import|url\(|\son\w+=|\sstyle=", PAGE)


def test_the_reference_escapes_every_text() -> None:
    evil = '<script>alert("1")</script>'

    def poison(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: poison(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [poison(item, key) for item in value]
        return value + evil if key in ("summary", "description", "title", "message", "version") else value

    poisoned = build_reference(poison(DOCUMENT))
    entries = [entry for group in poisoned.groups for entry in group.entries]
    texts = [poisoned.introduction, *(group.introduction for group in poisoned.groups)]
    texts += [text for entry in entries for text in (entry.summary, entry.html)]
    assert not any("<script" in text for text in texts)
    assert all(escape(evil) in entry.html for entry in entries if not entry.anchor.startswith("field-"))


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("register a subdomain", "register"),
        ("POST /subdomains", "register"),
        ("Rate_Limited", "error-rate_limited"),
        ("max_credits", "error-price_changed"),
        ("glue_required", "field-glue_required"),
    ],
)
def test_a_search_finds_all_words_and_headings_first(query: str, first: str) -> None:
    found = [entry for _, entry in REFERENCE.search(query)]
    assert found[0].anchor == first
    assert all(word in entry.text for entry in found for word in query.casefold().split())
