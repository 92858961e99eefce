"""Spellings of values, valid and not, and the comparison of the clients' parsers with the service's rules."""

import base64
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sublet.accounts.fields import check_email
from sublet.accounts.tokens.api import ChangeTokenBody
from sublet.credits.ledger import check_credits
from sublet.dns.addresses import InvalidAddress, parse_ipv4, parse_ipv6
from sublet.dns.ds import parse_ds
from sublet.dns.names import parse_domain_name, parse_host_name
from sublet.errors import FieldError
from sublet.http.read_structs import Reading, read_members
from sublet.restrictions import Restrictions, check_restrictions
from sublet.subdomains.dates.api import AutoRenewBody
from sublet.subdomains.records.rule import parse_owner, parse_type
from sublet.subdomains.records.values import parse_value
from sublet_client import spelling

OWNER = "blog.example.test"
NOW = datetime(2026, 11, 27, tzinfo=UTC)
ODD = (
    " "
    "\t\n\r\0_*@/\\$%:;,()[]\"'+-.0aZ\x7f\u0080\u00a0\u00ad\u0131\u017f\u200b\u2028\u3000\ufeff\uff11\u0661\U0001f600\ud800"
)
"""Characters that parsers treat in different ways, for insertion at random places."""

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
    (spelling.parse_name, "blog_1 _!.example", "contains `_`, ` `, `!`."),
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
    (spelling.parse_network, "fe80::1%a\n/128", "not a network"),
    (spelling.parse_mail_address, "bob", "not a mail address"),
    (spelling.parse_mail_address, "a@b@example.org", "not a mail address"),
    (spelling.parse_mail_address, '"b c"@example.org', "before the @"),
    (spelling.parse_mail_address, "=?utf-8?q?b?=@example.org", "before the @"),
    (spelling.parse_mail_address, "b" * 65 + "@example.org", "64 before the @"),
    (spelling.parse_mail_address, "bob@localhost", "no full domain after the @"),
    (spelling.parse_mail_address, "bob@", "no full domain after the @"),
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


def change_case(rng: random.Random, text: str) -> str:
    """Return a text with letters in another case, or as it is."""
    return rng.choice([text, text, text.upper(), text.title(), text.swapcase()])


def to_full_width(rng: random.Random, text: str) -> str:
    """Return a text with some of its ASCII characters in full width."""
    return "".join(
        chr(ord(each) + 0xFEE0) if "!" <= each <= "~" and each != "." and rng.random() < 0.3 else each
        for each in text
    )


def _draw(rng: random.Random, good: Sequence[str], bad: Sequence[str]) -> str:
    """Return one of the texts as it is, changed at a place, or joined with a part of another one."""
    text = rng.choice(good if rng.random() < 0.8 else bad)
    if rng.random() < 0.4:
        return change_case(rng, text)
    other, place = rng.choice([*good, *bad]), rng.randrange(len(text) + 1)
    return rng.choice(
        [
            text[:place] + rng.choice(ODD) + text[place:],
            text[:place] + text[place + 1 :],
            text[:place] + text[place : place + 1] * 2 + text[place + 1 :],
            text[:place] + other[rng.randrange(len(other) + 1) :],
            rng.choice(ODD) + text,
            text + rng.choice(ODD),
            to_full_width(rng, text),
        ]
    )


def _rule_of_records(text: str) -> tuple[str, str]:
    kind, _, value = text.partition("\n")
    type_name = parse_type(kind)
    return type_name, parse_value(OWNER, type_name, value, accepts_private=True)[0]


def _parse_record(text: str) -> tuple[str, str]:
    """Return the form of a record; that of the service where the clients leave it to the service."""
    kind, _, value = text.partition("\n")
    found = spelling.parse_record_value(value, kind, OWNER)
    return _rule_of_records(text) if found is None else (spelling.parse_record_type(kind), found)


def _rule_of_ds(text: str) -> str:
    found = parse_ds(OWNER, text)
    return f"{found.key_tag} {found.algorithm} {found.digest_type} {found.digest}"


def _rule_of_addresses(text: str) -> str:
    try:
        return parse_ipv4(text)
    except InvalidAddress:
        return parse_ipv6(text)


def _accepted(value: object, errors: list[FieldError]) -> object:
    if errors:
        raise ValueError(errors[0].message)
    return value


