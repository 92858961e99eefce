"""Render the API reference as HTML from the OpenAPI document. The console shows it as a page."""

import json
import re
import shlex
from typing import Any

import jinja2
from markupsafe import Markup, escape

from sublet.errors import FIELD_CODES, MALFORMED_FIELD_CODES
from sublet.http.errors import JSON_TYPE
from sublet.http.openapi import PROBLEM_PREFIX

Document = dict[str, Any]

_LOADER = jinja2.PackageLoader("sublet.http", "docs_templates")


def render_reference(document: Document) -> str:
    """Return the reference as HTML. `document` is the result of `build_document`; the template escapes all its texts."""
    schemas, examples = document["components"]["schemas"], document["components"]["examples"]

    def resolve(schema: dict[str, Any]) -> dict[str, Any]:
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
        "paragraphs": lambda text: [each for each in re.split(r"\n\s*\n", text.strip()) if each],
        "pretty": _pretty,
        "references": lambda schema: dict.fromkeys(
            re.findall(r'"#/components/schemas/(\w+)"', json.dumps(schema))
        ),
        "resolve": resolve,
        "slug": lambda text: re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-"),
    }
    base_url = document["servers"][0]["url"]
    codes = [code for code in examples if not code.startswith(PROBLEM_PREFIX)]
    return environment.get_template("reference.html.j2").render(
        info=document["info"],
        tags=document["tags"],
        operations=[
            (path, method, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        ],
        schemas=schemas,
        examples=examples,
        error_codes=sorted(
            codes, key=lambda code: (examples[PROBLEM_PREFIX + code]["value"]["status"], code)
        ),
        field_codes=sorted((FIELD_CODES | MALFORMED_FIELD_CODES).items()),
        base_url=base_url,
        curl=lambda path, method, operation: _curl(
            operation.get("servers", document["servers"])[0]["url"] + path, method.upper(), operation
        ),
        problem_prefix=PROBLEM_PREFIX,
        json_type=JSON_TYPE,
    )


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
    """Return the type of a schema in words, such as `text or null`, `list of GlueEntry` or `one of free, plus`."""
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


def _inline(text: str) -> Markup:
    """Return a text as HTML; text in backquotes becomes `code` elements."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - the text is escaped


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
