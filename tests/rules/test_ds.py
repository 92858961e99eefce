import base64
from collections.abc import Callable
from functools import cache

import dns.dnssec
import dns.name
import dns.rdata
import dns.wire
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from dns.rdtypes.ANY.DNSKEY import DNSKEY
from hypothesis import given
from hypothesis import strategies as st

from sublet.dns.ds import InvalidDs, dnskey_warnings, ds_warnings, key_tag, parse_ds
from sublet.dns.types import Dnskey, DsLike, DsRecord

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | ed448.Ed448PublicKey

OWNER = "foo.example.test"
SHA256 = "684a" + "0F" * 30
SHA384 = "ab" * 48
DS = DsRecord(2371, 13, 2, SHA256.lower())
ECDSA_KEY = base64.b64encode(bytes(range(64))).decode()
ED25519_KEY = base64.b64encode(bytes(range(32))).decode()

RFC_4034_KEY = """AQOeiiR0GOMYkDshWoSKz9XzfwJr1AYtsmx3TGkJaNXVbfi/2pHm822aJ5iI9BMzNXxeYCmZDRD99WYwYqUSdjMmmAphXdvx
    egXd/M5+X7OrzKBaMbCVdFLUUh6DhweJBjEVv5f2wwjM9XzcnOf+EPbtG9DMBmADjFDc2w/rljwvFw=="""  # noqa: E501
"""The key of RFC 4034, section 5.4 (there with algorithm 5), which has tag 60485 there."""


FRONTS = [
    "foo.example.test. 1h30m IN DS",
    "FOO.EXAMPLE.TEST. 1w2d3h4m5s DS",
    "foo.example.test. in 1D ds",
    "foo.example.test 0 DS",
    "@ 90m DS",
    "IN 2d DS",
    "30S DS",
]
"""The words before the rdata of a DS record in zone files."""


KEYS: dict[int, Callable[[], PublicKey]] = {
    8: lambda: rsa.generate_private_key(65537, 2048).public_key(),
    10: lambda: rsa.generate_private_key(3, 2048).public_key(),
    13: lambda: ec.generate_private_key(ec.SECP256R1()).public_key(),
    14: lambda: ec.generate_private_key(ec.SECP384R1()).public_key(),
    15: lambda: ed25519.Ed25519PrivateKey.generate().public_key(),
    16: lambda: ed448.Ed448PrivateKey.generate().public_key(),
}


@cache
def dnskey_of(algorithm: int) -> DNSKEY:
    return dns.dnssec.make_dnskey(KEYS[algorithm](), algorithm, flags=257)


@pytest.mark.parametrize("algorithm", KEYS)
@pytest.mark.parametrize("owner", [OWNER, "a.b"])
def test_a_dnskey_becomes_the_ds_that_dnspython_makes(owner: str, algorithm: int) -> None:
    dnskey = dnskey_of(algorithm)
    expected = dns.dnssec.make_ds(dns.name.from_text(owner), dnskey, "SHA256")
    as_object = Dnskey(dnskey.flags, dnskey.protocol, algorithm, base64.b64encode(dnskey.key).decode())
    forms: list[DsLike] = [
        as_object,
        dnskey.to_text(),
        dnskey.to_text(chunksize=20),
        f"{owner}. 3600 IN DNSKEY {dnskey.to_text()}",
        f"{owner.upper()}. DNSKEY {dnskey.to_text()} ; KSK; tag = 1\n",
        f"{owner}. IN 1h30m DNSKEY {dnskey.to_text()}",
        "@ IN DNSKEY ( " + dnskey.to_text(chunksize=16).replace(" ", "\n  ") + " )",
    ]
    for form in forms:
        record = parse_ds(owner, form)
        assert (
            f"{record.key_tag} {record.algorithm} {record.digest_type} {record.digest}" == expected.to_text()
        )
        assert record.key_tag == dns.dnssec.key_id(dnskey)
        assert record.algorithm == algorithm


def test_the_key_tag_of_rfc_4034() -> None:
    rdata = bytes([1, 0, 3, 5]) + base64.b64decode(RFC_4034_KEY)
    assert key_tag(rdata) == 60485


@given(st.binary(min_size=5, max_size=300))
def test_key_tags_equal_those_of_dnspython(rdata: bytes) -> None:
    rdata = rdata[:3] + bytes([13]) + rdata[4:]
    assert key_tag(rdata) == dns.dnssec.key_id(DNSKEY.from_wire_parser(1, 48, dns.wire.Parser(rdata)))


