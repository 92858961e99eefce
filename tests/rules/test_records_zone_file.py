from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublet.dns.types import RecordSet, RecordSetInput
from sublet.structs import replace
from sublet.subdomains.records.rule import check_records
from sublet.subdomains.records.zone_file import NOTES_MAX, ZoneFileRecords, format_zone_file, parse_zone_file
from support.random_records import NAME, random_records
from support.rule_domains import rule_domain

DOMAIN = rule_domain(record_sets_max=500, record_octets_max=65_535)


def read(text: str) -> tuple[tuple[RecordSet, ...], ZoneFileRecords]:
    found = parse_zone_file(text, NAME)
    sets, errors = check_records(NAME, found.entries, DOMAIN)
    assert errors == ()
    assert [len(each.values) for each in found.entries] == [len(each) for each in found.lines]
    return sets, found


def test_records_become_a_readable_zone_file() -> None:
    records = (
        RecordSet("*.dev", "CNAME", 300, ("example.github.io.",)),
        RecordSet("@", "A", 3600, ("8.8.4.4", "8.8.8.8")),
        RecordSet("@", "TXT", 300, ('"v=spf1 -all"',)),
    )
    assert format_zone_file(NAME, records) == (
        "$ORIGIN blog.example.test.\n"
        "$TTL 300\n"
        "@      3600 IN A     8.8.4.4\n"
        "@      3600 IN A     8.8.8.8\n"
        '@       300 IN TXT   "v=spf1 -all"\n'
        "*.dev   300 IN CNAME example.github.io.\n"
    )
    # Debian's Knot and BIND can't read the names of these parameters, and its NSD no such tag.
    new = (
        RecordSet("@", "CAA", 300, ('0 ISSUE "ca.example"',)),
        RecordSet("@", "HTTPS", 300, ('1 . alpn="h2" ohttp', '1 . dohpath="/q{?dns}"')),
    )
    text = format_zone_file(NAME, new)
    assert text.count(r" \# ") == 3
    assert read(text)[0] == new
    assert format_zone_file(NAME, ()) == "$ORIGIN blog.example.test.\n$TTL 300\n"


@given(
    st.randoms(use_true_random=False),
    st.none() | st.integers(60, 86_400),
    st.binary(min_size=1, max_size=255),
)
def test_what_is_written_is_read_again(random: Random, ttl_seconds: int | None, octets: bytes) -> None:
    text = '"' + "".join(f"\\{octet:03d}" for octet in octets) + '"'
    entries = [
        RecordSetInput("octets", "TXT", (text,), ttl_seconds),
        *(replace(each, ttl_seconds=ttl_seconds) for each in random_records(random)),
    ]
    sets, errors = check_records(NAME, entries, DOMAIN)
    if not errors:
        found, written = read(format_zone_file(NAME, sets))
        assert (found, written.notes) == (sets, ())


