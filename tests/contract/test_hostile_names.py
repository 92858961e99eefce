"""Names, addresses and DS records that no user may bring into the DNS are refused by field, and nothing is
stored.

The tables of all that is refused are in tests/rules/test_names.py, test_addresses.py, test_ds.py and
test_delegation.py.
"""

import unicodedata
from typing import Any

import pytest

from support.hostile_input import Target, codes, nothing_stored, refusal
from support.running_service import DS

pytestmark = pytest.mark.slow

HOSTS = {
    "newline": "ns1.provider.example\n",
    "a record of its own": "ns1.provider.example.\nevil.example.test. IN A 192.0.2.1",
    "escaped dot": "ns1\\.provider.example",
    "$INCLUDE": "$INCLUDE /etc/passwd",
    "wildcard": "*.provider.example",
    "underscore": "_dns.provider.example",
    "64-octet label": "a" * 64 + ".provider.example",
    "10,000 characters of Unicode": "ü" * 10_000,
    "IPv4 of full-width digits": "\uff18.\uff18.\uff18.\uff18",
    "IPv6": "2606:4700::1",
    "root": ".",
    "empty": "",
    "space": "ns1 .provider.example",
    "right-to-left override": "ns1.\u202eprovider.example",
}


def test_an_invalid_host_name_is_refused(target: Target) -> None:
    with nothing_stored(target):
        for name, host in HOSTS.items():
            hosts = {"nameservers": ["ns1.provider.example", host]}
            glue = {"nameservers": ["ns1.new.example.test"], "glue": [{"host": host, "ipv4": "8.8.8.8"}]}
            registered = target.call("POST", "/subdomains", {"fqdn": "new.example.test", **hosts})
            numbered = target.call("POST", "/subdomains", {"fqdn": "new.example.test", "ns1": host})
            glued = target.call("POST", "/subdomains", {"fqdn": "new.example.test", **glue})
            changed = target.call("PUT", "/subdomains/blog.example.test/nameservers", hosts)
            for answer in (registered, numbered, changed):
                found = codes(refusal(answer, 422))
                assert {code for _, code in found} == {"nameserver_invalid"}, (name, found)
            assert any(field.startswith("glue[0]") for field, _ in codes(refusal(glued, 422))), name


CONFUSABLES = {
    "Cyrillic": "\u0440\u0430ypal.provider.example",
    "ideographic full stop": "ns1\u3002provider\u3002example",
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
    assert "xn--" in host or host.endswith(".provider.example")
    assert target.service.delegation("blog.example.test") == {host}


REFUSED_LABELS = {
    "_acme-challenge": "_acme-challenge",
    "star": "*",
    "64 octets as an A-label": "ü" * 60,
    "dot": "a.b",
    "$INCLUDE": "$INCLUDE",
    "newline": "new\n",
    "empty": "",
    "hyphen first": "-new",
    "fake A-label": "xn--test",
    "emoji": "\U0001f600",
    "mixed directions": "new\u05d0a",
}


def test_an_invalid_label_is_refused(target: Target) -> None:
    with nothing_stored(target):
        for name, label in REFUSED_LABELS.items():
            by_label = target.call("POST", "/subdomains", {"label": label, "domain": "example.test"})
            by_fqdn = target.call("POST", "/subdomains", {"fqdn": f"{label}.example.test"})
            assert codes(refusal(by_label, 422)) == {("label", "label_invalid")}, name
            assert refusal(by_fqdn, 404, 422), name
        for label in ("NS1", "\uff57ww", "ab--cd", "login", "g\u043e\u043egle"):
            answer = target.call("POST", "/subdomains", {"label": label, "domain": "example.test"})
            assert refusal(answer, 409)["details"] == {"reason": "reserved", "owned": False}, label


FORMS = {
    "foo": ["Foo", "foo.", "\uff46\uff4f\uff4f", "fo\u200bo", "fo\u00ado"],
    "xn--strae-oqa": ["straße", "STRAẞE", "XN--STRAE-OQA"],
    "xn--caf-dma": [unicodedata.normalize("NFC", "café"), unicodedata.normalize("NFD", "café"), "CAFÉ"],
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
    {"label": "new", "domain": "example.test", "platform_domain_id": "second"},
]


def test_selections_that_disagree_are_refused(target: Target) -> None:
    second_domain = target.service.add_domain("second.test")
    with nothing_stored(target):
        for body in DISAGREEING:
            sent = {name: second_domain if value == "second" else value for name, value in body.items()}
            answer = target.call("POST", "/subdomains", sent)
            assert {code for _, code in codes(refusal(answer, 422))} == {"fqdn_mismatch"}, body


OWN = "ns1.blog.example.test"
DELEGATIONS: list[tuple[dict[str, Any], str]] = [
    *(
        ({"nameservers": [OWN], "glue": [{"host": OWN, member: address}]}, code)
        for member, address, code in (
            ("ipv4", "127.0.0.1", "glue_not_public"),
            ("ipv4", "169.254.169.254", "glue_not_public"),
            ("ipv6", "64:ff9b::10.0.0.1", "glue_not_public"),
            ("ipv6", "::ffff:8.8.8.8", "glue_not_public"),
            ("ipv4", "010.8.8.8", "glue_invalid"),
            ("ipv4", "8.8.8.8/32", "glue_invalid"),
            ("ipv6", "fe80::1%eth0", "glue_invalid"),
            ("ipv4", "\uff18.8.8.8", "glue_invalid"),
            ("ipv6", "8.8.8.8", "glue_invalid"),
            ("ipv6", "2606:" + "0" * 60_000, "glue_invalid"),
        )
    ),
    *(
        ({"nameservers": ["ns1.provider.example"], "ds_records": [record]}, "ds_invalid")
        for record in (
            f"2371 13 2 {'00' * 32}\nevil.example.test. IN A 192.0.2.1",
            "$INCLUDE /etc/passwd",
            f"65536 13 2 {'00' * 32}",
            f"2371 13 1 {'00' * 20}",
            f"2371 13 2 {'00' * 25_000}",
            {"key_tag": -1, "algorithm": 13, "digest_type": 2, "digest": "00" * 32},
            {"flags": 257, "protocol": 3, "algorithm": 13, "public_key": "!!!!"},
        )
    ),
    ({"nameservers": [f"n{number}.example" for number in range(1001)]}, "too_long"),
    ({"nameservers": [f"ns{number}.provider.example" for number in range(14)]}, "too_many_nameservers"),
    ({"nameservers": [], "ds_records": [DS]}, "ds_without_nameservers"),
]


def test_a_delegation_that_no_user_may_publish_is_refused(target: Target) -> None:
    with nothing_stored(target):
        for body, code in DELEGATIONS:
            answer = target.call("PUT", "/subdomains/blog.example.test/nameservers", body)
            assert {found for _, found in codes(refusal(answer, 422))} == {code}, str(body)[:200]
