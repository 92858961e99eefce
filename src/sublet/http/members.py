"""From parsed JSON and query parameters to a Struct of `bodies`, with every wrong member named at once.

msgspec stops at the first wrong member and takes some values for others; a request deserves the whole list. A member is
converted on its own: JSON types are exact (1 is no boolean, 1.0 and true are no integers), null stands for "not sent". Only
types are looked at here; lengths, ranges and values are for the rules.
"""

import difflib
import functools
import types
import typing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import parse_qsl

import msgspec

from sublet.errors import FieldError, InvalidRequest
from sublet.http.bodies import Dnskey, DsEntry, DsRecord

QUERY_PARAMETERS_MAX = 64
TOLD_WHOLE_MAX = 4
"""Up to how many members an object is told whole to whoever sent one that resembles none of them."""
_NAMES = {bool: "true or false", int: "an integer", str: "a text"}
_Wrong = list[FieldError]


@dataclass(slots=True)
class Reading:
    """What was found wrong so far: `malformed` is answered with 400, `missing` (members of nested objects) with 422."""

    malformed: _Wrong = field(default_factory=list)
    missing: _Wrong = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Member:
    name: str
    kind: Any
    """The type without None and UNSET and without annotations."""
    required: bool
    nullable: bool
    """Null is a value of its own, since leaving the member out means something else."""
    metas: tuple[msgspec.Meta, ...]


def invalid_request(errors: _Wrong) -> InvalidRequest:
    """Return the refusal that carries these malformed fields; its message is the first one's, or counts them."""
    first = errors[0]
    sentence = f"{first.field}: {first.message}"
    if len(errors) > 1:
        sentence = f"{len(errors)} fields can't be read; the first: {sentence}"
    return InvalidRequest(sentence, errors=errors)


@functools.cache
def _members(struct: type[msgspec.Struct]) -> dict[str, _Member]:
    found = {}
    for info in msgspec.structs.fields(struct):
        metas: list[msgspec.Meta] = []
        kinds = [
            kind
            for kind in _alternatives(info.type, metas)
            if kind not in (types.NoneType, msgspec.UnsetType)
        ]
        found[info.encode_name] = _Member(
            name=info.encode_name,
            kind=kinds[0] if len(kinds) == 1 else tuple(kinds),
            required=info.required,
            nullable=info.default is msgspec.UNSET,
            metas=tuple(metas),
        )
    return found


def _alternatives(kind: Any, metas: list[msgspec.Meta]) -> list[Any]:
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        inner, *notes = typing.get_args(kind)
        metas += [note for note in notes if isinstance(note, msgspec.Meta)]
        return _alternatives(inner, metas)
    if origin in (typing.Union, types.UnionType):
        return [each for item in typing.get_args(kind) for each in _alternatives(item, metas)]
    return [kind]


def _unknown(name: str, known: typing.Collection[str], what: str) -> str:
    close = difflib.get_close_matches(name[:64], list(known), n=1)
    hint = f"; did you mean `{close[0]}`?" if close else "; leave it out"
    if not close and 0 < len(known) <= TOLD_WHOLE_MAX:
        hint = f"; it takes {', '.join(f'`{each}`' for each in known)}"
    return f"unknown {what} `{name[:64]}`{hint}"


def read_members(
    value: dict[str, Any], struct: type[msgspec.Struct], reading: Reading, prefix: str = ""
) -> Any:
    """Return the Struct of an object, or None where a member of it is wrong; what is wrong is added to `reading`.

    Wrong are members that the Struct has not (`unknown_field`), those of another type (`wrong_type`), and in nested objects
    those that are missing (`required`).
    """
    members = _members(struct)
    before = len(reading.malformed) + len(reading.missing)
    found: dict[str, Any] = {}
    for name, item in value.items():
        member = members.get(name)
        if member is None:
            reading.malformed.append(
                FieldError(f"{prefix}{name}"[:200], "unknown_field", _unknown(name, members, "field"))
            )
        elif item is None:
            if member.nullable:
                found[name] = None
        else:
            found[name] = _read(item, member.kind, f"{prefix}{name}", reading)
    for member in members.values():
        if member.required and member.name not in found:
            reading.missing.append(FieldError(f"{prefix}{member.name}", "required", "is missing; send it"))
    if len(reading.malformed) + len(reading.missing) > before:
        return None
    return struct(**found)


