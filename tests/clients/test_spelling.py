"""The clients' parsers of values with several spellings: tables of canonical forms and refusals."""

import re
from collections.abc import Callable

import pytest
from dns.rdatatype import RdataType

from sublet.dns.types import RECORD_TYPES
from sublet_client import spelling
from sublet_client.models import Dnskey, Ds, DsRecord
from support.child_keys import ChildKey
from support.spellings import (
    CANONICAL,
    DIGEST,
    DS,
    DS_FORMS,
    DS_REFUSED,
    KEY,
    KINDS,
    OWNER,
    OWNERS,
    OWNERS_REFUSED,
    RECORDS,
    RECORDS_REFUSED,
    REFUSED,
    compare,
)


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