@pytest.mark.parametrize(
    ("form", "record"),
    [
        (DsRecord(2371, 13, 2, SHA256), DS),
        (DsRecord(2371, 13, 2, SHA256.upper()), DS),
        (DsRecord(0, 8, 4, SHA384), DsRecord(0, 8, 4, SHA384)),
        (DsRecord(65535, 16, 2, SHA256), DsRecord(65535, 16, 2, SHA256.lower())),
        (f"2371 13 2 {SHA256}", DS),
        (f"  2371\t13  2 {SHA256[:40]} {SHA256[40:]}\n", DS),
        (f"2371 13 2 ( {SHA256[:40]}\n {SHA256[40:]} ) ; comment", DS),
        (f"2371 ECDSAP256SHA256 2 {SHA256}", DS),
        (f"DS 2371 13 2 {SHA256}", DS),
        (f"IN DS 2371 13 2 {SHA256}", DS),
        (f"foo.example.test. IN DS 2371 13 2 {SHA256}", DS),
        (f"FOO.example.test 3600 in ds 2371 13 2 {SHA256}", DS),
        (f"@ 3600 IN DS 2371 13 2 {SHA256}", DS),
        *((f"{front} 2371 13 2 {SHA256}", DS) for front in FRONTS),
        (f"257 13 2 {SHA256}", DsRecord(257, 13, 2, SHA256.lower())),
        (f"256 8 2 {SHA256}", DsRecord(256, 8, 2, SHA256.lower())),
    ],
)
def test_a_ds_record_in_each_form_is_accepted(form: DsLike, record: DsRecord) -> None:
    assert parse_ds(OWNER, form) == record


def rsa_key(exponent: bytes, modulus: bytes) -> str:
    return base64.b64encode(bytes([len(exponent)]) + exponent + modulus).decode()


BAD = [
    (DsRecord(-1, 13, 2, SHA256), "key_tag"),
    (DsRecord(65536, 13, 2, SHA256), "key_tag"),
    *((DsRecord(1, algorithm, 2, SHA256), "algorithm") for algorithm in (-1, 0, 5, 7, 9, 12, 17, 253, 10**9)),
    (DsRecord(1, 13, 1, "ab" * 20), "digest_type"),
    (DsRecord(1, 13, 2, ""), "digest"),
    (DsRecord(1, 13, 2, SHA256[:-2]), "digest"),
    (DsRecord(1, 13, 2, SHA384), "digest"),
    (DsRecord(1, 13, 2, SHA256[:-1] + "g"), "digest"),
    (DsRecord(1, 13, 2, SHA256[:-1] + "\uff11"), "digest"),
    (DsRecord(1, 13, 2, "\ud800" * 64), "digest"),
    (Dnskey(257, 2, 13, ECDSA_KEY), "protocol"),
    (Dnskey(0, 3, 13, ECDSA_KEY), "flags"),
    (Dnskey(385, 3, 13, ECDSA_KEY), "flags"),
    (Dnskey(65536 + 257, 3, 13, ECDSA_KEY), "flags"),
    (Dnskey(257, 3, 5, ECDSA_KEY), "algorithm"),
    (Dnskey(257, 3, 13, ""), "public_key"),
    (Dnskey(257, 3, 13, ECDSA_KEY[:-1]), "public_key"),
    (Dnskey(257, 3, 13, "\ud800"), "public_key"),
    (Dnskey(257, 3, 13, "A" * 100_000), "public_key"),
    (Dnskey(257, 3, 13, ED25519_KEY), "public_key"),
    (Dnskey(257, 3, 15, ECDSA_KEY), "public_key"),
    (Dnskey(257, 3, 8, ""), "public_key"),
    (Dnskey(257, 3, 8, rsa_key(b"\3", b"\xff" * 127)), "public_key"),
    (Dnskey(257, 3, 8, rsa_key(b"\3", b"\xff" * 513)), "public_key"),
    (Dnskey(257, 3, 8, rsa_key(b"\0", b"\xff" * 256)), "public_key"),
    (Dnskey(257, 3, 8, rsa_key(b"\3", b"\0" + b"\xff" * 255)), "public_key"),
]


