from collections.abc import Sequence
from typing import Any

import dns.rdata
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublet.dns.names import InvalidName
from sublet.dns.types import RECORD_TYPES, RecordSet, RecordSetInput
from sublet.errors import FieldError
from sublet.subdomains.records.rule import check_records, parse_owner
from sublet.subdomains.records.values import parse_value
from support.rule_domains import rule_domain

NAME = "blog.example.test"
SHA256 = "ab" * 32


def check(
    *entries: RecordSetInput | tuple[str, str, str], **settings: Any
) -> tuple[tuple[RecordSet, ...], list[FieldError]]:
    given = [
        entry if isinstance(entry, RecordSetInput) else RecordSetInput(entry[0], entry[1], (entry[2],))
        for entry in entries
    ]
    sets, errors = check_records(NAME, given, rule_domain(**settings))
    for error in errors:
        assert error.message[-1] in ".)", error.message
        error.message.encode()
    return sets, list(errors)


def codes(errors: Sequence[FieldError]) -> list[tuple[str, str]]:
    return [(error.field, error.code) for error in errors]


OWNERS = {
    "@": "@",
    "WWW": "www",
    "_acme-challenge": "_acme-challenge",
    "_Sip._TCP": "_sip._tcp",
    "*": "*",
    "*.dev": "*.dev",
    "a.b.c": "a.b.c",
    "bücher": "xn--bcher-kva",
    "xn--bcher-kva": "xn--bcher-kva",
    "blog.example.test": "@",
    "Blog.Example.TEST.": "@",
    "www.blog.example.test": "www",
    "*.dev.blog.example.test": "*.dev",
    "xblog.example.org": "xblog.example.org",  # relative
    "a" * 63: "a" * 63,
    ".".join(["a" * 50] * 4) + "." + "a" * 31: ".".join(["a" * 50] * 4) + "." + "a" * 31,
}


def test_an_owner_is_taken_in_any_spelling() -> None:
    for text, owner in OWNERS.items():
        assert parse_owner(NAME, text, "example.test") == parse_owner(NAME, owner, "example.test") == owner


WRONG_OWNERS = [
    *("", ".", "..", "a..b", ".a", "a b", "a/b", "a@b", "www.@", "a\\.b", "a\n", "\x00", "a\ud800", "a" * 64, "a" * 2000),  # noqa: E501
    *("a*", "*a", "**", "a.*", "a.*.b", "*.*", "*.", "*..a", "*.*.blog.example.test."),
    *("www.", "www.other.example.test", "example.test", "example.test.", "other.example.test", "xblog.example.test."),  # noqa: E501
    *("*.example.test", "*.other.example.test.", "ü" * 64, "a" * 60 + "ü" * 20, "\u200b", "a\u2024b"),
    ".".join(["a" * 50] * 4) + "." + "a" * 32,
]  # fmt: skip


@pytest.mark.parametrize("text", WRONG_OWNERS)
def test_a_wrong_owner_is_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        parse_owner(NAME, text, "example.test")
    assert codes(check((text, "A", "8.8.8.8"))[1]) == [("records[0].name", "record_invalid")]


