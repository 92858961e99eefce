"""Every parser of client input takes time in proportion to its input, and blocks the event loop for at most
50 ms.

Each gets the worst known inputs of the maximum length that it can receive. The bound of 50 ms is for a
machine that does the reference's work in 50 ms.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import dns.dnssec
import dns.message
import dns.name
import dns.rrset
import pytest
from starlette.datastructures import Headers

from sublet.accounts.tokens.issue import digest, find_secrets, is_well_formed
from sublet.dns.addresses import parse_ipv4, parse_ipv6
from sublet.dns.delegation import check_delegation
from sublet.dns.ds import parse_ds
from sublet.dns.look_alikes import skeleton
from sublet.dns.names import map_part, parse_domain_name, parse_host_name, parse_label
from sublet.dns.nameserver import NameServer
from sublet.dns.notify import answer_notify
from sublet.dns.query import read_query as read_dns_query
from sublet.dns.types import RECORD_TYPES, Dnskey, GlueEntry, RecordSetInput
from sublet.dns.wire import read_name, read_record, walk_records
from sublet.health.chain import Validator
from sublet.http.calls import read_key
from sublet.http.errors import PROBLEM_TYPE, names_media_type, render_refusal
from sublet.http.head import ORGANIZATION_HEADER, read_organization, request_id_of
from sublet.http.read_body import check_media_type, is_declared_as, parse_object, parse_text
from sublet.http.read_structs import Reading, invalid_request, read_members, read_query
from sublet.http.request_log import quoted
from sublet.ids import decode_cursor, parse_id, parse_ticket_number
from sublet.operations.client import COOKIE, address_key, find_client_address, is_from_site, read_cookie
from sublet.operations.idempotency import fingerprint
from sublet.operations.shapes import NoBody
from sublet.platform_domains.labels import parse_pattern
from sublet.restrictions import Restrictions, check_restrictions
from sublet.secret import without_secrets
from sublet.sign_in.model import Site
from sublet.sign_in.webauthn_answers import check_challenge
from sublet.subdomains.api import RegisterBody, SubdomainsQuery
from sublet.subdomains.naming import canonical_domain
from sublet.subdomains.records.dyndns import parse_addresses, parse_hosts
from sublet.subdomains.records.rule import check_records, parse_owner, parse_type
from sublet.subdomains.records.values import parse_value
from sublet.subdomains.records.zone_file import parse_zone_file as parse_records_file
from sublet.tickets.lifecycle import check_line, check_message
from sublet.updates.wire import MESSAGE_BYTES_MAX, RECORDS_MAX, BadMessageError, parse_message
from sublet.web.delegation_form import read_delegation_form
from sublet.web.form import Form, parse_form
from sublet.web.pasted import (
    parse_pasted_delegation,
    parse_pasted_nameservers,
)
from support.child_keys import CHILD, ChildKey
from support.in_memory_zone import RECORDS, reader_of
from support.repetitions import share
from support.rule_domains import rule_domain
from support.time_growth import FACTOR, TRIES, growth, reference_seconds, seconds

pytestmark = pytest.mark.slow

BODY, HEAD, TARGET, MESSAGE, LABEL = 64 * 1024, 32 * 1024, 16 * 1024, 65_535, 200
"""The most octets of a body, of a request's head, of its path and query, of a DNS message, and of a label or
a pattern of labels.
"""
NOTHING_SECONDS = 0.0001
"""The growth of a shorter time isn't measured: such input is refused unread, or is a short text."""


@pytest.fixture(scope="module")
def reference() -> float:
    """Return the time of the reference, in seconds."""
    return reference_seconds()


Make = Callable[[int], Callable[[], object]]
"""Returns a function that parses a hostile input of this many octets."""

