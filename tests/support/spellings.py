"""Random spellings of values, valid and not, and the comparison of the clients' parsers with the service's
rules.
"""

import base64
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address

from dns.rdatatype import RdataType

from sublet.accounts.fields import check_email
from sublet.accounts.tokens.api import ChangeTokenBody
from sublet.credits.fields import check_credits
from sublet.dns.addresses import InvalidAddress, parse_ipv4, parse_ipv6
from sublet.dns.ds import parse_ds
from sublet.dns.names import parse_domain_name, parse_host_name
from sublet.dns.types import RECORD_TYPES
from sublet.errors import FieldError
from sublet.http.read_structs import Reading, read_members
from sublet.restrictions import SCOPES, Restrictions, check_restrictions
from sublet.subdomains.dates.api import AutoRenewBody
from sublet.subdomains.records.rule import parse_owner, parse_type
from sublet.subdomains.records.values import parse_value
from sublet_client import spelling

OWNER = "blog.example.test"
NOW = datetime(2026, 11, 27, tzinfo=UTC)
LABELS = [
    *("a", "blog", "example", "test", "ns1", "x-1", "a--b", "ab--c", "123", "7", "xn--bcher-kva", "xn--a", "xn--i-7iq"),  # noqa: E501
    *("xn--zzzzzzzz", "bücher", "faß", "ΕΛΛΆΣ", "ςσ", "中文", "עברית", "مثال", "مثال۱", "हिन्दी", "ﬁn", "İstanbul", "K\u212a"),  # noqa: E501
    *("a\u00adb", "a\u200db", "क\u094d\u200dष", "l·l", "😀", "e\u0301", "\u0301e", "½", "-a", "a-", "a_b", "*", "a" * 63, "b" * 64),  # noqa: E501
    *("ü" * 40, "ü" * 70, ""),
]  # fmt: skip
DOTS = [".", ".", ".", ".", ".", "\u3002", "\uff0e", "\uff61", ".."]
ODD = (
    " "
    "\t\n\r\0_*@/\\$%:;,()[]\"'+-.0aZ\x7f\u0080\u00a0\u00ad\u0131\u017f\u200b\u2028\u3000\ufeff\uff11\u0661\U0001f600\ud800"
)
"""Characters that parsers treat in different ways, for insertion at random places."""
MNEMONICS = ["8", "10", "13", "14", "15", "16", "13", "13", "013", "ECDSAP256SHA256", "ed25519", "RSASHA1", "5", "17", "x"]  # fmt: skip  # noqa: E501
UNIT_TTLS = ["1h", "1H30M", "1w2d3h4m5s", "1h30", "h", "1y", "x"]
"""TTLs with units, and words that are none."""
CAA_VALUES = ['"letsencrypt.org"', "letsencrypt.org", '"a; b=c"', "a;b", ";", '";"', '""', '"a', '"\\065"', "a b", '"ü"']  # fmt: skip  # noqa: E501
KEY_OCTETS = {"13": 64, "14": 96, "15": 32, "16": 57, "ed25519": 32, "ECDSAP256SHA256": 64}


def change_case(rng: random.Random, text: str) -> str:
    """Return a text with letters in another case, or as it is."""
    return rng.choice([text, text, text.upper(), text.title(), text.swapcase()])


def to_full_width(rng: random.Random, text: str) -> str:
    """Return a text with some of its ASCII characters in full width."""
    return "".join(
        chr(ord(each) + 0xFEE0) if "!" <= each <= "~" and each != "." and rng.random() < 0.3 else each
        for each in text
    )


def _damaged(rng: random.Random, text: str, share: float = 0.3) -> str:
    """Return a text with a character more, less or repeated, in this share of all cases."""
    if rng.random() >= share:
        return text
    place = rng.randrange(len(text) + 1)
    return rng.choice(
        [
            text[:place] + rng.choice(ODD) + text[place:],
            text[:place] + text[place + 1 :],
            text[:place] + text[place : place + 1] * 2 + text[place + 1 :],
            rng.choice(ODD) + text,
            text + rng.choice(ODD),
        ]
    )


def _name(rng: random.Random) -> str:
    count = rng.choice([1, 2, 2, 3, 3, 4, 5, 8])
    plain = rng.random() < 0.5
    labels = [rng.choice(LABELS[:7] if plain else LABELS) for _ in range(count)]
    text = labels[0] + "".join(rng.choice(DOTS) + each for each in labels[1:]) + rng.choice(["", "", "."])
    text = change_case(rng, text)
    return _damaged(rng, to_full_width(rng, text) if rng.random() < 0.1 else text)


