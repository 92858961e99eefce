"""Strategies of HTTP requests: those that the OpenAPI document describes, such with damage, and octets that
are no request.

A request is made of the document alone, and of what the world has: names, tickets, tokens.
"""

import json
from typing import Any
from urllib.parse import quote, urlencode

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from long.fuzzing.aim import DAMAGED, RAW, WELL_FORMED, Aim, Operation, Request, Schema
from long.fuzzing.hostile_pieces import (
    BODY_TEXTS,
    HEADERS,
    HOSTILE_TEXTS,
    HOSTILE_VALUES,
    METHODS,
    PATHS,
    RAW_BODIES,
    RAW_HEADS,
)

_HOSTILE = st.sampled_from(HOSTILE_VALUES) | st.sampled_from(HOSTILE_TEXTS) | st.text(max_size=30)
_ODD_MEMBERS = st.sampled_from(["fqdn", "nameservers", "glue", "ds_records", "message", "id", ""])
_KINDS = st.sampled_from([WELL_FORMED] * 3 + [DAMAGED] * 4 + [RAW])
_DAMAGES = st.sampled_from(
    [
        *["body"] * 3,
        *["text", "query", "path"] * 2,
        *["header"] * 4,
        "method",
        "token",
        "odd path",
        "bad token",
    ]
)
_HOSTILE_TEXTS = st.sampled_from(HOSTILE_TEXTS)
_BODY_TEXTS = st.sampled_from(BODY_TEXTS) | st.binary(max_size=60)
_HEADERS = st.lists(st.sampled_from(HEADERS), min_size=1, max_size=3, unique=True)
_METHODS = st.sampled_from(METHODS)
_PATHS = st.sampled_from(PATHS)
_TENTHS = st.integers(0, 9)
_INSERTED = st.sampled_from([b"", b"\xff", b"\0", b",,", b"}", b'"', b"\\u12"])
_SHAPES = st.sampled_from(["octets", "target", "heads", "heads", "bare LF", "damaged", "version"])
_VERSIONS = st.sampled_from(["HTTP/1.0", "HTTP/2.0", "HTTP/9.9", "http/1.1", ""])
_RAW_HEADS = st.lists(st.sampled_from(RAW_HEADS), min_size=1, max_size=2)
_RAW_BODIES = st.sampled_from(RAW_BODIES)


class Drawing:
    """The strategies of an aim's requests, made once: to make one takes longer than to draw from it."""

    def __init__(self, aim: Aim) -> None:
        self._operations = st.sampled_from(aim.operations)
        self._tokens = st.sampled_from(aim.tokens)
        self._bad_tokens = st.sampled_from(aim.bad_tokens)
        self._parameters = {name: st.sampled_from(aim.texts[f"path {name}"]) for name in ("fqdn", "id")}
        self._bodies: dict[Operation, SearchStrategy[Any]] = {}
        self._queries: dict[Operation, SearchStrategy[dict[str, Any]]] = {}
        for each in aim.operations:
            self._bodies[each] = values(each.body, aim.texts) if each.body is not None else st.none()
            queries = {name: values(schema, aim.texts, name) for name, schema in each.queries}
            self._queries[each] = some_of(queries) if queries else st.just({})

    def request(self, draw: DrawFn) -> Request:
        """Draw a request."""
        kind, operation, token = draw(_KINDS), draw(self._operations), draw(self._tokens)
        name = f"{operation.method} {operation.path}"
        path = self._path(draw, operation, draw_hostile=False)
        if kind == RAW:
            octets = _raw(draw, operation.method, path, [f"Authorization: Bearer {token}"])
            return Request(RAW, name, token, octets, ends=True)
        body = draw(self._bodies[operation])
        query = draw(self._queries[operation])
        if kind == DAMAGED:
            return self._damaged(draw, operation, token, path, body, query)
        headers = [f"Authorization: Bearer {token}"]
        return Request(
            kind, name, token, _framed(operation.method, path, _search(query), headers, _encode(body))
        )

    def _path(self, draw: DrawFn, operation: Operation, *, draw_hostile: bool) -> str:
        path = operation.path
        for name, known in self._parameters.items():
            if f"{{{name}}}" in path:
                text = draw(_HOSTILE_TEXTS if draw_hostile else known)
                escaped = quote(text.encode("utf-8", "surrogatepass"), safe="")
                path = path.replace(f"{{{name}}}", escaped or "%20")
        return path

    def _damaged(
        self, draw: DrawFn, operation: Operation, token: str, path: str, body: Any, query: dict[str, Any]
    ) -> Request:
        """Return a request with one thing wrong."""
        headers: list[str] = []
        method, octets, search = operation.method, _encode(body), _search(query)
        damage = draw(_DAMAGES)
        if damage == "body":
            octets = _encode(_damaged_value(draw, body))
        elif damage == "text":
            octets = draw(_BODY_TEXTS) if not octets or draw(st.booleans()) else _cut(draw, octets)
        elif damage == "path":
            path = self._path(draw, operation, draw_hostile=True)
        elif damage == "odd path":
            path = draw(_PATHS)
        elif damage == "query":
            names = [*(name for name, _ in operation.queries), "q", "limit"]
            search = _search(
                {**query, draw(st.sampled_from(names)): draw(_HOSTILE_TEXTS)}, twice=draw(_TENTHS) == 0
            )
        elif damage == "header":
            headers = draw(_HEADERS)
        elif damage == "method":
            method = draw(_METHODS)
        elif damage == "bad token":
            token = draw(self._bad_tokens)
        else:  # the client's own token in a wrong place
            turn = draw(_TENTHS)
            path = f"/subdomains/{token}" if turn < 3 else path
            search = f"?q={token}&token={token}" if turn > 6 else search
            headers = [f"X-Request-Id: {token}", f"Cookie: {token}"] if 3 <= turn <= 6 else []
        if token:
            headers = [f"Authorization: Bearer {token}", *headers]
        name = f"{operation.method} {operation.path}"
        return Request(DAMAGED, name, token, _framed(method, path, search, headers, octets))