VALUES: list[tuple[str, str, str]] = [
    ("A", "8.8.8.8", "8.8.8.8"),
    ("A", " 8.8.4.4\n", "8.8.4.4"),
    ("A", r"\# 4 08080808", "8.8.8.8"),
    ("AAAA", "2A00:1450:0::1", "2a00:1450::1"),
    ("AAAA", "64:ff9b::8.8.8.8", "64:ff9b::808:808"),
    ("CAA", "0 issue letsencrypt.org", '0 issue "letsencrypt.org"'),
    ("CNAME", "example.github.io", "example.github.io."),
    ("CNAME", "Example.GitHub.io.", "example.github.io."),
    ("CNAME", "@", "blog.example.test."),
    ("CNAME", "bücher.example", "xn--bcher-kva.example."),
    ("CNAME", r"\# 13 076578616d706c65036e657400", "example.net."),
    ("HTTPS", "1 . alpn=h2,h3", '1 . alpn="h2,h3"'),
    ("HTTPS", "0 CDN.example.net", "0 cdn.example.net."),
    ("HTTPS", "0 _a.example.net", "0 _a.example.net."),
    ("HTTPS", "1 . dohpath=/q{?dns}", '1 . dohpath="/q{?dns}"'),
    ("HTTPS", '1 . ipv4hint=8.8.8.8 alpn="h2"', '1 . alpn="h2" ipv4hint="8.8.8.8"'),
    ("MX", "10 mail.example.net", "10 mail.example.net."),
    ("MX", "10 @", "10 blog.example.test."),
    ("MX", "0 .", "0 ."),
    ("SRV", "10  5\t443 www.example.net", "10 5 443 www.example.net."),
    ("SRV", "0 0 0 .", "0 0 0 ."),
    ("SSHFP", f"4 2 {SHA256.upper()}", f"4 2 {SHA256}"),
    ("SVCB", "1 dot.example.net alpn=dot", '1 dot.example.net. alpn="dot"'),
    ("TLSA", f"3 1 1 {SHA256[:32]} {SHA256[32:]}", f"3 1 1 {SHA256}"),
    ("TXT", "v=spf1 include:_spf.example.net ~all", '"v=spf1 include:_spf.example.net ~all"'),
    ("TXT", r"v=DMARC1\; p=none", '"v=DMARC1; p=none"'),
    ("TXT", '"a""b"', '"a" "b"'),
    ("TXT", '""', '""'),
    ("TXT", 'say "hi"', r'"say \"hi\""'),
    ("TXT", r'"say \"hi\" \\ \065"', r'"say \"hi\" \\ A"'),
    ("TXT", "ü", r'"\195\188"'),
    ("TXT", "a\tb", r'"a\009b"'),
    ("TXT", "a" * 300, f'"{"a" * 255}" "{"a" * 45}"'),
    ("TXT", f'"{"a" * 256}" "b"', f'"{"a" * 255}" "a" "b"'),
    ("TXT", r"\# 2 0161", '"a"'),
]


@pytest.mark.parametrize(("type_name", "text", "canonical"), VALUES)
def test_a_value_has_one_canonical_form(type_name: str, text: str, canonical: str) -> None:
    value, octets = parse_value(NAME, type_name, text, accepts_private=False)
    assert value == canonical
    assert parse_value(NAME, type_name, canonical, accepts_private=False) == (canonical, octets)
    rdata = dns.rdata.from_text("IN", type_name, canonical, relativize=False)
    assert (rdata.to_text(), len(rdata.to_wire() or b"")) == (canonical, octets)


