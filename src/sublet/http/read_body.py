"""Read a request's body: check its media type, size and time, and parse its JSON object strictly.

Python's parser accepts more than RFC 8259 allows, and silently keeps the last of duplicate keys. This module
also refuses NaN, infinities, numbers beyond 64 bits, lone surrogates, NUL, deep nesting, and duplicate keys
at any depth.
"""

import asyncio
import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Receive

from sublet.errors import (
    FieldErrors,
    InvalidJson,
    InvalidRequest,
    PayloadTooLarge,
    Refusal,
    UnsupportedMediaType,
)
from sublet.http.errors import JSON_TYPE

BODY_MAX_BYTES = 64 * 1024
BODY_TIMEOUT_SECONDS = 10.0
DEPTH_MAX = 32
FIELD_CHARACTERS_MAX = 200
"""The maximum number of characters of a wrong field's name that the answer repeats."""
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_BLANKS = " \t"


class BodyTooSlow(InvalidRequest):
    """The body didn't arrive in time. The connection is closed after the answer."""


def check_media_type(headers: Headers, text_type: str | None = None) -> None:
    """Raise unless the headers declare a body of JSON, or of `text_type`, in UTF-8, without a content
    encoding such as gzip.

    Raises:
        UnsupportedMediaType: the headers declare another body, or none.
    """
    encodings = headers.getlist("content-encoding")
    if any(encoding.strip().lower() not in ("", "identity") for encoding in encodings):
        raise UnsupportedMediaType(
            "The body has a Content-Encoding. Send it uncompressed, without this header."
        )
    values = headers.getlist("content-type")
    wanted = f"`Content-Type: {JSON_TYPE}`" if text_type is None else f"`Content-Type: {text_type}`"
    if not values:
        raise UnsupportedMediaType(f"The body has no Content-Type. Send {wanted}.")
    if len(values) > 1 or not (is_declared_as(values[0], JSON_TYPE) or is_declared_as(values[0], text_type)):
        kind = "JSON" if text_type is None else f"{text_type} or JSON"
        raise UnsupportedMediaType(f"The body is not declared as {kind}. Send {wanted}, in UTF-8.")


def is_declared_as(content_type: str, wanted: str | None) -> bool:
    """True if a `Content-Type` means `wanted` in UTF-8 (RFC 9110, section 8.3.1).

    An empty last parameter is accepted.
    """
    media_type, *parameters = content_type.lower().split(";", 3)
    if media_type.strip(_BLANKS) != wanted:
        return False
    if parameters and not parameters[-1].strip(_BLANKS):
        parameters.pop()
    if not parameters:
        return True
    name, _, charset = parameters[0].partition("=")
    return (
        len(parameters) == 1
        and name.strip(_BLANKS) == "charset"
        and charset.strip(_BLANKS) in ("utf-8", '"utf-8"')
    )


async def read_body(
    headers: Headers,
    receive: Receive,
    timeout_seconds: float = BODY_TIMEOUT_SECONDS,
    *,
    text_type: str | None = None,
) -> bytes:
    """Return the whole body, empty if the request has none. An empty body may have any `Content-Type`.

    Raises:
        UnsupportedMediaType: `check_media_type` refuses a body that isn't empty.
        PayloadTooLarge: the body has more than 64 KiB, by `Content-Length` or by the octets received.
        BodyTooSlow: the body didn't arrive within `timeout_seconds`, or the client disconnected.
    """
    length = _content_length(headers)
    is_declared = length > 0
    if is_declared:
        check_media_type(headers, text_type)
    if length > BODY_MAX_BYTES:
        raise _too_large_refusal()
    body = bytearray()
    more = True
    try:
        async with asyncio.timeout(timeout_seconds):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise BodyTooSlow(
                        "The connection closed before the whole body arrived. Send the request again."
                    )
                piece = message.get("body", b"")
                if piece and not body and not is_declared:
                    check_media_type(headers, text_type)
                body += piece
                more = message.get("more_body", False)
                if len(body) > BODY_MAX_BYTES:
                    raise _too_large_refusal()
    except TimeoutError:
        raise BodyTooSlow(
            f"The body did not arrive within {timeout_seconds:g} seconds. Send the request again."
        ) from None
    return bytes(body)


