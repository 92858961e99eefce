"""The records of a name as a zone file (RFC 1035, section 5), for registrants who move."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

import dns.exception
import dns.rdata
import dns.tokenizer
import dns.ttl
from msgspec import Struct, field

from sublet.dns.names import is_at_or_below, shown, to_unicode
from sublet.dns.types import RecordSet, RecordSetInput
from sublet.errors import FieldError, validation_failed
from sublet.subdomains.records.rule import SIGNER_TYPES, TTL_SECONDS_DEFAULT, TTL_SECONDS_MAX, TTL_SECONDS_MIN
from sublet.subdomains.records.values import HOST_PLACE

NOTES_MAX: Final = 50
"""The maximum number of errors, and of other notes, about a zone file."""
FIELDS_MAX: Final = 10_000
"""The maximum number of fields in a zone file: 500 records have about 3,000. Each takes time, and 64 KiB have
room for 30,000.
"""
TTL_CHARACTERS_MAX: Final = 40
"""The maximum length of a TTL, because the work to read one grows with the square of its length."""
_NEW_PARAMETERS = ("dohpath", "docpath", "ohttp")
"""The parameters of HTTPS and SVCB records that came after RFC 9460."""
_VALUE = re.compile(r"records\[(\d+)\](?:\.values\[(\d+)\])?")


class ZoneFileNote(Struct, frozen=True):
    """A line of a zone file that can't be read (`is_error`), or that is ignored or changed.

    Lines count from 1.
    """

    line: int
    message: str
    is_error: bool = False

    def __str__(self) -> str:
        return f"Line {self.line}: {self.message}"


class ZoneFileRecords(Struct, frozen=True):
    """The RRsets of a zone file, for `check_records`, and notes about other lines.

    `lines` has the line of each value: `lines[2][0]` is the line of `records[2].values[0]`. Use the RRsets
    only if no note is an error. `notes_omitted` is the number of further notes.
    """

    entries: tuple[RecordSetInput, ...]
    lines: tuple[tuple[int, ...], ...]
    notes: tuple[ZoneFileNote, ...]
    notes_omitted: int

    @property
    def sentences(self) -> tuple[str, ...]:
        """The notes, each with its line."""
        return tuple(str(each) for each in self.notes)

    def error_in_file(self, error: FieldError) -> FieldError:
        """Return an error of `check_records` about these RRsets as one about the line of `zone_file`."""
        found = _VALUE.match(error.field)
        if found is None:  # about all records
            return FieldError("zone_file", error.code, error.message)
        line = self.lines[int(found[1])][int(found[2] or 0)]
        return FieldError("zone_file", error.code, f"Line {line}: {error.message}")


class _Set(Struct):
    """The records of an RRset so far, and their lines."""

    owner: str
    type_name: str
    ttl_seconds: int | None
    values: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


class _Line(Struct):
    """A line of the file, or several in parentheses: its number, its tokens as text, and whether it starts
    with a space.
    """

    number: int
    is_indented: bool
    tokens: list[str]


class _Unusable(Exception):  # noqa: N818 - becomes a note
    """The line can't be used; `str()` is the message of the note."""


def format_zone_file(fqdn: str, records: Sequence[RecordSet]) -> str:
    """Return a zone file with the RRsets of the canonical name `fqdn`: its own records first.

    It has no SOA and no NS records.
    """
    width = max((len(each.name) for each in records), default=1)
    lines = [f"$ORIGIN {fqdn}.", f"$TTL {TTL_SECONDS_DEFAULT}"]
    for each in sorted(records, key=lambda each: (each.name != "@", each.name, each.type)):
        lines += [
            f"{each.name:<{width}} {each.ttl_seconds:>5} IN {each.type:<5} {portable_value(each.type, value)}"
            for value in each.values
        ]
    return "\n".join([*lines, ""])


def portable_value(type_name: str, value: str) -> str:
    """Return a value in a form that Knot 3.2, BIND 9.18 and NSD 4.6 read.

    HTTPS and SVCB records with newer parameters have the form for unknown types (RFC 3597, section 5). So do
    CAA records with a tag in upper case, which NSD refuses.
    """
    is_new = type_name in ("HTTPS", "SVCB") and any(each in value for each in _NEW_PARAMETERS)
    if is_new or (type_name == "CAA" and not value.split(" ", 2)[1].islower()):
        return dns.rdata.from_text("IN", type_name, value).to_generic().to_text()
    return value