def drawn_requests(aim: Aim) -> SearchStrategy[Request]:
    """Return the strategy of requests."""
    drawing = Drawing(aim)

    @st.composite
    def request(draw: DrawFn) -> Request:
        return drawing.request(draw)

    return request()


def some_of(members: dict[str, SearchStrategy[Any]]) -> SearchStrategy[dict[str, Any]]:
    """Return a strategy of at most three of these members."""
    pairs = st.one_of([st.tuples(st.just(name), value) for name, value in members.items()])
    return st.lists(pairs, max_size=3).map(dict)


def _damaged_value(draw: DrawFn, body: Any) -> Any:
    """Return a body with a member of a hostile value, perhaps an unknown member, or another kind of body."""
    if not isinstance(body, dict) or draw(_TENTHS) == 0:
        return draw(_HOSTILE)
    of_its_own = bool(body) and draw(_TENTHS) < 5
    name = draw(st.sampled_from(sorted(body)) if of_its_own else _ODD_MEMBERS)
    value = draw(_HOSTILE)
    return {**body, name: [value] if draw(_TENTHS) < 3 else value}


def _encode(body: Any) -> bytes:
    return b"" if body is None else json.dumps(body).encode()


def _search(query: dict[str, Any], *, twice: bool = False) -> str:
    """Return the query of a URL; JSON's words for true, false and null."""
    pairs = [
        (
            name,
            (value if isinstance(value, str) else json.dumps(value)).encode("utf-8", "surrogatepass")[:4000],
        )
        for name, value in query.items()
    ]
    return f"?{urlencode(pairs * 2 if twice else pairs)}" if pairs else ""


def _framed(method: str, path: str, search: str, headers: list[str], body: bytes) -> bytes:
    lines = [f"{method} /api/v1{path}{search} HTTP/1.1", "Host: registry.example", *headers]
    if body and not any(header.startswith("Content-Type") for header in headers):
        lines.append("Content-Type: application/json")
    if body or method in ("POST", "PUT"):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "replace") + body


def _cut(draw: DrawFn, octets: bytes) -> bytes:
    """Return octets that end too early, or have some in their middle that don't belong there."""
    place = draw(st.integers(0, 200)) % (len(octets) + 1)
    return octets[:place] + draw(_INSERTED) + (octets[place:] if draw(st.booleans()) else b"")


def _raw(draw: DrawFn, method: str, path: str, headers: list[str]) -> bytes:
    """Return octets that are a request in part at most."""
    shape = draw(_SHAPES)
    if shape == "octets":
        return draw(st.binary(max_size=200))
    target, version = f"/api/v1{path}", "HTTP/1.1"
    if shape == "target":
        odd = [
            "*",
            f"http://evil.example{target}",
            f"{target} x",
            target[1:],
            "/" + "a" * 70_000,
            f"{target}\0",
            "?",
            "a:80",
        ]
        target = draw(st.sampled_from(odd))
    if shape == "version":
        version = draw(_VERSIONS)
    lines = [f"{method} {target} {version}", *(["Host: a"] if draw(_TENTHS) else []), *headers]
    if shape == "heads":
        lines += draw(_RAW_HEADS)
    separator = "\n" if shape == "bare LF" else "\r\n"
    octets = separator.join([*lines, "", ""]).encode("utf-8", "replace") + draw(_RAW_BODIES)
    place = draw(st.integers(0, 400)) % (len(octets) + 1)
    if shape == "damaged":
        return octets[:place] + draw(st.binary(max_size=8)) + octets[place + draw(_TENTHS) :]
    return octets[:place] if draw(_TENTHS) == 0 else octets


def values(schema: Schema, texts: dict[str, list[str]], name: str = "") -> SearchStrategy[Any]:
    """Return a strategy of the JSON values of a schema; texts are good ones for that
    name, if there are some.
    """
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return st.one_of([values(each, texts, name) for each in schema[several]])
    kind = schema.get("type")
    if kind == "object":
        members = {each: values(one, texts, each) for each, one in schema.get("properties", {}).items()}
        if "nameservers" in members:  # a name has one of the two, and few registrations would succeed
            members.pop("records", None)
        needed = {each: members.pop(each) for each in schema.get("required", [])}
        if not members:
            return st.fixed_dictionaries(needed)
        return st.builds(lambda must, may: {**must, **may}, st.fixed_dictionaries(needed), some_of(members))
    if kind == "array":
        return st.lists(values(schema.get("items", {}), texts, name), max_size=3)
    if kind == "integer":
        low, high = schema.get("minimum", -100), schema.get("maximum", 2000)
        return st.integers(low, max(low, min(high, 2000)))
    if kind == "boolean":
        return st.booleans()
    if kind == "null" or kind is None:
        return st.none()
    if name in texts:
        return st.sampled_from(texts[name])
    return st.text(min_size=1, max_size=20)