WRONG_VALUES: list[tuple[str, str, str]] = [
    *(("A", text, "record_invalid") for text in ("", " ", "8.8.8", "8.8.8.08", "::1", "a.example", "8.8.8.8/32", "8.8.8.8 1.1.1.1")),  # noqa: E501
    *(("A", text, "record_invalid") for text in (r"\# 4 080808", r"\# 3 080808", r"\# x", "8" * 5000)),
    *(("A", text, "address_not_public") for text in ("10.0.0.1", "127.0.0.1", "192.0.2.1", r"\# 4 7f000001")),
    *(("AAAA", text, "address_not_public") for text in ("::1", "fe80::1", "2001:db8::1", "::ffff:8.8.8.8", "fd00::1")),  # noqa: E501
    *(("AAAA", text, "record_invalid") for text in ("8.8.8.8", "fe80::1%eth0", "[2a00::1]", "2a00:::1")),
    *(("CAA", text, "record_invalid") for text in ("0 issue", "0 issue ;", "256 issue a", "1 issue a", '0 is-sue "a"', '0 "" "a"', '0 issue ""', "a b c")),  # noqa: E501
    *(("CNAME", text, "record_invalid") for text in ("www", ".", "a..b", "a b.example.", "8.8.8.8", "a.b.8", "a.example. b", "*.a.example.")),  # noqa: E501
    *(("CNAME", text, "record_invalid") for text in (r"a\.b.example.", "a" * 64 + ".example", "a." * 127 + "a", "http://a.example/", "a.example:80")),  # noqa: E501
    *(("CNAME", text, "record_invalid") for text in (r"\# 4 02612e00", r"\# 2 c000", "a.example\nb.example", "a.example.\x07")),  # noqa: E501
    *(("HTTPS", text, "record_invalid") for text in ("1", "1 .. alpn=h2", "1 . alpn", "1 . port=70000", "0 . alpn=h2", "1 . mandatory=alpn")),  # noqa: E501
    *(("HTTPS", text, "record_invalid") for text in ("1 . alpn=h2 alpn=h3", "1 . ipv4hint=::1", "1 . ech=AAA=", "1 www alpn=h2")),  # noqa: E501
    *(("HTTPS", text, "record_invalid") for text in ('1 . dohpath="/a;b"', '1 . key700="(a)"', r'1 . alpn="a\"b"', r'1 . alpn="\233"', "1 . alpn=a\\\\,b")),  # noqa: E501
    *(("HTTPS", f"1 {text}", "record_invalid") for text in ("a_b.example", "-a.example alpn=h2", ". dohpath=/x", ". dohpath", ". dohpath=x{?dns}", ". key7=/{?x}")),  # noqa: E501
    *(("HTTPS", text, "address_not_public") for text in ("1 . ipv4hint=8.8.8.8,10.0.0.1", "1 . ipv6hint=fe80::1")),  # noqa: E501
    *(("MX", text, "record_invalid") for text in ("mail.example.net", "10", "10 mail", "70000 a.example", "-1 a.example", "10 8.8.8.8", "10 a_b.example")),  # noqa: E501
    *(("SRV", text, "record_invalid") for text in ("1 2 a.example", "1 2 3", "1 2 70000 a.example", "1 2 3 a.example b", "1 2 3 _a.example", "1 2 3 a")),  # noqa: E501
    *(("SSHFP", text, "record_invalid") for text in ("4 2", "4 2 ab", f"5 2 {SHA256}", f"4 3 {SHA256}", f"4 2 {SHA256[1:]}z")),  # noqa: E501
    *(("TLSA", text, "record_invalid") for text in ("3 1 1", "3 1 1 ab", f"4 1 1 {SHA256}", f"3 2 1 {SHA256}", f"3 1 3 {SHA256}", r"\# 3 030100")),  # noqa: E501
    *(("TXT", text, "record_invalid") for text in ('"a', '"a" b', '"a" b "c"', '"a\\"', "a\\", r"a\256", r"a\1", r"a\12x", "a\nb", "a" * 16_385)),  # noqa: E501
    *(("TXT", text, "record_invalid") for text in ("ü" * 2100, r"\# 0", r"\# 2 0261", "\ud800")),
]  # fmt: skip


@pytest.mark.parametrize(("type_name", "text", "code"), WRONG_VALUES)
def test_a_wrong_value_is_refused(type_name: str, text: str, code: str) -> None:
    assert codes(check(("www", type_name, text))[1]) == [("records[0].values[0]", code)]


def test_addresses_of_a_network_at_home_need_a_setting() -> None:
    sets, errors = check(
        ("nas", "A", "192.168.1.2"),
        ("nas", "AAAA", "::ffff:192.168.1.2"),
        ("nas", "HTTPS", "1 . ipv4hint=192.168.1.2"),
        record_private_addresses=True,
    )
    assert errors == []
    assert [each.values for each in sets] == [
        ("192.168.1.2",),
        ("::ffff:192.168.1.2",),
        ('1 . ipv4hint="192.168.1.2"',),
    ]


@pytest.mark.parametrize("type_name", ["A", "AAAA", "MX"])
@pytest.mark.parametrize("owner", ["_a", "-a", "a-.b", "*._a", "_a.b"])
def test_records_of_hosts_need_a_host_name(type_name: str, owner: str) -> None:
    value = {"A": "8.8.8.8", "AAAA": "2a00::1", "MX": "10 a.example"}[type_name]
    assert codes(check((owner, type_name, value))[1]) == [("records[0].name", "record_invalid")]
    assert check((owner, "TXT", "a"), ("*", type_name, value), ("*.a", type_name, value))[1] == []