def parse_zone_file(text: str, fqdn: str) -> ZoneFileRecords:
    """Return the RRsets of a zone file at and below the canonical name `fqdn`, which is the initial
    `$ORIGIN`.

    Understands `$ORIGIN`, `$TTL`, comments, parentheses, the TTL and class in either order, TTLs with units,
    and lines without an owner or TTL, which take over the last one. Records of the same owner and type become
    one RRset, with the first TTL. A TTL outside the limits becomes the closest one that is allowed, with a
    note.

    Ignored, with a note each: SOA and NS records at `fqdn`, the records of DNSSEC, and records outside
    `fqdn`. Errors: `$INCLUDE`, `$GENERATE` and other directives, another class than IN, a line without a type
    or value. A line that ends inside a quotation or parenthesis is an error, and ends the reading; so is more
    than `FIELDS_MAX` fields. Not checked: owners, types and values (`check_records`).
    """
    reader = _Reader(fqdn)
    tokenizer = dns.tokenizer.Tokenizer(text.removeprefix("\ufeff"))
    try:
        for line in _lines(tokenizer):
            try:
                reader.read(line)
            except _Unusable as error:
                reader.note(line.number, str(error), is_error=True)
    except _Unusable as error:
        reader.note(tokenizer.where()[1], str(error), is_error=True)
    except (dns.exception.DNSException, UnicodeError):
        message = (
            "The line can't be read: a quotation mark or a parenthesis is missing. Correct it; the lines "
            "below it were not read."
        )
        reader.note(tokenizer.where()[1], message, is_error=True)
    sets = reader.sets.values()
    return ZoneFileRecords(
        tuple(
            RecordSetInput(each.owner, each.type_name, tuple(each.values), each.ttl_seconds) for each in sets
        ),
        tuple(tuple(each.lines) for each in sets),
        tuple(reader.notes),
        reader.notes_omitted,
    )


def read_zone_file(text: str, fqdn: str) -> ZoneFileRecords:
    """Return the RRsets of a zone file that replaces all records of the canonical name `fqdn`, as
    `parse_zone_file` does.

    Raises:
        ValidationFailed: lines can't be read, or the file has no record of the name. An empty file removes
            nothing, because it is more often a mistake than a wish.
    """
    found = parse_zone_file(text, fqdn)
    errors = [FieldError("zone_file", "record_invalid", str(each)) for each in found.notes if each.is_error]
    if not found.entries and not errors:
        message = f"There are no records for {fqdn} in it. Give its zone file."
        errors = [FieldError("zone_file", "required", message)]
    if errors:
        raise validation_failed(errors)
    return found


def _lines(tokenizer: dns.tokenizer.Tokenizer) -> Iterator[_Line]:
    """Yield the lines that have tokens.

    Quoted tokens keep their quotation marks, and all keep their escapes.
    """
    count = 0
    line = _Line(1, is_indented=False, tokens=[])
    has_space = False
    while True:
        token = tokenizer.get(want_leading=True)
        if token.is_whitespace():
            line.is_indented |= not line.tokens
        elif token.is_eol_or_eof():
            if line.tokens:
                yield line
            if token.is_eof():
                return
            line = _Line(tokenizer.where()[1], is_indented=False, tokens=[])
        else:
            is_quoted = token.is_quoted_string()
            text = f'"{token.value}"' if is_quoted else token.value
            if is_quoted and not has_space and line.tokens and line.tokens[-1].endswith("="):
                line.tokens[-1] += text  # a parameter of HTTPS or SVCB, such as alpn="h2"
            else:
                line.tokens.append(text)
            count += 1
            if count > FIELDS_MAX:
                raise _Unusable(f"The file has more than {FIELDS_MAX} fields. Give fewer records.")
        has_space = token.is_whitespace()


