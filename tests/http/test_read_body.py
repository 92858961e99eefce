"""The octets of a body: what RFC 8259 doesn't allow, or the database can't keep, is
refused; never a fault.
"""

import asyncio
import contextlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Message

from sublet.errors import InvalidJson, InvalidRequest, PayloadTooLarge, UnsupportedMediaType
from sublet.http.read_body import BODY_MAX_BYTES, BodyTooSlow, check_media_type, parse_object, read_body
from sublet.web.form import FORM_TYPE, read_form
from support.time_growth import FACTOR, growth

REFUSED = {
    "empty": b"",
    "only space": b"  ",
    "an array": b"[]",
    "a text": b'"a"',
    "null": b"null",
    "trailing data": b"{} {}",
    "trailing comma": b'{"a": 1,}',
    "single quotes": b"{'a': 1}",
    "comment": b"{} // yes",
    "byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "UTF-16 without mark": '{"a": 1}'.encode("utf-16-le"),
    "UTF-32": '{"a": 1}'.encode("utf-32"),
    "Latin-1": b'{"a": "\xe9"}',
    "overlong": b'{"a": "\xc0\xaf"}',
    "surrogate in UTF-8": b'{"a": "\xed\xa0\x80"}',
    "lone surrogate": rb'{"a": "\ud800"}',
    "lone surrogate as key": rb'{"\udfff": 1}',
    "pair the wrong way round": rb'{"a": "\udc00\ud800"}',
    "NUL": rb'{"a": "x\u0000y"}',
    "NUL in a key": rb'{"a\u0000": 1}',
    "NUL deep inside": rb'{"a": [{"b": ["\u0000"]}]}',
    "raw NUL": b'{"a": "\x00"}',
    "raw newline in a text": b'{"a": "\n"}',
    "a text without end": b'{"a": "b}',
    "NaN": b'{"a": NaN}',
    "Infinity": b'{"a": Infinity}',
    "minus Infinity": b'{"a": -Infinity}',
    "1e400": b'{"a": 1e400}',
    "-1e400": b'{"a": [-1e400]}',
    "64 bits and one more": b'{"a": 9223372036854775808}',
    "thousands of digits": b'{"a": ' + b"9" * 50_000 + b"}",
    "leading zero": b'{"a": 01}',
    "33 levels": b'{"a":' + b"[" * 32 + b"]" * 32 + b"}",
    "10,000 levels of arrays": b'{"a":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "60,000 brackets that never close": b'{"a":' + b"[" * 60_000,
    "10,000 levels of objects": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
}


@pytest.mark.parametrize("raw", REFUSED.values(), ids=REFUSED.keys())
def test_a_body_that_is_not_a_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidJson) as refused:
        parse_object(raw)
    assert len(refused.value.message) < 200
    assert " at at " not in refused.value.message


def test_a_json_object_is_accepted() -> None:
    raw = b' {"a": {"b": [true, null, -9223372036854775808, 1.5, "\xc3\xa9\\ud83d\\ude00"]}} \n'
    assert parse_object(raw) == ({"a": {"b": [True, None, -(2**63), 1.5, "é😀"]}}, [])


def test_duplicates_are_named_at_any_depth() -> None:
    _, duplicates = parse_object(b'{"confirm": true, "glue": [{}, {"ipv4": 1, "ipv4": 2}], "confirm": false}')
    assert {(each.field, each.code) for each in duplicates} == {
        ("confirm", "duplicate_field"),
        ("glue[1].ipv4", "duplicate_field"),
    }


def test_thousands_of_keys_with_a_duplicate_take_linear_time() -> None:
    def body(keys: int) -> bytes:
        return ("{" + ",".join(f'"{number}":0' for number in [*range(keys), 0]) + "}").encode()

    half, full = body(3500), body(7000)
    assert [each.field for each in parse_object(full)[1]] == ["0"]
    assert growth(lambda: parse_object(half), lambda: parse_object(full)).factor < FACTOR


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-(2**63), 2**63 - 1)
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
            lambda inner: st.lists(inner, max_size=3),
            max_leaves=8,
        ),
        max_size=4,
    )
)
def test_every_object_is_parsed_unchanged(value: dict[str, object]) -> None:
    assert parse_object(json.dumps(value).encode()) == (value, [])


