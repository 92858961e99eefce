"""Convert parsed JSON and query parameters to a Struct, and list every wrong member.

msgspec stops at the first wrong member and converts some types. This module converts each member on its own.
JSON types are exact: 1 is no boolean, 1.0 and true are no integers. Null means "not sent", unless a body
makes it a value (`Body`). Only types are checked here; the rules check lengths, ranges and values.
"""

import difflib
import functools
import types
import typing
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import parse_qsl

import msgspec

from sublet.errors import FieldErrors, InvalidRequest
from sublet.operations.shapes import TextOrObject

QUERY_PARAMETERS_MAX = 64
LISTED_MEMBERS_MAX = 4
"""The refusal of an unknown member lists the known members of the object if there are at most this many."""
LIST_ITEMS_MAX = 1000
"""The maximum number of items in a list. The rules allow about a hundred."""
GUESSES_MAX = 10
"""The maximum number of unknown members with a suggestion, because `difflib` takes up to a millisecond for
each.
"""
_WANTED_TYPES = {bool: "true or false", int: "an integer", str: "a string", dict: "an object"}
_SENT_TYPES = {
    bool: "a boolean",
    int: "an integer",
    float: "a number with a fraction or an exponent",
    str: "a string",
    list: "an array",
    type(None): "null",
}


class Reading(msgspec.Struct):
    """The wrong members found so far.

    `malformed` leads to the status 400. `invalid` leads to 422: missing members without a default,
    and lists with too many items.
    """

    malformed: FieldErrors = msgspec.field(default_factory=FieldErrors)
    invalid: FieldErrors = msgspec.field(default_factory=FieldErrors)

    def count(self) -> int:
        """Return the number of wrong fields, including those that the refusal will omit."""
        return sum(len(each) + each.omitted for each in (self.malformed, self.invalid))


class _Member(msgspec.Struct, frozen=True):
    name: str
    kind: Any
    """The type without None, UNSET and annotations."""
    required: bool
    nullable: bool
    """True if null is a value and doesn't mean "not sent"."""
    metas: tuple[msgspec.Meta, ...]


def invalid_request(errors: FieldErrors) -> InvalidRequest:
    """Return the refusal of these malformed fields.

    Its message is about the first field, and says how many fields are malformed.
    """
    first = errors[0]
    sentence = f"{first.field}: {first.message}"
    count = len(errors) + errors.omitted
    if count > 1:
        sentence = f"{count} fields are malformed. The first is {sentence}"
    return InvalidRequest(sentence, errors=errors, errors_omitted=errors.omitted)