def _content_length(headers: Headers) -> int:
    """Return the declared length; 0 without the header, as in a chunked body. uvicorn has refused malformed
    values.
    """
    length = headers.get("content-length") or ""
    return int(length[:20]) if length.isascii() and length.isdigit() else 0


def _too_large_refusal() -> PayloadTooLarge:
    return PayloadTooLarge(
        f"The body is too long. Send {BODY_MAX_BYTES} bytes at most.", details={"limit_bytes": BODY_MAX_BYTES}
    )


class _Object(dict[str, Any]):
    """A JSON object with duplicate keys; `duplicates` lists them."""

    duplicates: tuple[str, ...] = ()


def parse_object(raw: bytes) -> tuple[dict[str, Any], FieldErrors]:
    """Return the JSON object of a body, and an error (`duplicate_field`) for each duplicate member at any
    depth.

    Raises:
        InvalidJson: the body isn't UTF-8, begins with a byte order mark, isn't JSON, has a number beyond 64
            bits, a NUL or a lone surrogate, is nested deeper than 32 levels, or isn't an object.
    """
    text = _decoded(raw)
    if text.startswith("\ufeff"):
        raise InvalidJson("The body begins with a byte order mark. Leave it out.")
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        # Some of Python's messages end with "at".
        problem = error.msg.removesuffix(" at")
        raise InvalidJson(
            f"The body is not JSON: {problem} at line {error.lineno}, column {error.colno}. Check it there."
        ) from None
    except RecursionError:
        raise _too_deep_refusal() from None
    if not isinstance(value, dict):
        raise InvalidJson("The body is not a JSON object. Send an object, such as {}.")
    duplicates = FieldErrors()
    _inspect(value, "", 1, duplicates)
    return value, duplicates


def parse_text(raw: bytes) -> str:
    """Return the text of a body that isn't JSON. A byte order mark at its beginning is left out.

    Raises:
        InvalidRequest: the body isn't UTF-8, or has a NUL.
    """
    text = _decoded(raw, InvalidRequest).removeprefix("\ufeff")
    if "\0" in text:
        raise InvalidRequest("The body has a NUL. Leave it out.")
    return text


def _decoded(raw: bytes, refusal: type[Refusal] = InvalidJson) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise refusal(
            f"The body is not UTF-8: octet {error.start} begins no character. Encode it as UTF-8."
        ) from None


def _too_deep_refusal() -> InvalidJson:
    return InvalidJson(f"The body is nested deeper than {DEPTH_MAX} levels. Send fewer levels.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    found = _Object(plain)
    found.duplicates = tuple(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
    return found


def _integer(text: str) -> int:
    value = int(text) if len(text) <= 20 else None
    if value is None or not -(2**63) <= value < 2**63:
        raise InvalidJson("The body has a number beyond 64 bits. Send a smaller number.")
    return value


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise InvalidJson("The body has a number beyond 64 bits. Send a smaller number.")
    return value


def _constant(name: str) -> Any:
    raise InvalidJson(f"{name} is not JSON. Leave it out.")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_number, parse_constant=_constant
)


def _inspect(value: dict[str, Any] | list[Any], path: str, depth: int, duplicates: FieldErrors) -> None:
    """Check the texts, keys and nesting of a value, and add its duplicates.

    `path` is truncated, so that deep nesting takes linear time.
    """
    if depth > DEPTH_MAX:
        raise _too_deep_refusal()
    prefix = f"{path}." if path else ""
    if isinstance(value, _Object):
        for key in value.duplicates:
            name = f"{prefix}{key}"[:FIELD_CHARACTERS_MAX]
            duplicates.add(name, "duplicate_field", "is given more than once; send it once")
    is_object = isinstance(value, dict)
    members: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in members:
        if is_object:
            _refuse_unstorable(key)
        if isinstance(item, str):
            _refuse_unstorable(item)
        elif isinstance(item, (dict, list)):
            inner = f"{prefix}{key}" if is_object else f"{path}[{key}]"
            _inspect(item, inner[:FIELD_CHARACTERS_MAX], depth + 1, duplicates)


def _refuse_unstorable(text: str) -> None:
    if _UNSTORABLE.search(text):
        raise InvalidJson("A text in the body has a NUL or half of a surrogate pair. Leave it out.")
