"""The documents for people: one HTML page made from the OpenAPI document, which loads and runs nothing."""

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Iterable
from html import escape
from typing import Any

from sublet.errors import FIELD_CODES, MALFORMED_FIELD_CODES
from sublet.http.errors import JSON_TYPE
from sublet.http.openapi import PROBLEM_PREFIX

STYLE = """
:root{color-scheme:light dark;--ink:#1c2024;--dim:#5b6570;--paper:#fff;--soft:#f4f6f8;--line:#d9dee3;--link:#0b5cad}
@media (prefers-color-scheme:dark){
:root{--ink:#e4e8ec;--dim:#9aa5b1;--paper:#14171a;--soft:#1e2327;--line:#343b42;--link:#7ab8ff}}
*{box-sizing:border-box}
html{scroll-padding-top:1rem}
body{margin:0;display:grid;grid-template-columns:19rem minmax(0,1fr);color:var(--ink);background:var(--paper);
font:16px/1.55 system-ui,sans-serif}
nav{position:sticky;top:0;height:100vh;overflow:auto;padding:1.5rem 1rem;border-right:1px solid var(--line);font-size:.85rem}
nav ul{list-style:none;margin:0;padding:0}
nav li>ul{margin:.2rem 0 1rem}
nav a{display:block;padding:.15rem 0;text-decoration:none;overflow-wrap:anywhere}
main{padding:1.5rem 2.5rem 6rem;max-width:60rem;min-width:0}
a{color:var(--link)}
h1,h2,h3,h4{line-height:1.25}
h2{margin-top:3.5rem;padding-bottom:.3rem;border-bottom:2px solid var(--line)}
h3{margin:2.5rem 0 .5rem;overflow-wrap:anywhere}
h4{margin:1.4rem 0 .4rem;color:var(--dim)}
code,pre{font-family:ui-monospace,monospace;font-size:.88em}
pre{background:var(--soft);border:1px solid var(--line);border-radius:6px;padding:.8rem 1rem;overflow:auto}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;vertical-align:top;padding:.35rem .7rem .35rem 0;border-bottom:1px solid var(--line)}
td:first-child code{white-space:nowrap}
em{color:var(--dim)}
summary{cursor:pointer;color:var(--link);margin-top:1rem}
article:target>h3{outline:2px solid var(--link);outline-offset:4px}
h3 b,nav b{font-size:.75em;padding:.1em .45em;border-radius:4px;color:#fff;background:#586470}
b.get{background:#1d6b3a}b.post{background:#0b5cad}b.put{background:#8a5300}b.delete{background:#a8232d}
@media (max-width:50rem){
body{display:block}
nav{position:static;height:auto;border-right:0;border-bottom:1px solid var(--line)}
main{padding:1rem}}
@media print{nav{display:none}body{display:block}}
"""


Document = dict[str, Any]

_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
PAGE_HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}
"""Headers of the page: the browser accepts only the page's own style, by its hash."""
_CODE = re.compile(r"`([^`]+)`")


def render_page(document: Document) -> str:
    """Return the page, as HTML in UTF-8. Takes documents of `build_document`; all texts in them are escaped."""
    info = document["info"]
    operations = list(_operations(document))
    tags = document["tags"]
    sections = "".join(
        f'<section id="{_slug(tag["name"])}"><h2>{escape(tag["name"])}</h2>{_prose(tag["description"])}'
        + "".join(
            _endpoint(document, path, method, operation)
            for path, method, operation in operations
            if tag["name"] in operation["tags"]
        )
        + "</section>"
        for tag in tags
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(info['title'])} API</title>"
        f'<link rel="icon" href="data:,"><style>{STYLE}</style></head><body>'
        f"{_contents(tags, operations)}<main><header><h1>{escape(info['title'])} API</h1>"
        f"<p>Version {escape(info['version'])} · base URL <code>{escape(_base_url(document))}</code> · "
        f'<a href="openapi.json">OpenAPI document</a></p>{_prose(info["description"])}</header>'
        f"{sections}{_errors(document)}{_field_codes()}</main></body></html>\n"
    )