def _host(rng: random.Random) -> str:
    return rng.choice([_name, _name, _name, _address])(rng)


def _pattern(rng: random.Random) -> str:
    return (
        rng.choice(["*.", "*.", "", " *.", "**.", "*", "*.*."]) + _name(rng) + rng.choice(["", "", " ", "\n"])
    )


def _address(rng: random.Random) -> str:
    v4 = IPv4Address(rng.getrandbits(32))
    if rng.random() < 0.4:
        return _damaged(rng, rng.choice([str(v4), str(v4), f"{v4}/32", f"[{v4}]", str(int(v4))]))
    bits = (
        rng.getrandbits(128) & rng.getrandbits(128)
        if rng.random() < 0.5
        else rng.getrandbits(32) << 96 | rng.getrandbits(8)
    )
    v6 = IPv6Address(bits)
    words = v6.exploded.split(":")
    texts = [
        *(v6.compressed, v6.exploded, ":".join(f"{int(each, 16):x}" for each in words)),
        *(":".join(words[:6]) + f":{v4}", f"::{v4}", f"::ffff:{v4}", f"[{v6}]", f"{v6}%eth0", f"{v6}/128"),
    ]
    return _damaged(rng, change_case(rng, rng.choice(texts)))


def _network(rng: random.Random) -> str:
    length = rng.randrange(33)
    v4 = IPv4Address(rng.getrandbits(32) >> (32 - length) << (32 - length) if length else 0)
    mask = IPv4Address((1 << 32) - (1 << (32 - length)))
    inverse = IPv4Address((1 << (32 - length)) - 1)
    length6 = rng.randrange(129)
    v6 = IPv6Address(rng.getrandbits(128) >> (128 - length6) << (128 - length6) if length6 else 0)
    texts = [
        *(
            f"{v4}/{length}",
            f"{v4}/{length:02}",
            f"{v4}/{mask}",
            f"{v4}/{inverse}",
            f"{v6}/{length6}",
            f"{v6.exploded}/{length6}",
        ),
        *(
            str(v4),
            str(v6),
            f" {v6}/{length6}\n",
            f"{v4}/33",
            f"{v4}/-1",
            f"{v4}/",
            f"{v6}/129",
            f"{v4}/{length}/1",
            _address(rng),
        ),
    ]
    return _damaged(rng, change_case(rng, rng.choice(texts)), 0.15)


def _ds(rng: random.Random) -> str:
    algorithm = rng.choice(MNEMONICS)
    if rng.random() < 0.5:
        octets = KEY_OCTETS.get(algorithm, rng.choice([64, 132, 260, 516, 520]))
        key = base64.b64encode(rng.randbytes(octets - (rng.random() < 0.05))).decode()
        if octets > 100:
            key = base64.b64encode(b"\x03\x01\x00\x01" + rng.randbytes(octets - 4)).decode()
        first = rng.choice(["257", "257", "256", "0257", "385", "1", "65535"])
        fields, kind = [first, rng.choice(["3", "3", "3", "03", "2"]), algorithm, key], "DNSKEY"
    else:
        digest_type = rng.choice(["2", "2", "4", "02", "1"])
        digest = rng.randbytes({"2": 32, "02": 32, "4": 48, "1": 20}[digest_type]).hex()
        tag = str(rng.choice([rng.randrange(65536), 0, 65535, 65536, 256, 257]))
        fields, kind = (
            [rng.choice(["", "0", "00"]) + tag, algorithm, digest_type, change_case(rng, digest)],
            "DS",
        )
    cut = rng.randrange(1, len(fields[3]))
    words = [*fields[:3], fields[3][:cut], fields[3][cut:]] if rng.random() < 0.4 else fields
    owner = rng.choice([f"{OWNER}.", OWNER.upper(), "@", "", "", "", "blog", "other.example.test."])
    ttl = rng.choice(["", "", "", "3600", "0", *UNIT_TTLS])
    front = rng.sample([ttl, rng.choice(["", "IN", "in", "CH"])], 2)
    text = (
        " ".join(each for each in [owner, *front, change_case(rng, kind)] if each) + " "
        if rng.random() < 0.6
        else ""
    )
    space = rng.choice([" ", " ", "\t", "  ", "\n", " ; comment\n"])
    body = space.join(words)
    return _damaged(
        rng, text + (f"( {body} )" if rng.random() < 0.2 else body) + rng.choice(["", "", " ; tag"]), 0.1
    )