def test_a_zone_file_of_another_provider_is_read() -> None:
    text = """\
; exported
$ORIGIN example.test.
$TTL 1h
blog    IN  SOA ns1.provider.example. hostmaster.provider.example. (
            2026112701 ; serial
            3600 900 1209600 300 )
        IN  NS  ns1.provider.example.
        NS      ns2.provider.example.
blog    IN  600 A 8.8.8.8
        600 IN  A 8.8.4.4   ; the TTL before the class
blog    MX  10 mail.blog
        MX  20 mail.provider.example.
        TXT ( "v=DKIM1; k=rsa; "   ; in two lines
              "p=AAAA" )
        CAA 0 issue "letsencrypt.org"
www.blog        CNAME   blog
$ORIGIN blog.example.test.
_sip._tcp 1D SRV 1 2 5060 sip
*       HTTPS   1 . alpn="h2,h3" port=8443
        HTTPS   0 @
_x      TYPE16  \\# 2 0161
@       RRSIG   A 13 3 600 20261201000000 20261101000000 1 blog.example.test. AAAA
ftp.example.test.   A 8.8.8.8
BLOG.example.test.  A 8.8.8.8
"""
    sets, found = read(text.replace("BLOG.example.test.  A 8.8.8.8\n", ""))
    assert sets == (
        RecordSet("*", "HTTPS", 3600, ("0 blog.example.test.", '1 . alpn="h2,h3" port="8443"')),
        RecordSet("@", "A", 600, ("8.8.4.4", "8.8.8.8")),
        RecordSet("@", "CAA", 3600, ('0 issue "letsencrypt.org"',)),
        RecordSet("@", "MX", 3600, ("10 mail.blog.example.test.", "20 mail.provider.example.")),
        RecordSet("@", "TXT", 3600, ('"v=DKIM1; k=rsa; " "p=AAAA"',)),
        RecordSet("_sip._tcp", "SRV", 86_400, ("1 2 5060 sip.blog.example.test.",)),
        RecordSet("_x", "TXT", 3600, ('"a"',)),
        RecordSet("www", "CNAME", 3600, ("blog.example.test.",)),
    )
    assert [(note.line, note.message, note.is_error) for note in found.notes] == [
        (4, "`blog.example.test` is no zone of its own, so the SOA record is ignored.", False),
        (7, "`blog.example.test` is no zone of its own, so the NS record is ignored.", False),
        (8, "`blog.example.test` is no zone of its own, so the NS record is ignored.", False),
        (22, "The servers add the records of DNSSEC, so the RRSIG record is ignored.", False),
        (23, "`ftp.example.test` is outside `blog.example.test`, so the record is ignored.", False),
    ]
    assert found.lines[0] == (9, 10)
    twice = parse_zone_file(text, NAME)
    assert twice.lines[0] == (9, 10, 24)
    assert [each.field for each in check_records(NAME, twice.entries, DOMAIN)[1]] == ["records[0].values[2]"]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("$INCLUDE other.zone", 1, "$INCLUDE"),
        ("\n$GENERATE 1-9 a$ A 8.8.8.$", 2, "$GENERATE"),
        ("$ORIGIN", 1, "$ORIGIN"),
        ("$TTL x", 1, "no TTL"),
        ("$TTL " + "9" * 5000, 1, "no TTL"),
        ("  A 8.8.8.8", 1, "no owner"),
        ("@ CH TXT a", 1, "class IN"),
        ("@ 300 IN", 1, "no type or no value"),
        ("@\n@ A 8.8.8.8", 1, "no type or no value"),
        ("@ IN A", 1, "no type or no value"),
        ('@ TXT "a', 1, "quotation mark"),
        ("@ A 8.8.8.8\n@ TXT ( a\n\n", 4, "parenthesis"),
        ("@ A 8.8.8.8\n) A", 2, "parenthesis"),
        ("@ TXT" + " a" * 10_000, 1, "more than 10000 fields"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(text: str, line: int, says: str) -> None:
    notes = parse_zone_file(text, NAME).notes
    assert [(note.line, note.is_error) for note in notes] == [(line, True)]
    assert says in notes[0].message


def test_a_ttl_outside_the_limits_is_changed_with_a_note() -> None:
    sets, found = read("@ 5 A 8.8.8.8\nwww 2d A 8.8.8.8\nwww 300 A 8.8.4.4\nftp A 8.8.8.8")
    assert [(each.name, each.ttl_seconds) for each in sets] == [("@", 60), ("ftp", 300), ("www", 86_400)]
    assert [note.line for note in found.notes] == [1, 2, 3]
    assert not any(note.is_error for note in found.notes)


def test_an_error_is_named_after_many_other_notes() -> None:
    found = parse_zone_file("a. A 8.8.8.8\n" * 99 + "$INCLUDE a", NAME)
    assert len(found.notes) == NOTES_MAX + 1
    assert (found.notes[-1].line, found.notes[-1].is_error, found.notes_omitted) == (100, True, 49)


def test_names_outside_are_ignored_in_any_spelling_and_those_inside_are_not() -> None:
    found = parse_zone_file(
        "\ufeffWWW.Bücher.Example.Test. A 8.8.8.8\r\nxbücher.example.test. A 8.8.8.8\r\n",
        "xn--bcher-kva.example.test",
    )
    assert [(each.name, each.values) for each in found.entries] == [
        ("WWW.Bücher.Example.Test.", ("8.8.8.8",))
    ]
    assert [note.line for note in found.notes] == [2]


@given(st.text(alphabet='a@ \n\t"\\();$.1*=', max_size=60))
def test_any_text_is_read_or_named(text: str) -> None:
    found = parse_zone_file(text, NAME)
    check_records(NAME, found.entries, DOMAIN)
