"""Names, addresses and DS records that no user may bring into the DNS are refused by field, and nothing
is stored.
"""

import unicodedata
from ipaddress import IPv4Network, IPv6Network
from typing import Any

import pytest

from sublet.dns.addresses import SPECIAL_BLOCKS, not_public_reason
from support.hostile_input import Target, codes, nothing_stored, refusal
from support.running_service import DS

pytestmark = pytest.mark.slow

HOSTS = {
    "newline": "ns1.provider.example\n",
    "newline inside": "ns1.provider\n.example",
    "carriage return": "ns1.provider.example\r",
    "a record of its own": "ns1.provider.example.\nevil.example.test. IN A 192.0.2.1",
    "escaped dot": "ns1\\.provider.example",
    "escaped digits": "ns1\\046provider.example",
    "backslash at the end": "ns1.provider.example\\",
    "at sign": "@",
    "at sign inside": "hostmaster@provider.example",
    "full-width at sign": "hostmaster\uff20provider.example",
    "$INCLUDE": "$INCLUDE",
    "$INCLUDE a file": "$INCLUDE /etc/passwd",
    "$ORIGIN": "$ORIGIN.provider.example",
    "star": "*",
    "wildcard": "*.provider.example",
    "underscore": "ns_1.provider.example",
    "service label": "_dns.provider.example",
    "64-octet label": "a" * 64 + ".provider.example",
    "256 octets": ".".join(["a" * 50] * 5) + ".x",
    "254 octets": ".".join(["a" * 61] * 4) + ".abcdef",
    "64 octets as an A-label": "ü" * 60 + ".provider.example",
    "10,000 characters": "a." * 5_000 + "example",
    "10,000 characters of Unicode": "ü" * 10_000,
    "IPv4": "8.8.8.8",
    "IPv4 with a dot": "8.8.8.8.",
    "IPv4 of full-width digits": "\uff18.\uff18.\uff18.\uff18",
    "IPv6": "2606:4700::1",
    "IPv6 in brackets": "[2606:4700::1]",
    "single label": "localhost",
    "single label with a dot": "com.",
    "root": ".",
    "empty": "",
    "space": "ns1 .provider.example",
    "leading space": " ns1.provider.example",
    "tab": "ns1.provider.example\t",
    "all-digits TLD": "ns1.provider.123",
    "empty label": "ns1..provider.example",
    "leading dot": ".provider.example",
    "leading hyphen": "-ns1.provider.example",
    "trailing hyphen": "ns1-.provider.example",
    "hyphen by mapping": "ns1\uff0d.provider.example",
    "semicolon": "ns1.provider.example;comment",
    "quotes": '"ns1.provider.example"',
    "parenthesis": "ns1.provider.example (",
    "slash": "ns1/provider.example",
    "division slash": "ns1\u2215provider.example",
    "port": "ns1.provider.example:53",
    "URL": "https://ns1.provider.example/",
    "right-to-left override": "ns1.\u202eprovider.example",
    "only zero-width": "\u200b.\u200b",
    "DEL": "ns1\x7f.provider.example",
    "C1 control": "ns1\x85.provider.example",
    "line separator": "ns1\u2028.provider.example",
    "no character": "ns1\ufdd0.provider.example",
    "private use": "ns1\ue000.provider.example",
    "dotted circle": "\u0301ns1.provider.example",
    "mixed directions": "ns1\u05d0a.provider.example",
    "dollar": "ns$1.provider.example",
    "percent": "ns%31.provider.example",
}


@pytest.mark.parametrize("name", HOSTS)
def test_an_invalid_host_name_is_refused(target: Target, name: str) -> None:
    host = HOSTS[name]
    hosts = {"nameservers": ["ns1.provider.example", host]}
    glue = {"nameservers": ["ns1.new.example.test"], "glue": [{"host": host, "ipv4": "8.8.8.8"}]}
    with nothing_stored(target):
        registered = target.call("POST", "/subdomains", {"fqdn": "new.example.test", **hosts})
        numbered = target.call("POST", "/subdomains", {"fqdn": "new.example.test", "ns1": host})
        glued = target.call("POST", "/subdomains", {"fqdn": "new.example.test", **glue})
        changed = target.call("PUT", "/subdomains/blog.example.test/nameservers", hosts)
    for answer in (registered, numbered, changed):
        found = codes(refusal(answer, 422))
        assert {code for _, code in found} == {"nameserver_invalid"}, found
    assert any(field.startswith("glue[0]") for field, _ in codes(refusal(glued, 422)))


CONFUSABLES = {
    "Cyrillic": "\u0440\u0430ypal.provider.example",
    "Kelvin sign": "\u212aelvin.provider.example",
    "full-width": "\uff4e\uff53\uff11.provider.example",
    "ideographic full stop": "ns1\u3002provider\u3002example",
    "ligature": "o\ufb03ce.provider.example",
    "circled": "\u24dds1.provider.example",
    "superscript": "ns\u00b9.provider.example",
    "sharp s": "straße.provider.example",
}