@pytest.mark.parametrize(
    ("type_name", "says"),
    [
        ("NS", "Set nameservers instead"),
        ("SOA", "part of the platform domain's zone"),
        ("DNAME", "CNAME"),
        ("SPF", "TXT"),
        *((each, "sign its names") for each in ("RRSIG", "NSEC3", "CDS")),
        *((each, "A, AAAA, CAA, CNAME") for each in ("PTR", "TYPE2", "TYPE99999", "", "\x00", "A" * 999)),
    ],
)
def test_a_type_that_no_name_may_have_is_refused(type_name: str, says: str) -> None:
    for text in (type_name, type_name.lower()):
        _, errors = check(("www", text, "whatever"))
        assert codes(errors) == [("records[0].type", "value_invalid")]
        assert says in errors[0].message


def test_a_platform_domain_limits_types_and_wildcards() -> None:
    _, errors = check(
        ("@", "MX", "10 a.example"), ("*", "A", "8.8.8.8"), record_types=("A", "TXT"), record_wildcards=False
    )
    assert codes(errors) == [("records[0].type", "value_invalid"), ("records[1].name", "record_invalid")]
    assert "Give one of A, TXT." in errors[0].message
    assert "example.test does not accept" in errors[1].message


@pytest.mark.parametrize(
    ("ttl", "accepted"), [(59, False), (60, True), (86_400, True), (86_401, False), (-1, False)]
)
def test_a_ttl_is_from_a_minute_to_a_day(ttl: int, accepted: bool) -> None:
    sets, errors = check(RecordSetInput("www", "A", ("8.8.8.8",), ttl))
    assert codes(errors) == ([] if accepted else [("records[0].ttl", "value_invalid")])
    if accepted:
        assert sets[0].ttl_seconds == ttl
    assert check(("www", "A", "8.8.8.8"))[0][0].ttl_seconds == 300


def test_a_cname_is_alone_at_its_owner() -> None:
    sets, errors = check(("@", "CNAME", "a.example"), ("www", "CNAME", "@"), ("a.www", "A", "8.8.8.8"))
    assert errors == []
    assert [(each.name, each.type) for each in sets] == [("@", "CNAME"), ("a.www", "A"), ("www", "CNAME")]

    _, errors = check(("www", "A", "8.8.8.8"), ("WWW", "CNAME", "a.example"))
    assert codes(errors) == [("records[1]", "cname_not_alone")]
    _, errors = check(
        ("@", "CNAME", "a.example"), ("@", "TXT", "a"), ("@", "MX", "1 a.example"), ("@", "A", "8.8.8.8")
    )
    assert codes(errors) == [("records[0]", "cname_not_alone")]
    assert "alone at blog.example.test. Remove its A, MX and TXT records" in errors[0].message

    _, errors = check(
        RecordSetInput("www", "CNAME", ("a.example", "b.example")), ("a", "CNAME", "a.blog.example.test")
    )
    assert codes(errors) == [
        ("records[0].values", "record_invalid"),
        ("records[1].values[0]", "record_invalid"),
    ]


def test_a_null_mx_is_alone() -> None:
    assert check(RecordSetInput("@", "MX", ("0 .",)))[1] == []
    assert codes(check(RecordSetInput("@", "MX", ("0 .", "10 a.example")))[1]) == [
        ("records[0].values", "record_invalid")
    ]


def test_an_rrset_is_given_once_and_a_value_too() -> None:
    _, errors = check(
        RecordSetInput("www", "TXT", ("a", '"a"', r"\097")),
        RecordSetInput("WWW.blog.example.test.", "type16", ("b",)),
        RecordSetInput("www", "A", ()),
    )
    assert codes(errors) == [
        ("records[0].values[1]", "record_duplicate"),
        ("records[0].values[2]", "record_duplicate"),
        ("records[1]", "record_duplicate"),
        ("records[2].values", "required"),
    ]