def _mail_address(rng: random.Random) -> str:
    locals_ = [
        "bob",
        "Bob.Example",
        "bob+shop",
        "BOB",
        "bücher",
        "be\u0301",
        "B\u0301E\u0301",
        "\u212b",
        "A\u030a",
        "\u1100\u1161",
        "ΑΣ",
        "İ",
        "ß",
        "a" * 64,
        "a" * 65,
        "e\u0301" * 64,
        "e\u0301" * 127 + "a",
        "e\u0301" * 128,
        '"b c"',
        "b c",
        "",
        "a@b",
        "a,b",
    ]
    text = (
        rng.choice(locals_)
        + rng.choice(["@", "@", "@", "@", "@", "", "@@", "\uff20"])
        + rng.choice(
            [
                _name(rng),
                _name(rng),
                to_full_width(rng, "Example.Org"),
                "bücher.example.",
                "BU\u0308CHER\u3002example\uff61",
            ]
        )
        + rng.choice(["", "", "", ".", "\u3002"])
    )
    return rng.choice(["", "", " ", "\t", "\u3000"]) + _damaged(rng, text, 0.15) + rng.choice(["", "", " "])


def _instant(rng: random.Random) -> str:
    at = datetime(1, 1, 1) + timedelta(seconds=rng.randrange(315_537_897_600))  # noqa: DTZ001 - the offset is added as a text
    text = at.isoformat(sep=rng.choice(["T", "T", "T", "t", " "])) + rng.choice(
        ["", "", ".5", ".123456", ".1234567", ",5", "."]
    )
    offset = rng.choice(
        ["Z", "Z", "z", "+00:00", "-00:00", "+02:00", "-11:30", "+0200", "+23:59", "+24:00", "", " Z"]
    )
    return _damaged(rng, text + offset, 0.15)


def _scope(rng: random.Random) -> str:
    return _damaged(
        rng,
        rng.choice([rng.choice(SCOPES), rng.choice(SCOPES), change_case(rng, rng.choice(SCOPES)), "admin"]),
    )


def _price(rng: random.Random) -> str:
    number = rng.choice(
        [0, 1, 10, rng.randrange(10**6), rng.randrange(2 * 10**12), 10**12, 10**12 + 1, 10**30]
    )
    text = rng.choice(
        [
            str(number),
            str(number),
            str(number),
            f"-{number}",
            f"0{number}",
            f"+{number}",
            f"{number}.0",
            f"{number}e0",
        ]
    )
    return _damaged(rng, rng.choice(["", "", " ", "\n"]) + text, 0.15)


def _record_host(rng: random.Random) -> str:
    plain = [
        "mail.example.test.",
        "Web.Example.test",
        "_x.example.test",
        "bücher.example",
        "@",
        ".",
        "www",
        "org.",
        "a..b",
        "1.2.3.4",
    ]
    return _damaged(rng, rng.choice([*plain, OWNER, _name(rng)]), 0.1)


def _parameter(rng: random.Random) -> str:
    value = rng.choice(
        [
            *("alpn=h2", "alpn=h2,h3", 'alpn="h3,h2"', "no-default-alpn", "port=443", "port=0443", "port=70000", "alpn=", "alpn"),  # noqa: E501
            *("ipv4hint=8.8.4.4", "ipv4hint=8.8.4.4,8.8.8.8", "ipv4hint=8.8.4", "ipv6hint=2001:4860:0::8844", 'ipv6hint="2001:DB8::1"'),  # noqa: E501
            *("mandatory=alpn", "key7=x", "key65=x", "ech=AEX+", "ALPN=h2", "dohpath=/q{?dns}", "port=443x", 'port="443', "ohttp"),  # noqa: E501
        ]
    )  # fmt: skip
    return _damaged(rng, value, 0.05)


def _hex(rng: random.Random) -> str:
    digits = rng.randbytes(rng.choice([20, 32, 32, 64, 100, 1])).hex()
    place = rng.randrange(len(digits))
    return rng.choice([digits, digits, digits.upper(), f"{digits[:place]} {digits[place:]}", digits[1:]])


def _number_of_records(rng: random.Random) -> str:
    usual = ["0", "1", "1", "1", "2", "3"]
    return rng.choice([*usual, *usual, "10", "010", "128", "65535", "65536", "-1", "x", "1.0", "²"])


def _txt(rng: random.Random) -> str:
    pieces = [
        "v=spf1 -all",
        '"',
        '" "',
        '\\"',
        "\\",
        "\\065",
        "\\300",
        "ü",
        ";",
        "a" * 200,
        " ",
        "\t",
        "(",
        "\x01",
        "\\é",
    ]
    text = "".join(rng.choice(pieces) for _ in range(rng.randrange(6)))
    return rng.choice([text, text, f'"{text}"', f'"{text}" "more"', f'"{text}"x'])


