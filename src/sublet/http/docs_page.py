"""The parts of the API reference, rendered from the OpenAPI document. The console shows them as pages."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import jinja2
from markupsafe import Markup, escape
from msgspec import Struct

from sublet.errors import FIELD_CODES, MALFORMED_FIELD_CODES
from sublet.http.errors import JSON_TYPE
from sublet.http.openapi import PROBLEM_PREFIX
from sublet.operations.operation import DOCS_PATH

Document = dict[str, Any]

_LOADER = jinja2.PackageLoader("sublet.http", "docs_templates")


class Entry(Struct, frozen=True, dict=True):
    """An operation, an error code or a field code.

    `anchor` is unique in the reference, `mark` is a method or a status.
    """

    anchor: str
    mark: str
    name: str
    summary: Markup
    html: Markup

    @cached_property
    def heading(self) -> str:
        """The text of the heading, for searches."""
        return f"{self.mark} {self.name} {self.summary.striptags()}".casefold()

    @cached_property
    def text(self) -> str:
        """The whole text, for searches."""
        return f"{self.heading} {self.html.striptags()}".casefold()


class Group(Struct, frozen=True):
    """The entries of one page."""

    slug: str
    title: str
    introduction: Markup
    entries: Sequence[Entry]

    @property
    def path(self) -> str:
        """The path of the page."""
        return f"{DOCS_PATH}/{self.slug}"


class Reference(Struct, frozen=True):
    """The whole reference. `url` is the API's base URL."""

    title: str
    version: str
    url: str
    introduction: Markup
    groups: Sequence[Group]

    def search(self, query: str) -> list[tuple[Group, Entry]]:
        """Return the entries that contain all words of the query, those with all of them in the heading
        first.
        """
        words = query.casefold().split()
        found = [
            (group, entry)
            for group in self.groups
            for entry in group.entries
            if all(word in entry.text for word in words)
        ]
        return sorted(found, key=lambda each: not all(word in each[1].heading for word in words))


def build_reference(document: Document) -> Reference:
    """Return the reference. `document` is the result of `build_document`. All its texts are escaped."""
    servers, components = document["servers"], document["components"]
    template = _environment(components["schemas"], components["examples"]).get_template("entries.html.j2")
    parts: Any = template.module
    operations: list[tuple[str, str, dict[str, Any]]] = [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]

    def entry_of(path: str, method: str, operation: dict[str, Any]) -> Entry:
        base = (operation.get("servers") or servers)[0]["url"]
        curl = _curl(base + path, method.upper(), operation)
        html = parts.operation(path, method, operation, curl)
        return Entry(operation["operationId"], method.upper(), path, _inline(operation["summary"]), html)

    groups = [
        Group(
            _slug(tag["name"]),
            tag["name"],
            _prose(tag["description"]),
            [entry_of(*each) for each in operations if tag["name"] in each[2]["tags"]],
        )
        for tag in document["tags"]
    ]
    info = document["info"]
    return Reference(
        info["title"],
        info["version"],
        servers[0]["url"],
        _prose(info["description"]),
        [*(each for each in groups if each.entries), *_code_groups(components["examples"], parts)],
    )


def _code_groups(examples: Mapping[str, Any], parts: Any) -> list[Group]:
    """Return the groups of the error codes, by status, and of the field codes."""
    statuses = {
        code: examples[PROBLEM_PREFIX + code]["value"]["status"]
        for code in examples
        if not code.startswith(PROBLEM_PREFIX)
    }
    errors = []
    for code, status in sorted(statuses.items(), key=lambda each: (each[1], each[0])):
        summary, example = _inline(examples[code]["summary"]), examples[code]["value"]
        anchor = f"error-{code}"
        html = parts.code(anchor, status, code, examples[code]["summary"], example)
        errors.append(Entry(anchor, str(status), code, summary, html))
    fields = []
    for codes, status in ((FIELD_CODES, 422), (MALFORMED_FIELD_CODES, 400)):
        for code, meaning in sorted(codes.items()):
            anchor = f"field-{code}"
            html = parts.code(anchor, status, code, meaning, None)
            fields.append(Entry(anchor, str(status), code, _inline(meaning), html))
    return [
        Group("errors", "Errors", _prose("The codes in `error`, by the status of the answer."), errors),
        Group("field-codes", "Field codes", _prose("The codes of single fields, in `errors`."), fields),
    ]


def _environment(schemas: dict[str, dict[str, Any]], examples: Mapping[str, Any]) -> jinja2.Environment:
    def resolve(schema: dict[str, Any]) -> Any:
        return schemas[schema["$ref"].rsplit("/", 1)[-1]] if "$ref" in schema else schema

    def description(schema: dict[str, Any]) -> str:
        """Return the description of a schema, or of its first alternative that has a description."""
        forms = (schema, *schema.get("anyOf", ()), *schema.get("oneOf", ()))
        return next((text for each in forms if (text := resolve(each).get("description"))), "")

    environment = jinja2.Environment(loader=_LOADER, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "description": description,
        "inline": _inline,
        "kind": _kind,
        "pretty": _pretty,
        "prose": _prose,
        "references": lambda schema: dict.fromkeys(
            re.findall(r'"#/components/schemas/(\w+)"', json.dumps(schema))
        ),
        "resolve": resolve,
    }
    environment.globals |= {
        "schemas": schemas,
        "examples": examples,
        "problem_prefix": PROBLEM_PREFIX,
        "json_type": JSON_TYPE,
        "docs_path": DOCS_PATH,
    }
    return environment


def _curl(url: str, method: str, operation: dict[str, Any]) -> str:
    for each in operation.get("parameters", []):
        if each["in"] == "path":
            url = url.replace(f"{{{each['name']}}}", each["example"])
    lines = [
        f"curl{'' if method == 'GET' else f' -X {method}'} {shlex.quote(url)}",
        '  -H "Authorization: Bearer $SUBLET_TOKEN"',
    ]
    if method != "GET":
        lines.append('  -H "Idempotency-Key: $(uuidgen)"')
    body = operation.get("requestBody", {}).get("content", {}).get(JSON_TYPE, {}).get("example")
    if body:
        lines += ["  -H 'Content-Type: application/json'", f"  -d {shlex.quote(_pretty(body))}"]
    return " \\\n".join(lines)


def _kind(schema: dict[str, Any]) -> str:
    """Return the type of a schema in words, such as `text or null`, `list of GlueEntry` or `one of free,
    plus`.
    """
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(_kind(each) for each in schema[key])
    if "enum" in schema:
        return "one of " + ", ".join(str(each) for each in schema["enum"])
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_kind(schema['items'])}" + (
            f", at most {schema['maxItems']}" if "maxItems" in schema else ""
        )
    text = {"string": "text"}.get(kind, str(kind))
    if "format" in schema:
        text = schema["format"]
    elif "maxLength" in schema:
        text += f" of at most {schema['maxLength']}"
    return text


def _prose(text: str) -> Markup:
    """Return a text as HTML; an empty line separates paragraphs."""
    paragraphs = [each for each in re.split(r"\n\s*\n", text.strip()) if each]
    return Markup("").join(Markup("<p>{}</p>").format(_inline(each)) for each in paragraphs)


def _inline(text: str) -> Markup:
    """Return a text as HTML; text in backquotes becomes `code` elements."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - the text is escaped


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