def test_all_errors_are_reported_at_once() -> None:
    entries = [RecordSetInput("a b", "NS", ("x",), 1), RecordSetInput("a b", "A", ("8.8.8.8", "10.0.0.1"), 1)]
    _, errors = check(*entries)
    assert codes(errors) == [
        ("records[0].name", "record_invalid"),
        ("records[0].type", "value_invalid"),
        ("records[0].ttl", "value_invalid"),
        ("records[1].name", "record_invalid"),
        ("records[1].ttl", "value_invalid"),
        ("records[1].values[1]", "address_not_public"),
    ]


def _addresses(count: int, start: int = 0) -> tuple[str, ...]:
    return tuple(f"193.0.{(start + each) // 250}.{(start + each) % 250}" for each in range(count))


LIMITS: list[tuple[list[RecordSetInput], list[RecordSetInput], str]] = [
    (
        [RecordSetInput(f"a{each}", "A", ("8.8.8.8",)) for each in range(50)],
        [RecordSetInput(f"a{each}", "A", ("8.8.8.8",)) for each in range(51)],
        "records",
    ),
    (
        [RecordSetInput("a", "A", _addresses(100))],
        [RecordSetInput("a", "A", _addresses(101))],
        "records[0].values",
    ),
    (
        [RecordSetInput(f"a{each}", "A", _addresses(100)) for each in range(5)],
        [*(RecordSetInput(f"a{each}", "A", _addresses(100)) for each in range(5)), RecordSetInput("a", "TXT", ("a",))],  # noqa: E501
        "records",
    ),
    (
        [RecordSetInput("a", "TXT", ("a" * 4080,))],  # with 16 octets of lengths
        [RecordSetInput("a", "TXT", ("a" * 4080, "b"))],
        "records[0].values",
    ),
    (
        [RecordSetInput(f"a{each}", "TXT", ("a" * 4080,)) for each in range(4)],
        [*(RecordSetInput(f"a{each}", "TXT", ("a" * 4080,)) for each in range(4)), RecordSetInput("a", "TXT", ("a",))],  # noqa: E501
        "records",
    ),
    (
        [RecordSetInput(f"a{each}", "TLSA", ("3 0 0 " + "ab" * 2000,)) for each in range(4)],
        [RecordSetInput(f"a{each}", "TLSA", ("3 0 0 " + "ab" * 2000,)) for each in range(5)],
        "records",
    ),
    (
        [RecordSetInput("ü" * 40, "CNAME", ("ü" * 40 + ".example",))],
        [RecordSetInput("ü" * 20 + f"{each}", "CNAME", ("ü" * 40 + ".example",)) for each in range(40)],
        "records",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("accepted", "refused", "field"), LIMITS)
def test_a_name_has_a_limited_number_and_size_of_records(
    accepted: list[RecordSetInput], refused: list[RecordSetInput], field: str
) -> None:
    assert check(*accepted)[1] == []
    assert codes(check(*refused)[1]) == [(field, "too_many_records")]


@given(st.binary(min_size=0, max_size=600))
def test_a_txt_record_has_the_form_of_dnspython(octets: bytes) -> None:
    escaped = "".join(f"\\{octet:03d}" for octet in octets)
    value, _ = parse_value(NAME, "TXT", f'"{escaped}"', accepts_private=False)
    rdata = dns.rdata.from_text("IN", "TXT", value)
    assert rdata.to_text() == value
    assert b"".join(rdata.strings) == octets  # type: ignore[attr-defined]


@given(
    st.lists(
        st.builds(
            RecordSetInput,
            st.text(max_size=20) | st.sampled_from(["@", "www", "*", "*.a"]),
            st.sampled_from([*RECORD_TYPES, "NS", "x"]),
            st.lists(st.text(max_size=40), max_size=3).map(tuple),
        ),
        max_size=4,
    )
)
def test_any_text_is_accepted_or_refused_with_a_sentence(entries: list[RecordSetInput]) -> None:
    sets, errors = check(*entries)
    if not errors:
        again, more = check(
            *(RecordSetInput(each.name, each.type, each.values, each.ttl_seconds) for each in sets)
        )
        assert (again, more) == (sets, [])
