"""Random RRsets in the syntax of zone files, valid and invalid, for the rule of records and for zone
checkers.
"""

from random import Random

from sublet.dns.types import RecordSetInput

NAME = "blog.example.test"
_HEX = "ab" * 32
OWNERS = (
    "@",
    "www",
    "WWW",
    "*",
    "*.dev",
    "_acme-challenge",
    "_sip._tcp",
    "a.b.c",
    "x1",
    "xn--bcher-kva",
    f"ftp.{NAME}.",
    f"{NAME}.",
    "-a",
    "a" * 63,
)
STRANGE_OWNERS = (
    "a*",
    "a.*.b",
    "*.*",
    "a" * 64,
    "a..b",
    ".a",
    "a_b",
    "_a",
    r"a\.b",
    "a/b",
    "other.example.test.",
    "example.",
    ".".join(["a" * 60] * 4),
    "",
)
VALUES: dict[str, tuple[str, ...]] = {
    "A": ("8.8.8.8", "8.8.4.5", "10.0.0.1", "255.255.255.255", r"\# 4 01010101", r"\# 4 0808 0404"),
    "AAAA": ("2a00::1", "2A00:0:0::1", "::", "::1", "::ffff:8.8.8.8", "1:2:3:4:5:6:7:8", r"\# 16 2a00000000000000000000000000000a"),  # noqa: E501
    "CAA": ('0 issue "letsencrypt.org"', "0 issue sectigo.com", '128 issuewild ";"', '0 iodef "mailto:a@b.example"', '0 ISSUE "a; b=c"'),  # noqa: E501
    "CNAME": ("example.github.io.", "Example.Github.io.", "_a._b.example.", "localhost.", "a.example.", r"\# 11 0161076578616d706c6500", "-a.example."),  # noqa: E501
    "HTTPS": ("1 . alpn=h2,h3", '1 . alpn="h2"', "0 a.example.", "0 .", "1 a.example. port=8443", "1 . ipv4hint=8.8.8.8,8.8.4.4 ipv6hint=2a00::1", "1 . mandatory=alpn alpn=h2", "1 . alpn=h2 no-default-alpn", "1 . key700=abc", '1 . ech="AATAAAAA"', "1 ."),  # noqa: E501
    "MX": ("10 mail.example.", "0 .", "65535 a.example.", "010 A.EXAMPLE."),
    "SRV": ("1 2 3 a.example.", "0 0 0 .", "65535 65535 65535 a.b.example."),
    "SSHFP": (f"4 2 {_HEX}", f"1 1 {_HEX[:40]}", f"6 2 {_HEX[:30]} {_HEX[30:]}", f"4 2 {_HEX.upper()}"),
    "SVCB": ("1 . alpn=dot", "1 a.example. port=853 alpn=dot", "0 a.example.", '1 . key700="/q{?dns}"', "16 a.example. ipv6hint=::1"),  # noqa: E501
    "TLSA": (f"3 1 1 {_HEX}", f"2 0 2 {_HEX}{_HEX}", "3 0 0 abcd", f"3 1 1 {_HEX[:20]} {_HEX[20:]}"),
    "TXT": ('"a"', '"a" "b"', '""', "a", r'"\000\255\"\\"', '"v=DMARC1; p=none"', f'"{"a" * 255}"', r"\# 2 0161", r'"a\;b"', '"(a)"', "a=b"),  # noqa: E501
}  # fmt: skip
STRANGE_VALUES: dict[str, tuple[str, ...]] = {
    "A": ("8.8.8", "8.8.8.256", "8.8.8.08", "::1", "a.example.", "8.8.8.8 8.8.4.4", r"\# 3 080808", r"\# 5 0808080808", "0x8.8.8.8", "8.8.8.8.", '"8.8.8.8"'),  # noqa: E501
    "AAAA": ("8.8.8.8", "2a00:::1", "2a00::1::2", "1:2:3:4:5:6:7", "fe80::1%eth0", "g::1", "1:2:3:4:5:6:7:8:9", r"\# 4 01020304", "12345::1"),  # noqa: E501
    "CAA": ("0 issue", "256 issue a", "1 issue a", '0 is-sue "a"', '0 "" "a"', "issue a", '0 issue "a" "b"', "-1 issue a", f"0 {'a' * 256} b"),  # noqa: E501
    "CNAME": ("www", "@", ".", "a..b.", "a.example. b.example.", "8.8.8.8", "8.8.8.8.", "*.a.example.", r"a\.b.example.", "a" * 64 + ".example.", "a b.", "a/b.example.", r"\# 2 c000", '"a.example."', ".".join(["a" * 60] * 5) + "."),  # noqa: E501
    "HTTPS": ("1", "1 .. alpn=h2", "1 . alpn", "1 . alpn=", "1 . port=70000", "0 . alpn=h2", "1 . mandatory=alpn", "1 . alpn=h2 alpn=h3", "1 . ipv4hint=::1", '1 . ech="AAA="', "1 www", "1 . no-default-alpn", "70000 .", "1 . key0=a", "1 . nope=a", "1 . mandatory=mandatory", "1 . ipv4hint=", "1 . port=08443", "1 . key700"),  # noqa: E501
    "MX": ("mail.example.", "10", "10 mail", "10 @", "70000 a.example.", "-1 a.example.", "10 8.8.8.8.", "10 a_b.example.", "1.5 a.example.", "10 a.example. b", "10 a.b.c"),  # noqa: E501
    "SRV": ("1 2 a.example.", "1 2 3", "1 2 70000 a.example.", "1 2 3 a.example. b", "1 2 3 _a.example.", "1 2 3 a", "a b c d.example.", "-1 2 3 a.example."),  # noqa: E501
    "SSHFP": ("4 2", "4 2 ab", f"5 2 {_HEX}", f"4 3 {_HEX}", f"4 2 {_HEX[1:]}z", f"4 2 {_HEX[1:]}", "256 2 ab", f"a 2 {_HEX}"),  # noqa: E501
    "SVCB": ("1", "1 . alpn", "a .", "1 . port=x", "1 . ipv6hint=8.8.8.8", "1 . key65535=a", "1 . key99999=a", "1 . key007=a", "1 . =a"),  # noqa: E501
    "TLSA": ("3 1 1", "3 1 1 ab", f"4 1 1 {_HEX}", f"3 2 1 {_HEX}", f"3 1 3 {_HEX}", r"\# 3 030100", f"256 1 1 {_HEX}", "3 0 0 abc", "3 0 0 xy", f"3 1 1 {_HEX}00"),  # noqa: E501
    "TXT": ('"a', '"a" b', 'a"b', "a\\", r'"a\256"', r'"a\1"', f'"{"a" * 256}"', "a" * 256, r"\# 0", r"\# 2 0261", r"\# 3 0161", '"a""b"', "a b", "(a", "a ; b"),  # noqa: E501
}  # fmt: skip
TYPES = tuple(VALUES)
_SIGNS = '019afz.-_*@"\\ ;(/=,'


