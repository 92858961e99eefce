"""Proofs by NSEC and NSEC3 records: a zone's complete chain proves exactly what is true."""

import base64
from collections.abc import Sequence

import dns.dnssec
import dns.name
import dns.rrset
import pytest

from sublet.health.denial import ITERATIONS_MAX, proves_absence, proves_wildcard

ZONE = dns.name.from_text("a.test.")
TYPES = {"@": "NS SOA A", "www": "A", "*.wild": "TXT", "deep.empty": "A", "alias": "CNAME"}
"""The names of a zone with their types. `empty` and `wild` have no records, but names below them."""


def name(text: str) -> dns.name.Name:
    return ZONE if text == "@" else dns.name.from_text(text, ZONE)


def nsec() -> list[dns.rrset.RRset]:
    owners = sorted(TYPES, key=name)
    following = [*owners[1:], owners[0]]
    return [
        dns.rrset.from_text(name(each), 60, "IN", "NSEC", f"{name(after)} {TYPES[each]} RRSIG NSEC")
        for each, after in zip(owners, following, strict=True)
    ]


def nsec3(iterations: int = 0) -> list[dns.rrset.RRset]:
    types = {**TYPES, "empty": "", "wild": ""}
    hashed = sorted((dns.dnssec.nsec3_hash(name(each), "ab", iterations, 1), each) for each in types)
    following = [*hashed[1:], hashed[0]]
    return [
        dns.rrset.from_text(
            name(owner),
            60,
            "IN",
            "NSEC3",
            f"1 0 {iterations} ab {after} {types[each]}{' RRSIG' * bool(types[each])}",
        )
        for (owner, each), (after, _) in zip(hashed, following, strict=True)
    ]


@pytest.mark.parametrize("denials", [nsec(), nsec3(), nsec3(5)])
def test_a_chain_proves_what_is_true_and_nothing_else(denials: Sequence[dns.rrset.RRset]) -> None:
    def proves(text: str, rdtype: str, *, is_nxdomain: bool) -> bool:
        return proves_absence(ZONE, name(text), rdtype, denials, is_nxdomain=is_nxdomain)

    for text in ("no", "x.www", "zz", "0", "x.deep.empty", "no.no", "x.empty"):
        assert proves(text, "A", is_nxdomain=True), text
    for text in ("@", "www", "x.wild", "empty", "wild", "alias", "deep.empty"):
        assert not proves(text, "AAAA", is_nxdomain=True), text
    for text in ("@", "www", "x.wild", "x.y.wild", "empty", "wild", "deep.empty"):
        assert proves(text, "AAAA", is_nxdomain=False), text
    for text, rdtype in (("@", "A"), ("www", "A"), ("x.wild", "TXT"), ("alias", "A"), ("no", "A")):
        assert not proves(text, rdtype, is_nxdomain=False), text


@pytest.mark.parametrize("denials", [nsec(), nsec3()])
def test_a_wildcard_answers_only_for_names_that_do_not_exist(denials: Sequence[dns.rrset.RRset]) -> None:
    labels = len(name("wild")) - 1
    assert proves_wildcard(ZONE, name("x.wild"), labels, denials)
    assert proves_wildcard(ZONE, name("x.y.wild"), labels, denials)
    assert not proves_wildcard(ZONE, name("x.wild"), labels, [])
    assert not proves_wildcard(ZONE, name("www"), len(ZONE) - 1, denials)


def test_a_proof_needs_the_record_about_the_wildcard_too() -> None:
    covering = [each for each in nsec() if each.name == name("deep.empty")]
    assert not proves_absence(ZONE, name("no"), "A", covering, is_nxdomain=True)
    apex = [each for each in nsec() if each.name == ZONE]
    assert proves_absence(ZONE, name("no"), "A", [*covering, *apex], is_nxdomain=True)
    assert not proves_absence(ZONE, name("no"), "A", [], is_nxdomain=True)


def test_a_name_of_its_own_span_has_no_records() -> None:
    """A server may make the NSEC record of each name that is asked (RFC 9824)."""
    made = dns.rrset.from_text(name("no"), 60, "IN", "NSEC", f"\\000.{name('no')} RRSIG NSEC")
    assert proves_absence(ZONE, name("no"), "A", [made], is_nxdomain=False)


def test_records_with_an_unknown_hash_algorithm_prove_nothing() -> None:
    unknown = [dns.rrset.from_text(each.name, 60, "IN", "NSEC3", f"2{str(each[0])[1:]}") for each in nsec3()]
    for is_nxdomain in (False, True):
        assert not proves_absence(ZONE, name("no"), "A", unknown, is_nxdomain=is_nxdomain)
        assert proves_absence(ZONE, name("no"), "A", [*unknown, *nsec()], is_nxdomain=True)


def test_resolvers_need_no_proof_of_a_zone_with_many_iterations() -> None:
    many = dns.rrset.from_text(
        name(base64.b32hexencode(b"x" * 20).decode()),
        60,
        "IN",
        "NSEC3",
        f"1 0 {ITERATIONS_MAX + 1} - {base64.b32hexencode(b'y' * 20).decode()} A",
    )
    assert proves_absence(ZONE, name("no"), "A", [many], is_nxdomain=True)