def _record(rng: random.Random) -> str:
    """Return a type and a value, separated by a line break."""
    kind = rng.choice(RECORD_TYPES)
    host, first, second, third = _record_host(rng), *(_number_of_records(rng) for _ in range(3))
    parameters = " ".join(_parameter(rng) for _ in range(rng.randrange(4)))
    tag = rng.choice(["issue", "iodef", "ISSUE", "is-sue", "x1"])
    values = {
        "A": _address(rng),
        "AAAA": _address(rng),
        "CAA": f"{first} {tag} {rng.choice(CAA_VALUES)}",
        "CNAME": host,
        "HTTPS": f"{first} {host} {parameters}",
        "MX": f"{first} {host}",
        "SRV": f"{first} {second} {third} {host}",
        "SSHFP": f"{first} {second} {_hex(rng)}",
        "SVCB": f"{first} {host} {parameters}",
        "TLSA": f"{first} {second} {third} {_hex(rng)}",
        "TXT": _txt(rng),
    }
    value = values[kind]
    value = (
        rng.choice(["", "", "", " ", "\t", "\u00a0", "\\# 4 08080404 "]) + _damaged(rng, value, 0.1)
        if rng.random() < 0.2
        else value
    )
    spelled = rng.choice(
        [kind, kind, kind, kind.lower(), kind.title(), f"TYPE{int(RdataType.make(kind))}", "NS"]
    )
    return f"{spelled}\n{value}{rng.choice(['', '', '', '', '', '', ' ', ' ; comment', ' x'])}"


def _rule_of_records(text: str) -> tuple[str, str]:
    kind, _, value = text.partition("\n")
    type_name = parse_type(kind)
    return type_name, parse_value(OWNER, type_name, value, accepts_private=True)[0]


def _parse_record(text: str) -> tuple[str, str]:
    """Return the form of a record; that of the service where the clients leave it to the service."""
    kind, _, value = text.partition("\n")
    found = spelling.parse_record_value(value, kind, OWNER)
    return _rule_of_records(text) if found is None else (spelling.parse_record_type(kind), found)


def _owner(rng: random.Random) -> str:
    owners = [
        "@",
        "*",
        "www",
        "WWW",
        "_acme-challenge",
        "*.dev",
        "a.b",
        "*.*",
        "a.*",
        "",
        ".",
        "-",
        "a..b",
        "bücher",
        "xn--zzzzzzzz",
    ]
    names = [
        "",
        f".{OWNER}",
        f".{OWNER}.",
        f".{OWNER.upper()}",
        ".example.test",
        ".example.test.",
        ".other.test.",
        ".",
        "\u3002a",
    ]
    return _damaged(rng, rng.choice([*owners, _name(rng), OWNER]) + rng.choice(names), 0.1)


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
    """A kind of value: random texts, the service's rule and the clients' parser.

    Both return the canonical form or raise ValueError.
    """

    draw: Callable[[random.Random], str]
    rule: Callable[[str], object]
    parse: Callable[[str], object]


KINDS = {
    "name": Kind(_name, parse_domain_name, spelling.parse_name),
    "host": Kind(_host, parse_host_name, spelling.parse_host),
    "pattern": Kind(_pattern, _rule_of_patterns, spelling.parse_pattern),
    "address": Kind(_address, _rule_of_addresses, spelling.parse_address),
    "network": Kind(_network, _rule_of_networks, spelling.parse_network),
    "record": Kind(_record, _rule_of_records, _parse_record),
    "owner of records": Kind(
        _owner,
        lambda text: parse_owner(OWNER, text, "example.test"),
        lambda text: spelling.parse_record_owner(text, OWNER, "example.test"),
    ),
    "pattern of owners": Kind(
        lambda rng: _owner(rng) + rng.choice(["", "", ".*", " "]),
        _rule_of_record_patterns,
        spelling.parse_record_pattern,
    ),
    "ds": Kind(_ds, _rule_of_ds, lambda text: spelling.parse_ds(text, OWNER)),
    "mail address": Kind(_mail_address, _rule_of_mail_addresses, spelling.parse_mail_address),
    "instant": Kind(_instant, _rule_of_instants, spelling.parse_instant),
    "scope": Kind(_scope, _rule_of_scopes, spelling.parse_scope),
    "price": Kind(_price, _rule_of_prices, spelling.parse_price),
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
        text = kind.draw(rng)
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