def _operations(document: Document) -> Iterable[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def _contents(tags: list[dict[str, str]], operations: list[tuple[str, str, dict[str, Any]]]) -> str:
    parts = []
    for tag in tags:
        items = "".join(
            f'<li><a href="#{escape(operation["operationId"])}"><b class="{method.lower()}">{method}</b> '
            f"{escape(path)}</a></li>"
            for path, method, operation in operations
            if tag["name"] in operation["tags"]
        )
        parts.append(f'<li><a href="#{_slug(tag["name"])}">{escape(tag["name"])}</a><ul>{items}</ul></li>')
    parts.append('<li><a href="#errors">Errors</a></li><li><a href="#field-codes">Field codes</a></li>')
    return f'<nav aria-label="Contents"><ul>{"".join(parts)}</ul></nav>'


def _endpoint(document: Document, path: str, method: str, operation: dict[str, Any]) -> str:
    status, success = next(iter(operation["responses"].items()))
    media = operation.get("requestBody", {}).get("content", {}).get(JSON_TYPE)
    head = (
        f'<article id="{escape(operation["operationId"])}"><h3><b class="{method.lower()}">{method}</b> '
        f"<code>{escape(path)}</code></h3><p><strong>{escape(operation['summary'])}</strong></p>"
    )
    parts = [
        head,
        _prose(operation["description"]),
        _parameters(operation.get("parameters", [])),
    ]
    if media is not None:
        parts.append(_members("Body", document, media["schema"]))
    parts.append(f"<h4>Request</h4><pre>{escape(_curl(document, path, method, operation, media))}</pre>")
    answer = success["content"][JSON_TYPE]
    parts.append(f"<h4>Answer {escape(status)}</h4>{_prose(success['description'])}")
    if "example" in answer:
        parts.append(f"<pre>{escape(_pretty(answer['example']))}</pre>")
    parts.append(_refusals(document, operation))
    return "".join(parts) + "</article>"


def _parameters(parameters: list[dict[str, Any]]) -> str:
    rows = (
        (
            f"<code>{escape(each['name'])}</code>",
            f"{escape(each['in'])}, {escape(_kind(each['schema']))}{_needed(required=each['required'])}",
            _inline(each.get("description", "")),
        )
        for each in parameters
    )
    return _table("Parameters", ("Name", "Where and what", "Meaning"), rows)


def _members(title: str, document: Document, schema: dict[str, Any]) -> str:
    schema = _resolve(document, schema)
    required = schema.get("required", [])
    rows = (
        (
            f"<code>{escape(name)}</code>",
            escape(_kind(member)) + _needed(required=name in required),
            _inline(_description(document, member)),
        )
        for name, member in schema.get("properties", {}).items()
    )
    inner = "".join(
        _members(name, document, document["components"]["schemas"][name]) for name in _inside(schema)
    )
    return _heading(schema, title) + _table("", ("Member", "Type", "Meaning"), rows) + inner


def _heading(schema: dict[str, Any], title: str) -> str:
    return f"<h4>{escape(title)}</h4>{_prose(schema.get('description', ''))}"


def _inside(schema: dict[str, Any]) -> list[str]:
    """Return the names of the schemas that the members refer to, each once."""
    return list(dict.fromkeys(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(schema))))


def _refusals(document: Document, operation: dict[str, Any]) -> str:
    rows = []
    for code in operation["x-refusals"]:
        found = document["components"]["examples"][PROBLEM_PREFIX + code]
        link = f'<a href="#error-{escape(code)}"><code>{escape(code)}</code></a>'
        rows.append((str(found["value"]["status"]), link, _inline(found["summary"])))
    table = _table("", ("Status", "Code", "Meaning"), rows)
    return f"<details><summary>Refusals, in the order checked ({len(rows)})</summary>{table}</details>"


def _errors(document: Document) -> str:
    examples = document["components"]["examples"]
    codes = [code for code in examples if not code.startswith(PROBLEM_PREFIX)]
    codes.sort(key=lambda code: (examples[PROBLEM_PREFIX + code]["value"]["status"], code))
    parts = []
    for code in codes:
        status = examples[PROBLEM_PREFIX + code]["value"]["status"]
        parts.append(
            f'<article id="error-{escape(code)}"><h3><b>{status}</b> <code>{escape(code)}</code></h3>'
            f"{_prose(examples[code]['summary'])}<details><summary>Example</summary>"
            f"<pre>{escape(_pretty(examples[code]['value']))}</pre></details></article>"
        )
    return f'<section id="errors"><h2>Errors</h2>{"".join(parts)}</section>'


def _field_codes() -> str:
    rows = (
        (f"<code>{escape(code)}</code>", _inline(meaning))
        for code, meaning in sorted((FIELD_CODES | MALFORMED_FIELD_CODES).items())
    )
    intro = "<p>The codes of single fields, in <code>errors</code>.</p>"
    return f'<section id="field-codes"><h2>Field codes</h2>{intro}{_table("", ("Code", "Meaning"), rows)}</section>'


def _curl(
    document: Document, path: str, method: str, operation: dict[str, Any], media: dict[str, Any] | None
) -> str:
    for each in operation.get("parameters", []):
        if each["in"] == "path":
            path = path.replace(f"{{{each['name']}}}", each["example"])
    lines = [
        f"curl{'' if method == 'GET' else f' -X {method}'} {shlex.quote(_base_url(document) + path)}",
        '  -H "Authorization: Bearer $SUBLET_TOKEN"',
    ]
    if method != "GET":
        lines.append('  -H "Idempotency-Key: $(uuidgen)"')
    if media is not None and media.get("example"):
        lines.append("  -H 'Content-Type: application/json'")
        lines.append(f"  -d {shlex.quote(_pretty(media['example']))}")
    return " \\\n".join(lines)


def _kind(schema: dict[str, Any]) -> str:
    """Return the type of a value in words: `text or null`, `list of GlueEntry`, `one of free, plus`."""
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


def _description(document: Document, schema: dict[str, Any]) -> str:
    """Return the description of a member, or of the first of its forms that has one."""
    found = (schema, *schema.get("anyOf", ()), *schema.get("oneOf", ()))
    return next((text for each in found if (text := _resolve(document, each).get("description"))), "")


def _resolve(document: Document, schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        resolved: dict[str, Any] = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
        return resolved
    return schema


def _table(title: str, head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table of cells that are already HTML; an empty text if there are no rows."""
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    if not body:
        return ""
    heading = f"<h4>{escape(title)}</h4>" if title else ""
    names = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    return f'{heading}<div class="wide"><table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table></div>'


def _needed(*, required: bool) -> str:
    return " <em>required</em>" if required else ""


def _prose(text: str) -> str:
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "".join(f"<p>{_inline(each)}</p>" for each in paragraphs if each)


def _inline(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _base_url(document: Document) -> str:
    return str(document["servers"][0]["url"])


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
