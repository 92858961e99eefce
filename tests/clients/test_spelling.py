"""The clients' parsers of values with several spellings: tables of canonical forms and refusals."""

import base64
import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from dns.rdatatype import RdataType

from sublet.dns.types import RECORD_TYPES
from sublet_client import spelling
from sublet_client.models import Dnskey, Ds, DsRecord
from support.child_keys import ChildKey
from support.spellings import KINDS, compare

OWNER = "blog.example.test"
DIGEST = "0a" * 31 + "fe"
LONG = "ab" * 48
KEY = base64.b64encode(bytes(range(64))).decode()
LABELS = ".".join(["a" * 63] * 3)

CANONICAL: list[tuple[Callable[[str], object], str, object]] = [
    (spelling.parse_name, "Blog.Example.Test.", "blog.example.test"),
    (spelling.parse_name, "Bücher.example", "xn--bcher-kva.example"),
    (spelling.parse_name, "XN--BCHER-KVA.example", "xn--bcher-kva.example"),
    (spelling.parse_name, "\uff42log\u3002example\uff0etest\uff61", "blog.example.test"),
    (spelling.parse_name, "bl\u00adog.example", "blog.example"),
    (spelling.parse_name, "faß.example", "xn--fa-hia.example"),
    (spelling.parse_name, LABELS + "." + "b" * 61, LABELS + "." + "b" * 61),
    (spelling.parse_host, "NS1.Provider.Example.", "ns1.provider.example"),
    (spelling.parse_host, "xn--i-7iq.ws", "xn--i-7iq.ws"),  # an emoji, from before IDNA 2008
    (spelling.parse_pattern, " *.Bücher.example. ", "*.xn--bcher-kva.example"),
    (spelling.parse_pattern, "Blog.example", "blog.example"),
    (spelling.parse_address, "192.0.2.7", "192.0.2.7"),
    (spelling.parse_address, "2001:DB8:0:0::0:1", "2001:db8::1"),
    (spelling.parse_address, "2001:db8::192.0.2.1", "2001:db8::c000:201"),
    (spelling.parse_network, "192.0.2.7", "192.0.2.7/32"),
    (spelling.parse_network, " 2001:DB8::/48 ", "2001:db8::/48"),
    (spelling.parse_network, "192.0.2.0/255.255.255.0", "192.0.2.0/24"),
    (spelling.parse_mail_address, " Bob@Example.org ", "bob@example.org"),
    (spelling.parse_mail_address, "Bob+Shop@Bücher\u3002\uff25xample.", "bob+shop@xn--bcher-kva.example"),
    (spelling.parse_mail_address, "ZOE\u0308@example.org", "zo\u00eb@example.org"),
    (spelling.parse_scope, "subdomains:read", "subdomains:read"),
    (spelling.parse_record_pattern, " _ACME-challenge.* ", "_acme-challenge.*"),
    (spelling.parse_record_pattern, "@", "@"),
    (spelling.parse_record_pattern, "*.dev", "*.dev"),
    (spelling.parse_price, "0", 0),
    (spelling.parse_price, "1000000000000", 10**12),
    (spelling.parse_instant, "2027-01-31T12:00:00Z", datetime(2027, 1, 31, 12, tzinfo=UTC)),
    (spelling.parse_instant, "2027-01-31t14:00:00.5+02:00", datetime(2027, 1, 31, 12, 0, 0, 500000, UTC)),
]
REFUSED: list[tuple[Callable[[str], object], str, str]] = [
    (spelling.parse_name, "", "A name has 1 to 1000 characters"),
    (spelling.parse_name, "\u00ad" * 1001, "A name has 1 to 1000 characters"),
    (spelling.parse_name, "\u00ad", "only invisible characters"),
    (spelling.parse_name, " blog.example", "contains ` `"),
    (spelling.parse_name, "blog_1.example", "contains `_`"),
    (spelling.parse_name, "blog\uff20.example", "refused by IDNA 2008"),
    (spelling.parse_name, "blog\ud800.example", "contains `<U+D800>`"),
    (spelling.parse_name, "blog..example", "an empty label"),
    (spelling.parse_name, ".", "an empty label"),
    (spelling.parse_name, "blog", "a single label"),
    (spelling.parse_name, "9", "a single label"),
    (spelling.parse_name, "blog.123", "a label of digits"),
    (spelling.parse_name, "-blog.example", "a hyphen"),
    (spelling.parse_name, "a" * 64 + ".example", "63 octets"),
    (spelling.parse_name, LABELS + "." + "b" * 62, "253 octets"),
    (spelling.parse_name, "xn--i-7iq.ws", "refused by IDNA 2008"),
    (spelling.parse_name, "😀.example", "refused by IDNA 2008"),
    (spelling.parse_host, "8.8.4.4", "is an address"),
    (spelling.parse_host, "[2001:db8::1]", "is an address"),
    (spelling.parse_pattern, "*.*.example", "contains `*`"),
    (spelling.parse_pattern, "*", "contains `*`"),
    (spelling.parse_address, "192.0.2.07", "not an IP address"),
    (spelling.parse_address, "192.0.2.7 ", "not an IP address"),
    (spelling.parse_address, "192.0.2.7/32", "not an IP address"),
    (spelling.parse_address, "fe80::1%eth0", "not an IP address"),
    (spelling.parse_address, "[2001:db8::1]", "not an IP address"),
    (spelling.parse_address, "१.2.3.4", "not an IP address"),
    (spelling.parse_network, "192.0.2.7/24", "not a network"),
    (spelling.parse_network, "anywhere", "not a network"),
    (spelling.parse_mail_address, "bob", "not a mail address"),
    (spelling.parse_mail_address, "a@b@example.org", "not a mail address"),
    (spelling.parse_mail_address, '"b c"@example.org', "before the @"),
    (spelling.parse_mail_address, "b" * 65 + "@example.org", "64 before the @"),
    (spelling.parse_mail_address, "bob@localhost", "a single label"),
    (spelling.parse_record_pattern, "_acme-challenge.", "is no owner of records"),
    (spelling.parse_record_pattern, "b\u00fccher", "is no owner of records"),
    (spelling.parse_record_pattern, "a.*.b", "is no owner of records"),
    (spelling.parse_scope, "Subdomains:read", "There is no scope `Subdomains:read`"),
    (spelling.parse_price, "-1", "not a number of credits"),
    (spelling.parse_price, "1.0", "not a number of credits"),
    (spelling.parse_price, "07", "not a number of credits"),
    (spelling.parse_price, "1000000000001", "not a number of credits"),
    (spelling.parse_instant, "tomorrow", "not an instant"),
    (spelling.parse_instant, "2027-01-31T12:00:00", "not an instant"),
    (spelling.parse_instant, "2027-01-31", "not an instant"),
    (spelling.parse_instant, "0001-01-01T00:00:00+02:00", "not an instant"),
]
RECORDS: list[tuple[str, str, str | None]] = [
    ("a", "8.8.4.4", "8.8.4.4"),
    ("AAAA", "2001:DB8:0::1", "2001:db8::1"),
    ("AAAA", "::ffff:8.8.4.4", "::ffff:8.8.4.4"),
    ("CNAME", "Example.GitHub.io", "example.github.io."),
    ("TYPE5", "@", "blog.example.test."),
    ("CNAME", "_x.bücher.example.", "_x.xn--bcher-kva.example."),
    ("MX", "010\tMail.example.net", "10 mail.example.net."),
    ("MX", "0 .", "0 ."),
    ("SRV", "10 5 443 www.example.net", "10 5 443 www.example.net."),
    ("CAA", "0 issue letsencrypt.org", '0 issue "letsencrypt.org"'),
    ("CAA", '128 issue "ca.example; a=b"', '128 issue "ca.example; a=b"'),
    ("SSHFP", f"4 2 {DIGEST[:9].upper()} {DIGEST[9:]}", f"4 2 {DIGEST}"),
    ("TLSA", f"03 1 1 {DIGEST.upper()}", f"3 1 1 {DIGEST}"),
    ("HTTPS", "1 . port=443 alpn=h2,h3", '1 . alpn="h2,h3" port="443"'),
    ("SVCB", "1 @ ipv4hint=8.8.4.4", '1 blog.example.test. ipv4hint="8.8.4.4"'),
    ("TXT", "v=spf1 -all; ü", '"v=spf1 -all; \\195\\188"'),
    ("TXT", '"a"   "\\098\\""', '"a" "b\\""'),
    ("TXT", "a" * 256, f'"{"a" * 255}" "a"'),
    # The registry alone knows the form of these, or refuses them.
    ("A", "\\# 4 08080404", None),
    ("MX", "10 mail.example.net. ; comment", None),
    ("MX", "70000 mail.example.net", None),
    ("HTTPS", "1 . ech=AEX+", None),
    ("TLSA", f"3 1 1 {DIGEST[1:]}", None),
    ("CAA", "7 issue letsencrypt.org", None),
]
RECORDS_REFUSED = [
    ("NS", "ns1.provider.example.", "is not a type that a name may have"),
    ("A", "2001:db8::1", "no address of A records"),
    ("AAAA", "8.8.4.4", "no address of AAAA records"),
    ("A", "8.8.4", "is not an IP address"),
    ("TXT", " ", "has 0 characters"),
    ("TXT", '"a', "a quotation mark too few"),
    ("TXT", "\\300", "a backslash without a meaning"),
    ("TXT", "a\nb", "a line break"),
    ("CNAME", "www", "is a single label"),
    ("CNAME", ".", "an empty label"),
    ("MX", "10 8.8.4.4", "is an address"),
    ("SRV", "1 1 443 _x.example.net", "contains `_`"),
]
OWNERS = [
    ("@", "@"), ("*", "*"), ("WWW", "www"), ("*.Dev", "*.dev"), ("_acme-challenge", "_acme-challenge"),
    ("Blog.Example.Test", "@"), ("www.blog.example.test.", "www"), ("*.blog.example.test", "*"), ("bücher", "xn--bcher-kva"),  # noqa: E501
]  # fmt: skip
OWNERS_REFUSED = [
    ("", "is no owner"), ("a.*", "is no owner"), ("www.", "is outside `blog.example.test`"), ("a..b", "an empty label"),  # noqa: E501
    ("www.example.test", "is outside `blog.example.test`"), ("a b", "a character"), (f"{LABELS}.{'b' * 61}", "253 octets"),  # noqa: E501
]  # fmt: skip
DS = f"2371 13 2 {DIGEST}"
DS_FORMS = [
    DS,
    DS.upper(),
    f" 02371  013 02\t{DIGEST[:40]} {DIGEST[40:].upper()}\n",
    f"DS {DS}",
    f"in ds {DS}",
    f"2371 ecdsap256sha256 2 {DIGEST}",
    f"Blog.Example.Test. 3600 IN DS {DS}",
    f"blog.example.test IN 3600 DS {DS}",
    f"blog.example.test. 1h30m DS {DS} ; the one in use",
    f"@ 1W IN DS ( 2371 13 2\n  {DIGEST[:30]} ; the first half\n  {DIGEST[30:]} )",
]
DS_REFUSED = [
    ("", "is no DS record"),
    ("nonsense", "is no DS record"),
    ("2371 13 2", "is no DS record"),
    (f"other.example.test. IN DS {DS}", "belongs to `other.example.test.`. Give a record of `blog.example.test`"),  # noqa: E501
    (f"CH DS {DS}", "belongs to `CH`"),
    (f"1x DS {DS}", "belongs to `1x`"),
    (f"99999 13 2 {DIGEST}", "key tag 99999"),
    (f"2371 5 2 {DIGEST}", "algorithm 5 is not accepted"),
    (f"2371 RSASHA1 2 {DIGEST}", "algorithm RSASHA1 is not accepted"),
    (f"2371 13 1 {'ab' * 20}", "digest type 1 is not accepted"),
    (f"2371 13 2 {DIGEST[:-1]}", "64 hexadecimal digits"),
    (f"2371 13 2 {DIGEST[:-1]}g", "64 hexadecimal digits"),
    (f"2371 13 4 {DIGEST}", "96 hexadecimal digits"),
    (f"{DS} {DS}", "64 hexadecimal digits"),
    (f"257 3 x {KEY}", "algorithm x is not accepted"),
    (f"DNSKEY 257 2 13 {KEY}", "protocol of a DNSKEY is 3"),
    (f"257 3 5 {KEY}", "algorithm 5 is not accepted"),
    (f"385 3 13 {KEY}", "flags 385"),
    (f"257 3 13 {KEY[:-4]}", "64 octets in base64"),
    (f"257 3 13 {KEY.lower()}!", "64 octets in base64"),
    (f"257 3 8 {KEY}", "1024 to 4096 bits"),
    (" " * 4001, "too long"),
]  # fmt: skip