@pytest.mark.parametrize("name", CONFUSABLES)
def test_a_confusable_host_name_is_one_wire_name_or_refused(target: Target, name: str) -> None:
    """It is never stored as typed: what is published is ASCII, and the answer shows exactly that."""
    body = {"nameservers": [CONFUSABLES[name]]}
    answer = target.call("PUT", "/subdomains/blog.example.test/nameservers", body)
    if answer.status_code == 422:
        assert refusal(answer, 422)
        return
    assert answer.status_code == 200, answer.text
    (host,) = answer.json()["subdomain"]["nameservers"]
    assert host.isascii()
    assert host == host.lower()
    assert host == CONFUSABLES[name] or "xn--" in host or host.endswith(".provider.example")
    assert target.service.delegation("blog.example.test") == {host}


REFUSED_LABELS = {
    "_acme-challenge": "_acme-challenge",
    "_dmarc": "_dmarc",
    "star": "*",
    "64 octets": "a" * 64,
    "64 octets as an A-label": "ü" * 60,
    "dot": "a.b",
    "ideographic dot": "a\u3002b",
    "at sign": "@",
    "dollar": "$INCLUDE",
    "escape": "\\046",
    "newline": "new\n",
    "space": "new name",
    "empty": "",
    "only zero-width": "\u200b",
    "hyphen first": "-new",
    "hyphen last": "new-",
    "quote": 'new"',
    "slash": "new/name",
    "fake A-label": "xn--test",
    "A-label of ASCII": "xn--new-",
    "A-label in upper case Unicode": "xn--Ü",
    "emoji": "\U0001f600",
    "combining mark first": "\u0301new",
    "zero-width joiner": "n\u200dew",
    "right-to-left override": "new\u202e",
    "mixed directions": "new\u05d0a",
    "no character": "new\uffff",
    "100,000 of Unicode": "ü" * 10_000,
}


@pytest.mark.parametrize("name", REFUSED_LABELS)
def test_an_invalid_label_is_refused(target: Target, name: str) -> None:
    label = REFUSED_LABELS[name]
    with nothing_stored(target):
        by_label = target.call("POST", "/subdomains", {"label": label, "domain": "example.test"})
        by_fqdn = target.call("POST", "/subdomains", {"fqdn": f"{label}.example.test"})
        found = target.call("GET", "/subdomains?q=" + "x")
    assert codes(refusal(by_label, 422)) == {("label", "label_invalid")}
    assert refusal(by_fqdn, 404, 422)
    assert found.status_code == 200


@pytest.mark.parametrize(
    "label",
    [
        "ns1",
        "NS1",
        "ns",
        "ns42",
        "www",
        "WWW",
        "\uff57ww",
        "wpad",
        "mail",
        "ab--cd",
        "Admin",
        "login",
        "payment",
        "g\u043e\u043egle",
    ],
)
def test_a_reserved_label_is_refused_as_such(target: Target, label: str) -> None:
    with nothing_stored(target):
        answer = target.call("POST", "/subdomains", {"label": label, "domain": "example.test"})
    assert refusal(answer, 409)["details"] == {"reason": "reserved", "owned": False}


FORMS = {
    "foo": ["Foo", "FOO", "foo.", "\uff46\uff4f\uff4f", "fo\u200bo", "fo\u00ado", "\u24d5oo"],
    "kite": ["\u212aite", "KITE"],
    "xn--strae-oqa": ["straße", "STRAẞE", "Straße", "xn--strae-oqa", "XN--STRAE-OQA"],
    "xn--caf-dma": [
        unicodedata.normalize("NFC", "café"),
        unicodedata.normalize("NFD", "café"),
        "CAFÉ",
        "xn--caf-dma",
    ],
}


@pytest.mark.parametrize("wire", FORMS)
def test_every_form_of_a_label_is_one_wire_name(target: Target, wire: str) -> None:
    """The holder of a name holds it in all its forms: once one is registered, each is taken, or is no
    label at all.
    """
    held = target.service.register(
        target.user, f"{wire}.example.test", registration_mode="plus", confirm=True
    )
    assert held["subdomain"]["label"] == wire
    with nothing_stored(target):
        for form in FORMS[wire]:
            paid: dict[str, Any] = {"registration_mode": "plus", "confirm": True}
            by_label = target.call(
                "POST", "/subdomains", {"label": form.removesuffix("."), "domain": "example.test", **paid}
            )
            by_fqdn = target.call(
                "POST", "/subdomains", {"fqdn": f"{form.removesuffix('.')}.example.test.", **paid}
            )
            for answer in (by_label, by_fqdn):
                details = refusal(answer, 409, 422)["details"]
                assert answer.status_code == 422 or details == {"reason": "taken", "owned": True}, form