def _read(value: Any, kind: Any, name: str, reading: Reading) -> Any:
    if typing.get_origin(kind) is list:
        if isinstance(value, list):
            metas: list[msgspec.Meta] = []
            kinds = _alternatives(typing.get_args(kind)[0], metas)
            inner = kinds[0] if len(kinds) == 1 else tuple(kinds)
            return [_read(item, inner, f"{name}[{index}]", reading) for index, item in enumerate(value)]
        return _wrong_type(value, "a list", name, reading)
    if kind == (str, DsEntry):
        if isinstance(value, dict):
            return read_members(value, _ds_kind(value), reading, f"{name}.")
        if isinstance(value, str):
            return value
        return _wrong_type(value, "a text or an object", name, reading)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if isinstance(value, dict):
            return read_members(value, kind, reading, f"{name}.")
        return _wrong_type(value, "an object", name, reading)
    if type(value) is kind:
        return value
    return _wrong_type(value, _NAMES[kind], name, reading)


def _ds_kind(value: dict[str, Any]) -> type[DsEntry]:
    return Dnskey if value.keys() & {"flags", "protocol", "public_key"} else DsRecord


def _wrong_type(value: Any, wanted: str, name: str, reading: Reading) -> None:
    given = {
        bool: "a boolean",
        int: "an integer",
        float: "a number with a fraction or an exponent",
        str: "a text",
    }
    what = given.get(type(value), "a list" if isinstance(value, list) else "an object")
    if value is None:
        what = "null"
    reading.malformed.append(FieldError(name, "wrong_type", f"must be {wanted}, not {what}"))


def read_query(query_string: bytes, struct: type[msgspec.Struct] | None, reading: Reading) -> Any:
    """Return the Struct of a query string (None where there is none to fill, or a parameter is wrong).

    Wrong are parameters that the endpoint does not know (`unknown_field`) or that come twice (`duplicate_field`), texts of no
    good form (`wrong_type`) and values that are none of those allowed (`unknown_value`).
    """
    if not query_string:
        return None if struct is None else struct()
    members = _members(struct) if struct else {}
    try:
        pairs = parse_qsl(
            query_string.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=QUERY_PARAMETERS_MAX,
        )
    except ValueError:
        raise InvalidRequest(
            "The query string is not percent-encoded UTF-8, or has too many parameters. Check its encoding."
        ) from None
    found: dict[str, Any] = {}
    for name, text in pairs:
        member = members.get(name)
        if "\x00" in name or "\x00" in text:
            raise InvalidRequest("The query string holds a NUL. Leave it out.")
        if member is None:
            sentence = _unknown(name, members, "query parameter")
            reading.malformed.append(FieldError(name[:200], "unknown_field", sentence))
        elif name in found:
            reading.malformed.append(
                FieldError(name, "duplicate_field", "is given more than once; send it once")
            )
        else:
            found[name] = _read_text(text, member, reading)
    if struct is None or reading.malformed:
        return None
    return struct(**found)


def _read_text(text: str, member: _Member, reading: Reading) -> Any:
    if typing.get_origin(member.kind) is Literal:
        return _one_of(text, typing.get_args(member.kind), member, reading)
    if member.kind is bool:
        value = _one_of(text, ("true", "false"), member, reading)
        return None if value is None else value == "true"
    if member.kind is int:
        return _read_integer(text, member, reading)
    if member.kind is datetime:
        return _read_instant(text, member, reading)
    longest = next((meta.max_length for meta in member.metas if meta.max_length is not None), None)
    if longest is not None and len(text) > longest:
        reading.malformed.append(
            FieldError(member.name, "too_long", f"is too long; send {longest} characters at most")
        )
    return text


def _one_of(text: str, allowed: tuple[str, ...], member: _Member, reading: Reading) -> str | None:
    if text in allowed:
        return text
    reading.malformed.append(FieldError(member.name, "unknown_value", f"must be one of {', '.join(allowed)}"))
    return None


def _read_integer(text: str, member: _Member, reading: Reading) -> int | None:
    bounds = next(
        (meta for meta in member.metas if meta.ge is not None and meta.le is not None), msgspec.Meta(ge=0)
    )
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        reading.malformed.append(
            FieldError(member.name, "wrong_type", "must be an integer in decimal digits")
        )
        return None
    value = int(text)
    if (bounds.ge is not None and value < bounds.ge) or (bounds.le is not None and value > bounds.le):
        sentence = f"must be an integer from {bounds.ge} to {bounds.le}"
        reading.malformed.append(FieldError(member.name, "unknown_value", sentence))
        return None
    return value


def _read_instant(text: str, member: _Member, reading: Reading) -> datetime | None:
    try:
        return msgspec.convert(text, INSTANT).astimezone(UTC)
    except (msgspec.ValidationError, OverflowError):
        sentence = "must be an instant by RFC 3339, such as 2026-01-31T12:00:00Z (a + is written %2B)"
        reading.malformed.append(FieldError(member.name, "wrong_type", sentence))
        return None


INSTANT = typing.cast("type[datetime]", typing.Annotated[datetime, msgspec.Meta(tz=True)])
"""An instant with its offset from UTC."""