def _rule_of_patterns(text: str) -> object:
    stored, errors = check_restrictions(Restrictions(names=(text,)), NOW)
    return _accepted(stored.names and stored.names[0], errors)


def _rule_of_record_patterns(text: str) -> object:
    stored, errors = check_restrictions(Restrictions(scopes=("records:write",), record_names=(text,)), NOW)
    return _accepted(stored.record_names and stored.record_names[0], errors)


def _rule_of_networks(text: str) -> object:
    stored, errors = check_restrictions(Restrictions(networks=(text,)), NOW)
    return _accepted(stored.networks and stored.networks[0], errors)


def _rule_of_scopes(text: str) -> object:
    stored, errors = check_restrictions(Restrictions(scopes=(text,)), NOW)
    return _accepted(stored.scopes and stored.scopes[0], errors)


def _rule_of_mail_addresses(text: str) -> object:
    return _accepted(*check_email(text))


def _rule_of_instants(text: str) -> object:
    reading = Reading()
    body = read_members({"expires_at": text}, ChangeTokenBody, reading)
    return _accepted(body and body.expires_at, list(reading.malformed))


def _rule_of_prices(text: str) -> object:
    reading = Reading()
    body = read_members({"max_credits": json.loads(text)}, AutoRenewBody, reading)
    _accepted(None, list(reading.malformed))
    return _accepted(body.max_credits, check_credits("max_credits", body.max_credits, least=0))


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value: texts that are accepted and refused, the service's rule and the clients' parser.

    Both return the canonical form or raise ValueError.
    """

    good: Sequence[str]
    bad: Sequence[str]
    rule: Callable[[str], object]
    parse: Callable[[str], object]


def _kind(parse: Callable[[str], object], rule: Callable[[str], object]) -> Kind:
    """Return a kind with the texts of the tables."""
    good = [text for parser, text, _ in CANONICAL if parser is parse]
    bad = [text for parser, text, _ in REFUSED if parser is parse]
    return Kind(good, bad, rule, parse)


KINDS = {
    "name": _kind(spelling.parse_name, parse_domain_name),
    "host": _kind(spelling.parse_host, parse_host_name),
    "pattern": _kind(spelling.parse_pattern, _rule_of_patterns),
    "address": _kind(spelling.parse_address, _rule_of_addresses),
    "network": _kind(spelling.parse_network, _rule_of_networks),
    "pattern of owners": _kind(spelling.parse_record_pattern, _rule_of_record_patterns),
    "mail address": _kind(spelling.parse_mail_address, _rule_of_mail_addresses),
    "instant": _kind(spelling.parse_instant, _rule_of_instants),
    "scope": _kind(spelling.parse_scope, _rule_of_scopes),
    "price": _kind(spelling.parse_price, _rule_of_prices),
    "record": Kind(
        [f"{kind}\n{text}" for kind, text, _ in RECORDS],
        [f"{kind}\n{text}" for kind, text, _ in RECORDS_REFUSED],
        _rule_of_records,
        _parse_record,
    ),
    "owner of records": Kind(
        [text for text, _ in OWNERS],
        [text for text, _ in OWNERS_REFUSED],
        lambda text: parse_owner(OWNER, text, "example.test"),
        lambda text: spelling.parse_record_owner(text, OWNER, "example.test"),
    ),
    "ds": Kind(
        DS_FORMS,
        [text for text, _ in DS_REFUSED],
        _rule_of_ds,
        lambda text: spelling.parse_ds(text, OWNER),
    ),
}


@dataclass(slots=True)
class Compared:
    """The number of texts that both accepted, and that both refused, and the differences as lines."""

    accepted: int = 0
    refused: int = 0
    differences: list[str] = field(default_factory=list)


def compare(kind: Kind, seed: int, count: int) -> Compared:
    """Compare the rule and the parser of a kind on this many random texts."""
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    compared = Compared()
    for _ in range(count):
        text = _draw(rng, kind.good, kind.bad)
        wanted, found = _outcome(kind.rule, text), _outcome(kind.parse, text)
        if wanted != found:
            compared.differences.append(f"{text!r}: the service {wanted!r}, the clients {found!r}")
        elif wanted is None:
            compared.refused += 1
        else:
            compared.accepted += 1
    return compared


def _outcome(parse: Callable[[str], object], text: str) -> object:
    """Return the canonical form; None if the text is refused."""
    try:
        return parse(text)
    except ValueError:
        return None