DISAGREEING = [
    {"fqdn": "new.example.test", "label": "other"},
    {"fqdn": "new.example.test", "domain": "second.test"},
    {"fqdn": "new.example.test", "platform_domain_id": "second"},
    {"label": "new", "domain": "example.test", "platform_domain_id": "second"},
    {"fqdn": "new.second.test", "label": "new", "domain": "example.test"},
    {"fqdn": "new.example.test", "domain": "example.test", "platform_domain_id": "second"},
]


@pytest.fixture(scope="module")
def second_domain(target: Target) -> int:
    """A second platform domain, to disagree with."""
    return target.service.add_domain("second.test")


@pytest.mark.parametrize("body", DISAGREEING, ids="+".join)
def test_selections_that_disagree_are_refused(
    target: Target, second_domain: int, body: dict[str, Any]
) -> None:
    sent = {name: second_domain if value == "second" else value for name, value in body.items()}
    with nothing_stored(target):
        answer = target.call("POST", "/subdomains", sent)
    assert {code for _, code in codes(refusal(answer, 422))} == {"fqdn_mismatch"}


def address_of(network: IPv4Network | IPv6Network) -> list[str]:
    """Return the ends and the middle of a block."""
    return sorted({str(network[index]) for index in (0, network.num_addresses // 2, -1)})


NOT_GLOBAL = [block for block in SPECIAL_BLOCKS if not block.public]


@pytest.mark.parametrize("block", NOT_GLOBAL, ids=lambda block: str(block.network))
def test_glue_in_a_block_that_is_not_global_is_refused(target: Target, block: Any) -> None:
    addresses = [each for each in address_of(block.network) if not_public_reason(each)]
    assert addresses, "the block has no address of its own"
    member = f"ipv{block.network.version}"
    host = "ns1.blog.example.test"
    with nothing_stored(target):
        for address in addresses:
            body = {"nameservers": [host], "glue": [{"host": host, member: address}]}
            answer = target.call("PUT", "/subdomains/blog.example.test/nameservers", body)
            assert codes(refusal(answer, 422)) == {(f"glue[0].{member}", "glue_not_public")}, address


ADDRESSES = {
    "6to4 of a private address": ("ipv6", "2002:a00:1::1"),
    "NAT64 of a private address": ("ipv6", "64:ff9b::10.0.0.1"),
    "NAT64 of loopback": ("ipv6", "64:ff9b::7f00:1"),
    "local NAT64": ("ipv6", "64:ff9b:1::8.8.8.8"),
    "IPv4-mapped": ("ipv6", "::ffff:8.8.8.8"),
    "IPv4-compatible": ("ipv6", "::8.8.8.8"),
    "multicast": ("ipv4", "224.0.0.251"),
    "IPv6 multicast": ("ipv6", "ff0e::1"),
    "not handed out": ("ipv6", "4000::1"),
    "zone id": ("ipv6", "fe80::1%eth0"),
    "zone id on a global one": ("ipv6", "2606:4700::1%1"),
    "leading zeros": ("ipv4", "8.8.8.010"),
    "octal": ("ipv4", "010.8.8.8"),
    "hexadecimal": ("ipv4", "0x8.8.8.8"),
    "one number": ("ipv4", "134744072"),
    "three numbers": ("ipv4", "8.8.2056"),
    "beyond 255": ("ipv4", "8.8.8.256"),
    "prefix length": ("ipv4", "8.8.8.8/32"),
    "port": ("ipv4", "8.8.8.8:53"),
    "space": ("ipv4", "8.8.8.8 "),
    "newline": ("ipv4", "8.8.8.8\n"),
    "full-width digits": ("ipv4", "\uff18.8.8.8"),
    "Arabic digits": ("ipv4", "\u0668.8.8.8"),
    "empty": ("ipv4", ""),
    "IPv6 in ipv4": ("ipv4", "2606:4700::1"),
    "IPv4 in ipv6": ("ipv6", "8.8.8.8"),
    "brackets": ("ipv6", "[2606:4700::1]"),
    "nine groups": ("ipv6", "1:2:3:4:5:6:7:8:9"),
    "two gaps": ("ipv6", "2606::4700::1"),
    "60,000 characters": ("ipv6", "2606:" + "0" * 60_000),
    "host name": ("ipv4", "ns1.provider.example"),
}


@pytest.mark.parametrize("name", ADDRESSES)
def test_an_address_that_parsers_read_differently_is_refused(target: Target, name: str) -> None:
    member, address = ADDRESSES[name]
    host = "ns1.new.example.test"
    body = {"fqdn": "new.example.test", "nameservers": [host], "glue": [{"host": host, member: address}]}
    with nothing_stored(target):
        answer = target.call("POST", "/subdomains", body)
    found = codes(refusal(answer, 422))
    assert found <= {(f"glue[0].{member}", code) for code in ("glue_invalid", "glue_not_public")}, found
    assert found


DIGEST = "00" * 32
DS_RECORDS: dict[str, Any] = {
    "empty": "",
    "words": "not a ds record at all",
    "too few fields": "2371 13 2",
    "newline and a record": f"2371 13 2 {DIGEST}\nevil.example.test. IN A 192.0.2.1",
    "$INCLUDE": "$INCLUDE /etc/passwd",
    "a second record in a comment": f"2371 13 2 {DIGEST} ; comment\n257 13 2 {DIGEST}",
    "escape": f"2371 13 2 \\04{DIGEST}",
    "no hex": f"2371 13 2 {'zz' * 32}",
    "full-width digits": f"2371 1\uff13 2 {DIGEST}",
    "negative": f"-1 13 2 {DIGEST}",
    "key tag beyond 16 bits": f"65536 13 2 {DIGEST}",
    "huge key tag": f"{'9' * 5000} 13 2 {DIGEST}",
    "short digest": f"2371 13 2 {DIGEST[:-2]}",
    "long digest": f"2371 13 2 {DIGEST}00",
    "odd digest": f"2371 13 2 {DIGEST}0",
    "SHA-1": f"2371 13 1 {'00' * 20}",
    "GOST": f"2371 13 3 {DIGEST}",
    "unknown digest": f"2371 13 255 {DIGEST}",
    "unknown algorithm": f"2371 99 2 {DIGEST}",
    "retired algorithm": f"2371 1 2 {DIGEST}",
    "deletion": "0 0 0 00",
    "object: negative": {"key_tag": -1, "algorithm": 13, "digest_type": 2, "digest": DIGEST},
    "object: huge": {"key_tag": 2**62, "algorithm": 13, "digest_type": 2, "digest": DIGEST},
    "object: newline": {"key_tag": 1, "algorithm": 13, "digest_type": 2, "digest": DIGEST[:-1] + "\n"},
    "object: empty digest": {"key_tag": 1, "algorithm": 13, "digest_type": 2, "digest": ""},
    "object: only a key tag": {"key_tag": 1},
    "object: nothing": {},
    "key: no base64": {"flags": 257, "protocol": 3, "algorithm": 13, "public_key": "!!!!"},
    "key: wrong length": {"flags": 257, "protocol": 3, "algorithm": 13, "public_key": "AAAA"},
    "key: protocol 4": {"flags": 257, "protocol": 4, "algorithm": 13, "public_key": "A" * 84 + "A=="},
    "key: no zone key": {"flags": 0, "protocol": 3, "algorithm": 13, "public_key": "A" * 85 + "A=="},
    "key: text": "257 3 13 !!!!",
    "key: revoked": {"flags": 385, "protocol": 3, "algorithm": 13, "public_key": "A" * 85 + "A=="},
    "50,000 characters": f"2371 13 2 {'00' * 25_000}",
}


@pytest.mark.parametrize("name", DS_RECORDS)
def test_an_invalid_ds_record_is_refused(target: Target, name: str) -> None:
    body = {"nameservers": ["ns1.provider.example"], "ds_records": [DS_RECORDS[name]]}
    with nothing_stored(target):
        answer = target.call("PUT", "/subdomains/blog.example.test/nameservers", body)
    found = codes(refusal(answer, 422))
    assert {code for _, code in found} <= {"ds_invalid", "required"}, found
    assert all(field.startswith("ds_records[0]") for field, _ in found), found
    assert found


def test_lists_that_are_too_long_are_refused(target: Target) -> None:
    hosts = [f"ns{number}.provider.example" for number in range(14)]
    own = [f"ns{number}.blog.example.test" for number in range(13)]
    bodies: list[dict[str, Any]] = [
        {"nameservers": hosts},
        {"nameservers": hosts * 200},
        {"nameservers": ["ns1.provider.example", "NS1.provider.example."]},
        {"nameservers": hosts[:2], "ds_records": [f"{tag} {DS.partition(' ')[2]}" for tag in range(9)]},
        {
            "nameservers": own,
            "glue": [{"host": host, "ipv4": f"8.8.{index}.8"} for host in own for index in range(60)],
        },
        {"nameservers": [], "ds_records": [DS]},
        {"nameservers": hosts[:1], "glue": [{"host": hosts[0], "ipv4": "8.8.8.8"}]},
        {"nameservers": own[:1]},
        {"nameservers": own[:1], "glue": [{"host": own[0]}]},
        {"nameservers": hosts[:1], "ns1": hosts[1]},
    ]
    for body in bodies:
        with nothing_stored(target):
            answer = target.call("PUT", "/subdomains/blog.example.test/nameservers", body)
        assert refusal(answer, 422)["errors"], body