@pytest.mark.parametrize(("parse", "text", "canonical"), CANONICAL)
def test_a_text_gets_its_canonical_form(parse: Callable[[str], object], text: str, canonical: object) -> None:
    assert parse(text) == canonical


@pytest.mark.parametrize(("parse", "text", "sentence"), REFUSED)
def test_a_text_without_a_canonical_form_is_refused(
    parse: Callable[[str], object], text: str, sentence: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        parse(text)


@pytest.mark.parametrize("text", DS_FORMS)
def test_a_ds_record_in_zone_file_text_gets_its_canonical_form(text: str) -> None:
    assert spelling.parse_ds(text, "Blog.example.test.") == DS


@pytest.mark.parametrize(("text", "sentence"), DS_REFUSED)
def test_a_text_that_is_no_ds_record_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        spelling.parse_ds(text, OWNER)


@pytest.mark.parametrize("owner", [OWNER, "xn--bcher-kva.example"])
def test_a_dnskey_gives_the_ds_of_the_name_that_it_is_for(owner: str) -> None:
    key = ChildKey.new()
    made = key.ds(owner=owner)
    text = f"{owner.upper()}. 1d IN DNSKEY ( {str(key.dnskey)[:60]}\n {str(key.dnskey)[60:]} ) ; KSK"
    for form in (str(key.dnskey), text):
        assert spelling.parse_ds(form, owner) == f"{made.key_tag} 13 2 {made.digest}"


def test_objects_of_the_api_get_their_canonical_form() -> None:
    for kind in (Ds, DsRecord):
        record = kind(key_tag=2371, algorithm=13, digest_type=2, digest=DIGEST.upper())
        assert spelling.parse_ds(record, OWNER) == DS
    dnskey = Dnskey(flags=257, protocol=3, algorithm=13, public_key=KEY)
    assert spelling.parse_ds(dnskey, OWNER) == spelling.parse_ds(f"257 3 13 {KEY}", OWNER)


@pytest.mark.parametrize(("type_name", "text", "canonical"), RECORDS)
def test_a_value_of_a_record_gets_its_canonical_form(
    type_name: str, text: str, canonical: str | None
) -> None:
    assert spelling.parse_record_value(text, type_name, OWNER) == canonical
    if canonical is not None:
        assert spelling.parse_record_value(canonical, type_name, OWNER) == canonical


@pytest.mark.parametrize(("type_name", "text", "sentence"), RECORDS_REFUSED)
def test_a_text_that_is_no_value_of_a_record_is_refused(type_name: str, text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        spelling.parse_record_value(text, type_name, OWNER)


@pytest.mark.parametrize(("text", "owner"), OWNERS)
def test_an_owner_of_records_becomes_relative(text: str, owner: str) -> None:
    assert spelling.parse_record_owner(text, "Blog.example.test.", "Example.test") == owner


@pytest.mark.parametrize(("text", "sentence"), OWNERS_REFUSED)
def test_a_text_that_is_no_owner_of_records_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        spelling.parse_record_owner(text, OWNER, "example.test")


def test_the_clients_know_the_types_of_records() -> None:
    assert spelling.RECORD_TYPES == RECORD_TYPES
    for each in RECORD_TYPES:
        assert spelling.parse_record_type(f"type{int(RdataType.make(each))}") == each


@pytest.mark.parametrize("kind", KINDS)
def test_the_service_and_the_clients_agree_on_random_spellings(kind: str) -> None:
    compared = compare(KINDS[kind], seed=1, count=300)
    assert compared.differences == []
    assert min(compared.accepted, compared.refused) >= 30