@pytest.mark.parametrize(("form", "member"), BAD, ids=lambda value: ascii(value)[:60])
def test_an_invalid_ds_object_is_refused_by_member(form: DsLike, member: str) -> None:
    with pytest.raises(InvalidDs) as refused:
        parse_ds(OWNER, form)
    assert refused.value.member == member
    assert str(refused.value).endswith(".")
    str(refused.value).encode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "DS",
        "2371 13 2",
        f"13 2 {SHA256}",
        f"65536 13 2 {SHA256}",
        f"2371 5 2 {SHA256}",
        f"2371 NONE 2 {SHA256}",
        f"2371 13 1 {'ab' * 20}",
        f"2371 13 2 {SHA256}00",
        f"2371 13 2 {SHA256}\nfoo.example.test. IN NS evil.example.",
        f"bar.example.test. IN DS 2371 13 2 {SHA256}",
        f"foo.example.test. CH DS 2371 13 2 {SHA256}",
        *(
            f"foo.example.test. {ttl} IN DS 2371 13 2 {SHA256}"
            for ttl in ("h", "1y", "1h30", "h1", "1.5h", "-1h", "1h-", "1hh", "\uff11h", "1\u017f")
        ),
        f"$INCLUDE DS 2371 13 2 {SHA256}",
        f"257 3 5 {RFC_4034_KEY}",
        f"385 3 13 {ECDSA_KEY}",
        f"DNSKEY 1 3 13 {ECDSA_KEY}",
        "0 0 0 00",  # the "delete" of RFC 8078
        "9" * 5000,
        "٢٣٧١ 13 2 " + SHA256,
        "2371 13 2 \ud800",
    ],
    ids=lambda text: ascii(text)[:40],
)
def test_invalid_ds_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidDs) as refused:
        parse_ds(OWNER, text)
    assert refused.value.member is None
    assert str(refused.value).endswith(".")
    str(refused.value).encode()


def test_the_sizes_of_rsa_keys() -> None:
    for exponent, modulus_octets in ((b"\3", 128), (b"\1\0\1", 256), (b"\1\0\1", 512)):
        assert parse_ds(OWNER, Dnskey(257, 3, 8, rsa_key(exponent, b"\xff" * modulus_octets))).algorithm == 8
    long_exponent = base64.b64encode(
        b"\0\1\0" + b"\1" * 256 + b"\xff" * 256
    ).decode()  # RFC 3110: its length in two octets
    assert parse_ds(OWNER, Dnskey(257, 3, 8, long_exponent)).algorithm == 8


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ((), []),
        (((13, 2),), []),
        (((15, 2),), []),
        (((13, 2), (13, 4)), []),
        (((13, 4),), ["SHA-384"]),
        (((16, 4),), ["ED448", "SHA-384"]),
        (((10, 2),), ["RSASHA512"]),
        (((13, 2), (16, 2)), ["several algorithms, 13 (ECDSAP256SHA256) and 16 (ED448)"]),
        (((10, 2), (8, 2)), ["advises against", "several algorithms, 8 (RSASHA256) and 10 (RSASHA512)"]),
    ],
)
def test_unusual_records_are_accepted_with_a_warning(
    records: tuple[tuple[int, int], ...], words: list[str]
) -> None:
    made = [
        DsRecord(tag, algorithm, digest_type, "ab" * 32)
        for tag, (algorithm, digest_type) in enumerate(records)
    ]
    warnings = ds_warnings(made)
    assert len(warnings) == len(words)
    assert all(word in warning for word, warning in zip(words, warnings, strict=True)), warnings


def test_a_dnskey_without_the_sep_flag_is_accepted_with_a_warning() -> None:
    signing = Dnskey(256, 3, 13, ECDSA_KEY)
    tag = parse_ds(OWNER, signing).key_tag
    without: list[DsLike] = [
        signing,
        f"256 3 13 {ECDSA_KEY}",
        f"{OWNER}. 3600 IN DNSKEY 256 3 13 {ECDSA_KEY}",
    ]
    (warning,) = dnskey_warnings(OWNER, without)
    assert f"key tag {tag} has the flags 256, without the SEP flag" in warning
    assert all(dnskey_warnings(OWNER, [each]) == (warning,) for each in without)
    good: list[DsLike] = [
        Dnskey(257, 3, 13, ECDSA_KEY),
        f"257 3 13 {ECDSA_KEY}",
        f"2371 13 2 {SHA256}",
        DsRecord(2371, 13, 2, SHA256),
        "no record",
    ]
    assert dnskey_warnings(OWNER, good) == ()