@given(st.binary(max_size=60))
def test_random_octets_cause_no_other_exception(raw: bytes) -> None:
    with contextlib.suppress(InvalidJson):
        parse_object(raw)


def headers(**fields: str) -> Headers:
    return Headers(raw=[(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()])


@pytest.mark.parametrize(
    "text",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        'application/json;charset="UTF-8"',
        "application/json ;\tcharset = utf-8 ;",
        " application/json ;",
        "application/json" + " " * 31_000,
    ],
)
def test_accepted_media_types(text: str) -> None:
    check_media_type(headers(content_type=text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "text/plain",
        "text/json",
        "application/x-www-form-urlencoded",
        "application/json; charset=latin-1",
        "application/json; charset=utf-16",
        "application/jsonx",
        "application/problem+json",
        "application/json, application/json",
        "application/json;;",
        "application/json; charset",
        "application/json; charset=utf-8; charset=utf-8",
        "application/json; charset=utf-8; charset=utf-8; charset=utf-8; charset=utf-8",
        "application/json; version=1",
        "application/json; charset='utf-8'",
        "application/json" + " " * 31_000 + "x",
    ],
)
def test_refused_media_types(text: str) -> None:
    with pytest.raises(UnsupportedMediaType):
        check_media_type(headers(content_type=text))


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "identity, gzip", "GZIP"])
def test_refused_encodings(encoding: str) -> None:
    with pytest.raises(UnsupportedMediaType):
        check_media_type(headers(content_type="application/json", content_encoding=encoding))


def read(chunks: list[bytes], length: str | None = None, *, ends: bool = True) -> bytes:
    """Read a body that arrives in these chunks; without `ends` the client then goes silent."""

    async def receive() -> Message:
        if chunks:
            chunk = chunks.pop(0)
            return {"type": "http.request", "body": chunk, "more_body": bool(chunks) or not ends}
        await asyncio.sleep(60)
        raise AssertionError("read on after the end")

    sent = headers(content_type="application/json", **({} if length is None else {"content_length": length}))
    return asyncio.run(read_body(sent, receive, timeout_seconds=0.2))


def test_a_body_of_exactly_the_limit_is_accepted() -> None:
    assert len(read([b"x" * (BODY_MAX_BYTES - 1), b"x"])) == BODY_MAX_BYTES


def test_a_chunked_body_over_the_limit_is_refused_during_its_arrival() -> None:
    chunks = [b"x" * BODY_MAX_BYTES, b"x", b"never asked for"]
    with pytest.raises(PayloadTooLarge):
        read(chunks)
    assert chunks == [b"never asked for"]


@pytest.mark.parametrize("length", [str(BODY_MAX_BYTES + 1), "9" * 4000])
def test_a_declared_length_over_the_limit_is_refused_before_the_body_is_read(length: str) -> None:
    chunks = [b"{}"]
    with pytest.raises(PayloadTooLarge) as refused:
        read(chunks, length)
    assert refused.value.details == {"limit_bytes": BODY_MAX_BYTES}
    assert chunks == [b"{}"]


def test_a_client_that_stops_sending_times_out() -> None:
    started = time.perf_counter()
    with pytest.raises(BodyTooSlow):
        read([b"{"], ends=False)
    assert time.perf_counter() - started < 60


def test_a_form_whose_browser_has_left_is_no_fault() -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    form = Request({"type": "http", "headers": [(b"content-type", FORM_TYPE.encode())]}, receive)
    with pytest.raises(InvalidRequest):
        asyncio.run(read_form(form))