@functools.cache
def _members(struct: type[msgspec.Struct]) -> dict[str, _Member]:
    found = {}
    for info in msgspec.structs.fields(struct):
        metas: list[msgspec.Meta] = []
        alternatives = _alternatives(info.type, metas)
        kinds = [kind for kind in alternatives if kind not in (types.NoneType, msgspec.UnsetType)]
        found[info.encode_name] = _Member(
            name=info.encode_name,
            kind=kinds[0] if len(kinds) == 1 else tuple(kinds),
            required=info.required,
            nullable=types.NoneType in alternatives and info.default is not None,
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
    return [dict if origin is dict else kind]


def _add_unknown(
    reading: Reading, field_name: str, name: str, known: typing.Collection[str], what: str
) -> None:
    wrong = reading.malformed
    if wrong.is_full():
        wrong.omitted += 1
        return
    close = difflib.get_close_matches(name[:64], list(known), n=1) if len(wrong) < GUESSES_MAX else []
    hint = f"; did you mean `{close[0]}`?" if close else "; leave it out"
    if not close and 0 < len(known) <= LISTED_MEMBERS_MAX:
        hint = f"; it takes {', '.join(f'`{each}`' for each in known)}"
    wrong.add(field_name[:200], "unknown_field", f"unknown {what} `{name[:64]}`{hint}")


def read_members(
    value: dict[str, Any], struct: type[msgspec.Struct], reading: Reading, prefix: str = ""
) -> Any:
    """Return the Struct of an object.

    If members are wrong, add an error for each to `reading`, and return None.

    The errors are `unknown_field` for a member that the Struct lacks, `wrong_type`, and `required` for a
    missing member without a default.
    """
    members = _members(struct)
    before = reading.count()
    found: dict[str, Any] = {}
    for name, item in value.items():
        member = members.get(name)
        if member is None:
            _add_unknown(reading, f"{prefix}{name}", name, members, "field")
        elif item is None:
            if member.nullable:
                found[name] = None
        else:
            found[name] = _read(item, member.kind, f"{prefix}{name}", reading)
    for member in members.values():
        if member.required and member.name not in found:
            reading.invalid.add(f"{prefix}{member.name}", "required", "is missing; give it")
    if reading.count() > before:
        return None
    return struct(**found)


def _read(value: Any, kind: Any, name: str, reading: Reading) -> Any:
    if typing.get_origin(kind) is list:
        return _read_list(value, kind, name, reading)
    if isinstance(kind, tuple):
        form: type[TextOrObject] = kind[1]
        if isinstance(value, dict):
            return read_members(value, form.choose(value), reading, f"{name}.")
        if isinstance(value, str):
            return value
        return _wrong_type(value, "a string or an object", name, reading)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if isinstance(value, dict):
            return read_members(value, kind, reading, f"{name}.")
        return _wrong_type(value, "an object", name, reading)
    if kind is datetime:
        if isinstance(value, str):
            return _read_instant(value, name, reading, _INSTANT_IN_JSON)
        return _wrong_type(value, "a string", name, reading)
    if type(value) is kind:
        return value
    return _wrong_type(value, _WANTED_TYPES[kind], name, reading)


def _read_list(value: Any, kind: Any, name: str, reading: Reading) -> Any:
    if not isinstance(value, list):
        return _wrong_type(value, "an array", name, reading)
    if len(value) > LIST_ITEMS_MAX:
        reading.invalid.add(name, "too_long", f"has {len(value)} items; give {LIST_ITEMS_MAX} at most")
        return None
    kinds = _alternatives(typing.get_args(kind)[0], [])
    inner = kinds[0] if len(kinds) == 1 else tuple(kinds)
    return [_read(item, inner, f"{name}[{index}]", reading) for index, item in enumerate(value)]


def _wrong_type(value: Any, wanted: str, name: str, reading: Reading) -> None:
    what = _SENT_TYPES.get(type(value), "an object")
    reading.malformed.add(name, "wrong_type", f"must be {wanted}, not {what}")


def read_query(query_string: bytes, struct: type[msgspec.Struct] | None, reading: Reading) -> Any:
    """Return the Struct of a query string; None if the operation takes no parameters.

    If some are wrong, add an error for each to `reading`.

    The errors are `unknown_field`, `duplicate_field`, `wrong_type` for a malformed value, `too_long`, and
    `unknown_value` for a value that isn't allowed.

    Raises:
        InvalidRequest: the query string isn't percent-encoded UTF-8, has more than `QUERY_PARAMETERS_MAX`
            parameters, or has a NUL.
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
            f"The query string isn't percent-encoded UTF-8, or has more than {QUERY_PARAMETERS_MAX} "
            "parameters. Check it."
        ) from None
    found: dict[str, Any] = {}
    for name, text in pairs:
        member = members.get(name)
        if "\x00" in name or "\x00" in text:
            raise InvalidRequest("The query string has a NUL. Leave it out.")
        if member is None:
            _add_unknown(reading, name, name, members, "query parameter")
        elif name in found:
            reading.malformed.add(name, "duplicate_field", "is given more than once; send it once")
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
        return _read_instant(text, member.name, reading, _INSTANT_IN_QUERY)
    longest = next((meta.max_length for meta in member.metas if meta.max_length is not None), None)
    if longest is not None and len(text) > longest:
        reading.malformed.add(member.name, "too_long", f"is too long; give {longest} characters at most")
    return text


def _one_of(text: str, allowed: tuple[str, ...], member: _Member, reading: Reading) -> str | None:
    if text in allowed:
        return text
    reading.malformed.add(member.name, "unknown_value", f"must be one of {', '.join(allowed)}")
    return None


def _read_integer(text: str, member: _Member, reading: Reading) -> int | None:
    bounds = next((meta for meta in member.metas if meta.ge is not None), msgspec.Meta(ge=0))
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        reading.malformed.add(member.name, "wrong_type", "must be an integer in decimal digits")
        return None
    value = int(text)
    if (bounds.ge is not None and value < bounds.ge) or (bounds.le is not None and value > bounds.le):
        range_ = f"from {bounds.ge} to {bounds.le}" if bounds.le is not None else f"of {bounds.ge} or more"
        sentence = f"must be an integer {range_}"
        reading.malformed.add(member.name, "unknown_value", sentence)
        return None
    return value


_INSTANT_IN_JSON = "must be an RFC 3339 timestamp, such as 2026-01-31T12:00:00Z"
_INSTANT_IN_QUERY = f"{_INSTANT_IN_JSON} (a + is written %2B)"


def _read_instant(text: str, name: str, reading: Reading, sentence: str) -> datetime | None:
    try:
        return msgspec.convert(text, INSTANT).astimezone(UTC)
    except (msgspec.ValidationError, OverflowError):
        reading.malformed.add(name, "wrong_type", sentence)
        return None


INSTANT = typing.cast("type[datetime]", typing.Annotated[datetime, msgspec.Meta(tz=True)])
"""An instant with its offset from UTC."""