def random_records(random: Random) -> list[RecordSetInput]:
    """Return a few RRsets.

    About half of the lists are valid; the others have a value that is wrong in a known way, or one changed
    character.
    """
    count = random.choice((1, 1, 1, 2, 3))
    keys = [[_owner(random), random.choice(TYPES)] for _ in range(count)]
    if count > 1 and random.random() < 0.3:
        keys[1][0] = keys[0][0]  # so that a CNAME has company
    return [
        RecordSetInput(owner, type_name, _values(random, owner, type_name), 300) for owner, type_name in keys
    ]


def _owner(random: Random) -> str:
    return random.choice(STRANGE_OWNERS) if random.random() < 0.05 else random.choice(OWNERS)


def _values(random: Random, owner: str, type_name: str) -> tuple[str, ...]:
    most = 1 if type_name == "CNAME" and random.random() < 0.9 else 3
    values = random.sample(VALUES[type_name], random.randint(1, most))
    how = random.random()
    if how < 0.15:
        values[0] = random.choice(STRANGE_VALUES[type_name])
    elif how < 0.3:
        values[0] = _changed(random, values[0])
    return tuple(values)


def _changed(random: Random, text: str) -> str:
    """Return a text with one character removed, replaced or inserted."""
    at = random.randrange(len(text))
    sign = random.choice(_SIGNS)
    return random.choice(
        (text[:at] + text[at + 1 :], text[:at] + sign + text[at + 1 :], text[:at] + sign + text[at:])
    )