class _Reader:
    """What the lines of a zone file leave to the following ones."""

    def __init__(self, fqdn: str) -> None:
        self.sets: dict[tuple[str, str], _Set] = {}
        self.notes: list[ZoneFileNote] = []
        self.notes_omitted = 0
        self._note_counts = {False: 0, True: 0}
        self._fqdn = fqdn
        self._origin = fqdn + "."
        self._owner: str | None = None
        self._ttl_seconds: int | None = None
        self._has_default_ttl = False
        self._inside = (fqdn, to_unicode(fqdn))

    def note(self, line: int, message: str, *, is_error: bool = False) -> None:
        """Add a note, or only count it if there are too many of its kind."""
        if self._note_counts[is_error] < NOTES_MAX:
            self._note_counts[is_error] += 1
            self.notes.append(ZoneFileNote(line, message, is_error))
        else:
            self.notes_omitted += 1

    def read(self, line: _Line) -> None:
        """Add the record of a line, or follow its directive."""
        if line.tokens[0].startswith("$") and not line.is_indented:
            self._follow(line.tokens)
            return
        tokens = line.tokens
        if not line.is_indented:
            self._owner = self._absolute(tokens[0])
            tokens = tokens[1:]
        if self._owner is None:
            raise _Unusable("The first record has no owner. Start the line with `@` or a name.")
        ttl_seconds, type_name, fields = self._split(tokens)
        if not self._is_ignored(line.number, self._owner, type_name):
            self._add(line.number, self._owner, type_name, ttl_seconds, fields)

    def _follow(self, tokens: list[str]) -> None:
        directive = tokens[0].upper()
        if directive == "$ORIGIN" and len(tokens) == 2:
            self._origin = self._absolute(tokens[1])
        elif directive == "$TTL" and len(tokens) == 2:
            self._ttl_seconds = _ttl(tokens[1])
            if self._ttl_seconds is None:
                raise _Unusable(f"`{shown(tokens[1])}` is no TTL. Give seconds, such as `$TTL 300`.")
            self._has_default_ttl = True
        else:
            raise _Unusable(
                f"`{shown(' '.join(tokens))}` can't be used here. Only `$ORIGIN name` and `$TTL seconds` "
                "are supported; write each record out."
            )

    def _split(self, tokens: list[str]) -> tuple[int | None, str, list[str]]:
        """Return the TTL, the type and the fields of the value.

        TTL and class are optional, in either order.
        """
        ttl_seconds: int | None = None
        has_class = False
        at = 0
        while at < len(tokens):
            ttl = _ttl(tokens[at]) if ttl_seconds is None else None
            if ttl is not None:
                ttl_seconds = ttl
            elif not has_class and tokens[at].upper() in ("IN", "CH", "HS"):
                has_class = True
                if tokens[at].upper() != "IN":
                    raise _Unusable("The record is not of the class IN. Remove the line.")
            else:
                break
            at += 1
        if len(tokens) < at + 2:
            raise _Unusable("The record has no type or no value. Write owner, TTL, `IN`, type and value.")
        if ttl_seconds is None:
            ttl_seconds = self._ttl_seconds
        elif not self._has_default_ttl:
            self._ttl_seconds = ttl_seconds  # RFC 1035, section 5.1: an omitted TTL is the last one
        return ttl_seconds, tokens[at].upper(), tokens[at + 1 :]

    def _is_ignored(self, line: int, owner: str, type_name: str) -> bool:
        name = owner.lower().removesuffix(".")
        if not any(is_at_or_below(name, each) for each in self._inside):
            message = f"`{shown(name)}` is outside `{self._fqdn}`, so the record is ignored."
        elif type_name in ("SOA", "NS") and name in self._inside:
            message = f"`{self._fqdn}` is no zone of its own, so the {type_name} record is ignored."
        elif type_name in SIGNER_TYPES:
            message = f"The servers add the records of DNSSEC, so the {type_name} record is ignored."
        else:
            return False
        self.note(line, message)
        return True

    def _add(self, line: int, owner: str, type_name: str, ttl_seconds: int | None, fields: list[str]) -> None:
        if fields[0] != "\\#":
            place = HOST_PLACE.get(type_name, len(fields))
            fields = [self._absolute(each) if at == place else each for at, each in enumerate(fields)]
            if type_name == "TXT":
                fields = [each if each.startswith('"') else f'"{each}"' for each in fields]
        allowed = self._allowed(line, ttl_seconds)
        rrset = self.sets.setdefault((owner.lower(), type_name), _Set(owner, type_name, allowed))
        if rrset.ttl_seconds != allowed:
            self.note(line, "All records of an RRset have the TTL of the first one, so this TTL is ignored.")
        rrset.values.append(" ".join(fields))
        rrset.lines.append(line)

    def _allowed(self, line: int, ttl_seconds: int | None) -> int | None:
        """Return the closest TTL that is allowed."""
        if ttl_seconds is None:
            return None
        allowed = min(max(ttl_seconds, TTL_SECONDS_MIN), TTL_SECONDS_MAX)
        if allowed != ttl_seconds:
            self.note(line, f"The TTL of {ttl_seconds} seconds is not allowed, so it becomes {allowed}.")
        return allowed

    def _absolute(self, text: str) -> str:
        """Return a name with the final dot."""
        if text == "@":
            return self._origin
        return text if text.endswith(".") else f"{text}.{self._origin}"


def _ttl(text: str) -> int | None:
    """Return a TTL in seconds, also one with units such as `1h30m`; None if the text is no TTL."""
    if not text[:1].isdigit() or len(text) > TTL_CHARACTERS_MAX:
        return None
    try:
        return dns.ttl.from_text(text)
    except dns.exception.DNSException:
        return None