CHARACTERS = {
    "letters": "a", "dots": "a.", "hyphens": "-", "spaces": " ", "U-labels": "ü.", "Han": "丂", "marks": "\u0300\u0316",  # noqa: E501
    "full width": "\uff41\uff0e", "digits": "1", "colons": ":", "hex": "ab ", "A-labels": "xn--a.", "semicolons": ";", "commas": ",",  # noqa: E501
    "parentheses": "( ) ", "percent": "%41", "stars": "*", "question marks": "?a", "equals": "=", "quotes": '"', "slashes": "/",  # noqa: E501
    "surrogates": "\ud800", "tokens": "sublet_", "bearers": "bearer ", "urls": "://a:", "NUL": "\0",
}  # fmt: skip


def texts(
    parse: Callable[[str], object], octets: int, start: str = "", end: str = ""
) -> dict[str, tuple[Make, int]]:
    """Return a parser of a text with runs of each of `CHARACTERS`."""

    def made_of(run: str) -> Make:
        octets_of_run = len(run.encode("utf-8", "replace"))
        return lambda size: _quiet(parse, start + run * (size // octets_of_run) + end)

    runs = list(CHARACTERS.items())[:: share(2, whole=1)]
    return {name: (made_of(run), octets) for name, run in runs}


def _quiet(parse: Callable[[Any], object], given: Any) -> Callable[[], object]:
    """Return a call that ignores refusals."""

    def run() -> None:
        try:
            parse(given)
        except Exception as refused:  # noqa: BLE001 - faults are other tests' to find
            str(refused)

    return run


def _glue_lines(text: str) -> object:
    """Read a text as glue, in one line and in many."""
    fields = [("glue", "ns1.a.example " + text), ("nameservers", text.replace("a", "a\n"))]
    return read_delegation_form(Form(fields), "own.example.test")


def _restrictions(text: str) -> object:
    """Read a text as one name, and as many networks as it has room for."""
    networks = tuple(text[start : start + 50] for start in range(0, len(text), 50))
    sent = Restrictions(names=(f"*.{text}",), domains=(text,), networks=networks)
    return check_restrictions(sent, datetime(2026, 11, 21, tzinfo=UTC))


def _names_problem(accept: str) -> bool:
    return names_media_type(accept, PROBLEM_TYPE)


def _challenge(text: str) -> object:
    """Read the data that an authenticator signed."""
    credential = {"response": {"clientDataJSON": text}}
    return check_challenge("00", credential, "sign-in", datetime(2026, 11, 21, tzinfo=UTC))


def header(name: str, value: str) -> Headers:
    """Return a header of one field."""
    return Headers(raw=[(name.encode(), value.encode("latin-1", "replace"))])


def whole(struct: Any) -> Callable[[bytes], object]:
    """Return a function that does the event loop's work with a body: read it, and render its errors."""

    def read(raw: bytes) -> object:
        members, malformed = parse_object(raw)
        reading = Reading(malformed)
        read_members(members, struct, reading)
        fingerprint("POST", "/", members)
        if reading.malformed:
            return render_refusal(invalid_request(reading.malformed), "a")
        return members

    return read


def repeated(start: bytes, unit: bytes, end: bytes) -> Callable[[int], bytes]:
    """Return a function that makes a body of this length: the unit repeated, with commas."""
    return lambda size: start + b",".join([unit] * ((size - len(start) - len(end)) // (len(unit) + 1))) + end


def numbered(start: bytes, unit: bytes, end: bytes) -> Callable[[int], bytes]:
    """Return the same with a number of five digits in each unit."""
    return lambda size: (
        start + b",".join(unit % (10_000 + number) for number in range((size - 10) // (len(unit) + 3))) + end
    )


BODIES: dict[str, Callable[[int], bytes]] = {
    "members": numbered(b"{", b'"%d":1', b"}"),
    "members that nearly are one": numbered(b"{", b'"registration_mod%d":1', b"}"),
    "numbers for nameservers": repeated(b'{"nameservers":[', b"1", b"]}"),
    "glue of unknown members": repeated(b'{"glue":[', b'{"hosts":1}', b"]}"),
    "arrays below a long name": lambda size: (
        b'{"' + b"k" * (size // 2) + b'":[' + b",".join([b"[]"] * (size // 8)) + b"]}"
    ),
    "arrays 30 deep": lambda size: b'{"a":[' + b",".join([b"[" * 29 + b"]" * 29] * (size // 60)) + b"]}",
    "backslashes": lambda size: b'{"a":"' + b"\\\\" * (size // 2 - 5) + b'"}',
    "escapes": lambda size: b'{"a":"' + b"\\u0061" * (size // 6 - 3) + b'"}',
    "digits with an exponent": lambda size: b'{"a":0.' + b"1" * (size - 16) + b"e-300}",
    "Unicode": lambda size: b'{"a":"' + "丂".encode() * (size // 3 - 4) + b'"}',
}
DELEGATIONS: dict[str, Callable[[int], tuple[list[str], list[GlueEntry], list[Any]]]] = {
    "U-labels": lambda size: (["ü." * 120 + "de"] * (size // 365), [], []),
    "glue": lambda size: (
        ["a.foo.example.test"],
        [GlueEntry("ü." * 120 + "de", "8.8.8.8", "::")] * (size // 400),
        [],
    ),
    "DNSKEYs": lambda size: (
        ["a.example"],
        [],
        [Dnskey(257, 3, 8, "AwEAAQ" + "A" * 600)] * (size // 650),
    ),
}


def delegation(given: tuple[list[str], list[GlueEntry], list[Any]]) -> object:
    """Check a delegation with these lists."""
    return check_delegation("foo.example.test", *given, nameservers_min=1, nameservers_max=13)


_OF_RECORDS = rule_domain(record_sets_max=500, record_octets_max=65_535)
"""A platform domain with the highest limits."""


def records(given: list[RecordSetInput]) -> object:
    """Check these RRsets."""
    return check_records("foo.example.test", given, _OF_RECORDS)


def _each(text: str) -> object:
    """Parse a text as a value of each type."""
    return [_quiet_value(type_name, text) for type_name in RECORD_TYPES]


def _quiet_value(type_name: str, text: str) -> object:
    try:
        return parse_value("foo.example.test", type_name, text, accepts_private=False)
    except ValueError as refused:
        return str(refused)


def in_sets(
    type_name: str, value: str, count: int = 100, sets_max: int = 500
) -> Callable[[int], list[RecordSetInput]]:
    """Return a function that makes RRsets of this many octets: the value, numbered, `count` times each.

    `sets_max` keeps the limits.
    """
    return lambda size: [
        RecordSetInput(
            f"a{at}", type_name, tuple(value.replace("#", str(each % 250)) for each in range(count))
        )
        for at in range(min(sets_max, max(1, size // (count * (len(value.encode()) + 3)))))
    ]


RECORD_SETS: dict[str, Callable[[int], list[RecordSetInput]]] = {
    "IPv6 addresses": in_sets("AAAA", "2a00::#", sets_max=5),
    "U-labels": in_sets("MX", "# " + "ü." * 25 + "de", 37, 1),
    "texts of escapes": in_sets("TXT", "\\195" * 1000, 1),
    "parameters": in_sets("HTTPS", "1 . " + " ".join(f"key{each}=a" for each in range(100, 500)), 1, 4),
    "hints": in_sets("HTTPS", "1 . ipv6hint=" + "2a00::," * 500 + "2a00::", 1, 4),
}


def lines(line: str) -> Callable[[int], str]:
    """Return a function that makes a zone file of this many octets from a line, with its number."""
    return lambda size: "\n".join(
        line.replace("#", str(at)) for at in range(size // (len(line.encode()) + 4))
    )


KEY = ChildKey.new().dnskey
ZONE_FILES = {
    "wrong lines": lines("a#"),
    "U-labels": lines("ü#.ü.ü.ü CNAME ü.ü.ü.ü"),
    "tokens": lines('"" a ( ) "" a'),
    "comments": lambda size: "(" + ";\n" * (size // 2),
    "a long TTL": lambda size: f"@ {'1' * size}h A 8.8.8.8",
}


def denials(size: int) -> dns.message.Message:
    """Return an answer of this length with signed NSEC records, of which a proof needs two."""
    message = dns.message.make_response(dns.message.make_query(CHILD, "A"))
    ends = f"13 4 60 20300101000000 20200101000000 {dns.dnssec.key_id(KEY)} {CHILD} {'A' * 86}=="
    for number in range(size // 160):
        owner = dns.name.from_text(f"a{number}", CHILD)
        denial = dns.rrset.from_text(owner, 60, "IN", "NSEC", f"b{number}.{CHILD} A")
        message.authority += [denial, dns.rrset.from_text(owner, 60, "IN", "RRSIG", f"NSEC {ends}")]
    return message


def addresses(size: int) -> dns.message.Message:
    """Return an answer of this length with many addresses, and several signatures to try."""
    message = dns.message.make_response(dns.message.make_query(CHILD, "A"))
    texts = [f"8.8.{number // 250}.{number % 250}" for number in range(size // 16)]
    ends = f"13 3 60 20300101000000 20200101000000 {dns.dnssec.key_id(KEY)} {CHILD}"
    signatures = [f"A {ends} {'A' * 84}{letter}A==" for letter in "ABCDEFGH"]
    message.answer.append(dns.rrset.from_text(CHILD, 60, "IN", "A", *texts))
    message.answer.append(dns.rrset.from_text(CHILD, 60, "IN", "RRSIG", *signatures))
    return message


def judge(message: dns.message.Message) -> object:
    return Validator(CHILD, [KEY], datetime.now(UTC)).judge_answer(CHILD, "A", message)


def pointers(size: int) -> bytes:
    """Return a message of this length, whose owners are chains of compression pointers."""
    record = b"\0\1\0\1\0\0\0\0\0\4\1\2\3\4"
    count = (size - 12) // (4 + len(record))
    wire = bytearray(bytes(6) + count.to_bytes(2, "big") + bytes(4))
    before = 0
    for _ in range(count):
        here = len(wire)
        wire += (
            b"\1a"
            + ((0xC000 | before).to_bytes(2, "big") if 0 < before <= 0x3FFF and here % 60 else b"\0\0")[:2]
        )
        before = here if here <= 0x3FFF else before
        wire += record
    return bytes(wire)


def read_records(wire: bytes) -> object:
    """Read all records of a message, as a transfer does."""
    names: dict[int, str] = {}
    return [read_record(wire, place, names) for place in walk_records(wire)]


PACKETS: dict[str, Callable[[int], bytes]] = {
    "a query with options": lambda size: (
        b"\0\1\0\0\0\1\0\0\0\0\0\1\0\0\1\0\1\0\0\x29\4\xd0\0\0\0\0"
        + (size - 28).to_bytes(2, "big")
        + b"\0\x0a\0\0" * ((size - 28) // 4)
    ),
    "labels": lambda size: b"\0\1\0\0\0\1" + bytes(6) + b"\1a" * ((size - 20) // 2) + b"\0\0\1\0\1",
    "questions": lambda size: (
        b"\0\1\0\0" + (size // 6).to_bytes(2, "big") + bytes(6) + b"\xc0\x0c\0\1\0\1" * (size // 6)
    ),
    "pointers": pointers,
}


UPDATES = {
    **PACKETS,
    "records to add": lambda size: update_of(size, b"\xc0\x0c\0\x10\0\1\0\0\0\x3c\0\2\1a"),
    "pointers in an update": lambda size: b"\0\1\x28" + pointers(min(size, 9_000))[3:],
    "names to delete": lambda size: update_of(size, b"\1a\xc0\x0c\0\xff\0\xff\0\0\0\0\0\0"),
}


def update_of(size: int, record: bytes) -> bytes:
    """Return a message of DNS UPDATE whose update section repeats a record, as often as is allowed."""
    count = min((size - 20) // len(record), RECORDS_MAX - 1)
    head = b"\0\1\x28\0\0\1\0\0" + count.to_bytes(2, "big") + b"\0\0\1a\0\0\6\0\1"
    return head + record * count


def parse_update(wire: bytes) -> None:
    with suppress(BadMessageError):
        parse_message(wire, lambda _: None, datetime.now(UTC))


async def _answer(packet: bytes) -> object:
    return await NameServer(reader_of(RECORDS))._reply([packet], over_tcp=True)


def built(
    makes: dict[str, Callable[[int], Any]], parse: Callable[[Any], object], octets: int
) -> dict[str, tuple[Make, int]]:
    """Return a parser of generated inputs."""

    def made_by(make: Callable[[int], Any]) -> Make:
        return lambda size: _quiet(parse, make(size))

    return {name: (made_by(make), octets) for name, make in makes.items()}


def with_fields(
    name: str, parse: Callable[[Headers], object], start: str = "", end: str = ""
) -> dict[str, tuple[Make, int]]:
    """Return a parser of a header field."""
    return texts(lambda text: parse(header(name, text)), HEAD, start, end)


SITE = Site("https://names.example.net", "names.example.net")
PARSERS: dict[str, dict[str, tuple[Make, int]]] = {
    "check_media_type": with_fields("content-type", check_media_type, "application/json", "x"),
    "check_media_type of encodings": with_fields("content-encoding", check_media_type, "identity", "x"),
    "read_key": with_fields("idempotency-key", lambda fields: read_key(fields, Reading())),
    "read_organization": with_fields(
        ORGANIZATION_HEADER, partial(read_organization, is_of_session=True), "1", "a"
    ),
    "parse_form": texts(lambda text: parse_form(text.encode("ascii", "replace")), BODY, "a="),
    "parse_hosts": texts(lambda text: parse_hosts(text.replace("a", "a.b,")), BODY // 4),
    "parse_addresses": texts(lambda text: parse_addresses((text.replace("a", "8,"),), "8.8.4.4"), BODY // 2),
    "read_delegation_form": texts(_glue_lines, BODY // 2),
    "parse_pasted_delegation": texts(
        lambda text: parse_pasted_delegation(text.replace("a", "a\n"), "", text, "own.example.test"),
        BODY // 3,
    ),
    "parse_pasted_nameservers": texts(
        lambda text: parse_pasted_nameservers(text.replace("a", "a\n")), BODY // 2
    ),
    "read_cookie": with_fields(
        "cookie", lambda fields: read_cookie(fields.getlist("cookie")), f"{COOKIE}=a; ", ";="
    ),
    "is_from_site": with_fields("origin", lambda fields: is_from_site(fields, SITE)),
    "check_challenge": texts(_challenge, BODY),
    "names_media_type": texts(_names_problem, HEAD, "", "application/problem+json"),
    "request_id_of": with_fields("x-request-id", request_id_of),
    "is_well_formed": texts(is_well_formed, HEAD, "sublet_"),
    "check_restrictions": texts(_restrictions, BODY),
    "digest": texts(digest, HEAD),
    "find_secrets": texts(find_secrets, BODY),
    "find_client_address": texts(
        lambda text: find_client_address("10.0.0.1", [text], frozenset({"10.0.0.1"})), HEAD, end=",10.0.0.1"
    ),
    "address_key": texts(address_key.__wrapped__, HEAD),
    "read_query": texts(
        lambda text: read_query(text.encode("ascii", "replace"), SubdomainsQuery, Reading()), TARGET
    ),
    "decode_cursor": texts(lambda text: decode_cursor("subdomains", text), TARGET),
    "parse_id": texts(parse_id, TARGET),
    "parse_ticket_number": texts(parse_ticket_number, TARGET, "T-"),
    "without_secrets": texts(without_secrets, HEAD, "sublet_ earer :// password="),
    "quoted": texts(quoted, HEAD),
    "canonical_domain": texts(canonical_domain, BODY, end=".example.test"),
    "parse_label": texts(parse_label, BODY),
    "map_part": texts(map_part, BODY),
    "parse_domain_name": texts(parse_domain_name, BODY, end=".example.test"),
    "parse_host_name": texts(parse_host_name, BODY, end=".example.test"),
    "skeleton": texts(skeleton, LABEL),
    "parse_ipv4": texts(parse_ipv4, BODY, "1."),
    "parse_ipv6": texts(parse_ipv6, BODY, "::"),
    "parse_ds": texts(lambda text: parse_ds("a.test", text), BODY, "1 8 2 "),
    "parse_ds of a TTL": texts(lambda text: parse_ds("a.test", f"a.test. {text} DS"), BODY, "1h", "1"),
    "parse_ds of a key": texts(lambda text: parse_ds("a.test", Dnskey(257, 3, 8, text)), BODY),
    "parse_owner": texts(lambda text: parse_owner("foo.example.test", text), BODY),
    "parse_type": texts(parse_type, BODY),
    "parse_value": texts(_each, BODY),
    "parse_value in quotes": texts(_each, 4000, '"', '"'),
    "check_records": built(RECORD_SETS, records, BODY),
    "parse_zone_file of records and read_zone_file": built(
        ZONE_FILES, lambda text: parse_records_file(text, "foo.example.test"), BODY
    ),
    "check_line": texts(lambda text: check_line("subject", text, 200), BODY),
    "check_message": texts(check_message, BODY),
    "parse_pattern": texts(parse_pattern, BODY),
    "fnmatchcase": texts(lambda text: fnmatchcase(text, "*a*?a*b"), BODY),
    "parse_text": texts(lambda text: parse_text(text.encode()), BODY),
    "is_declared_as": texts(lambda text: is_declared_as(text, "text/dns"), HEAD, "text/dns;"),
    "parse_object and read_members": {
        f"{name} for {struct.__name__}": made
        for struct in (RegisterBody, NoBody)
        for name, made in built(BODIES, whole(struct), BODY).items()
    },
    "check_delegation": built(DELEGATIONS, delegation, BODY),
    "read_query of a packet": built(PACKETS, read_dns_query, 4096),
    "answer_notify of a packet": built(PACKETS, answer_notify, 512),
    "the name server": built(PACKETS, lambda packet: asyncio.run(_answer(packet)), 4096),
    "parse_message of DNS UPDATE": built(UPDATES, parse_update, MESSAGE_BYTES_MAX),
    "judge_answer": built({"denials": denials, "addresses": addresses}, judge, MESSAGE),
    "read_record": built(PACKETS, read_records, MESSAGE),
    "read_name": built(PACKETS, lambda wire: read_name(wire, 12, {}), MESSAGE),
}


@pytest.mark.parametrize("parser", PARSERS)
def test_a_parser_takes_50_ms_at_most_and_time_in_proportion_to_its_input(
    parser: str, reference: float
) -> None:
    for name, (make, octets) in PARSERS[parser].items():
        half, full = make(octets // 2), make(octets)
        took = seconds(full)
        if took < NOTHING_SECONDS:
            continue
        found = growth(half, full)
        assert found.factor < FACTOR, f"{name}: {found}"
        for _ in range(TRIES):  # the machine may be busy
            if took < reference:
                break
            took = min(took, *(seconds(full) for _ in range(5)))
            reference = max(reference, reference_seconds())
        assert took < reference, f"{name}: {took:.4f} s, while the reference takes {reference:.4f} s"


def test_a_slow_parser_fails_the_test() -> None:
    def cubic(text: str) -> int:
        starts, times = range(0, len(text), 64), range(0, len(text), 1024)
        return sum(text[start:].count("b") for start in starts for _ in times)

    half, full = _quiet(cubic, "a" * 16_384), _quiet(cubic, "a" * 32_768)
    assert growth(half, full).factor > FACTOR
