"""From JSON and query parameters to a Struct: types are exact, and everything wrong is named at once."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from sublet.accounts.api import RemindersBody
from sublet.dns.types import Dnskey, DsRecord
from sublet.errors import InvalidRequest, ValidationFailed
from sublet.http.read_structs import Reading, invalid_request, read_members, read_query
from sublet.operations.shapes import Body, NoBody
from sublet.subdomains.api import RegisterBody, RenewBody, SubdomainsQuery
from sublet.subdomains.dates.api import AutoRenewBody
from sublet.subdomains.sent import DnskeyBody, DsBody, NameserversBody, ds_inputs, sent_nameservers

Found = set[tuple[str, str]]


def test_only_some_guesses_are_made_and_50_fields_are_listed() -> None:
    reading = Reading()
    assert read_members({f"nameservers{number}": 1 for number in range(80)}, RegisterBody, reading) is None
    assert sum("did you mean `nameservers`?" in each.message for each in reading.malformed) == 10
    assert (len(reading.malformed), reading.malformed.omitted, reading.count()) == (50, 30, 80)


def wrong_in(value: dict[str, Any], struct: type[msgspec.Struct]) -> tuple[Found, Found]:
    """Read a body that can't be read; return its malformed and its missing members."""
    reading = Reading()
    assert read_members(value, struct, reading) is None
    return (
        {(each.field, each.code) for each in reading.malformed},
        {(each.field, each.code) for each in reading.invalid},
    )


def read(value: dict[str, Any], struct: type[msgspec.Struct]) -> Any:
    reading = Reading()
    found = read_members(value, struct, reading)
    assert (reading.malformed, reading.invalid) == ([], [])
    return found


@pytest.mark.parametrize("value", ["true", "false", 1, 0, 1.0, [], {}, ""])
def test_other_values_are_not_booleans(value: Any) -> None:
    assert wrong_in({"confirm": value}, RenewBody) == ({("confirm", "wrong_type")}, set())


@pytest.mark.parametrize("value", ["1", True, False, 1.0, 1.5, [], {}])
def test_other_values_are_not_integers(value: Any) -> None:
    assert wrong_in({"platform_domain_id": value}, RegisterBody) == (
        {("platform_domain_id", "wrong_type")},
        set(),
    )


@pytest.mark.parametrize("value", [1, True, 1.5, [], {}, ["a"]])
def test_other_values_are_not_strings(value: Any) -> None:
    assert wrong_in({"label": value}, RegisterBody) == ({("label", "wrong_type")}, set())


def test_all_wrong_members_are_named_together() -> None:
    body = {
        "label": 7,
        "confirm": "true",
        "nameserver": ["ns1.example"],
        "nameservers": ["ns1.example", 5, None],
        "glue": [{"host": "a.example", "ipv4": 1, "ipv5": "x"}, "a.example", {"ipv4": "8.8.8.8"}],
        "ds_records": [True, {"key_tag": "1"}, {"flags": 257, "digest": "00"}],
    }
    assert wrong_in(body, RegisterBody) == (
        {
            ("label", "wrong_type"),
            ("confirm", "wrong_type"),
            ("nameserver", "unknown_field"),
            ("nameservers[1]", "wrong_type"),
            ("nameservers[2]", "wrong_type"),
            ("glue[0].ipv4", "wrong_type"),
            ("glue[0].ipv5", "unknown_field"),
            ("glue[1]", "wrong_type"),
            ("ds_records[0]", "wrong_type"),
            ("ds_records[1].key_tag", "wrong_type"),
            ("ds_records[2].digest", "unknown_field"),
        },
        {
            ("glue[2].host", "required"),
            ("ds_records[1].algorithm", "required"),
            ("ds_records[1].digest_type", "required"),
            ("ds_records[1].digest", "required"),
            ("ds_records[2].protocol", "required"),
            ("ds_records[2].algorithm", "required"),
            ("ds_records[2].public_key", "required"),
        },
    )


def test_a_misspelled_member_gets_a_suggestion() -> None:
    reading = Reading()
    read_members({"nameserver": []}, RegisterBody, reading)
    assert reading.malformed[0].message == "unknown field `nameserver`; did you mean `nameservers`?"
    assert "nameservers" in invalid_request(reading.malformed).message


def test_an_unknown_member_without_a_similar_name_gets_the_list_of_members() -> None:
    reading = Reading()
    read_members({"reminders": False, "enable": True}, RemindersBody, reading)
    read_members({"zzz": 1}, AutoRenewBody, reading)
    read_members({"zzz": 1}, RegisterBody, reading)
    read_members({"zzz": 1}, NoBody, reading)
    assert [each.message for each in reading.malformed] == [
        "unknown field `reminders`; it takes `enabled`",
        "unknown field `enable`; did you mean `enabled`?",
        "unknown field `zzz`; it takes `enabled`, `max_credits`",
        "unknown field `zzz`; leave it out",
        "unknown field `zzz`; leave it out",
    ]


def test_a_long_unknown_member_is_truncated_in_the_message() -> None:
    reading = Reading()
    read_members({"x" * 60_000: 1}, RegisterBody, reading)
    assert len(reading.malformed[0].field) <= 200
    assert len(reading.malformed[0].message) < 200


def test_null_differs_from_an_omitted_member_in_a_change() -> None:
    left_out, cleared = read({}, NameserversBody), read({"nameservers": None, "glue": None}, NameserversBody)
    assert (left_out.nameservers, left_out.glue) == (msgspec.UNSET, msgspec.UNSET)
    assert (cleared.nameservers, cleared.glue, cleared.ds_records) == (None, None, msgspec.UNSET)


class NoteBody(Body):
    """A body whose member is required, and may be null."""

    note: str | None


def test_null_is_a_value_of_a_required_member_whose_type_has_it() -> None:
    assert read({"note": None}, NoteBody).note is None
    assert wrong_in({}, NoteBody) == (set(), {("note", "required")})
    assert wrong_in({"digest": None}, DsBody)[1] >= {("digest", "required")}


def test_an_endpoint_without_a_body_refuses_members() -> None:
    assert wrong_in({"confirm": True}, NoBody) == ({("confirm", "unknown_field")}, set())


def test_ds_records_are_text_ds_or_dnskey_objects() -> None:
    ds = {"key_tag": 1, "algorithm": 13, "digest_type": 2, "digest": "ab"}
    key = {"flags": 257, "protocol": 3, "algorithm": 13, "public_key": "AA=="}
    body = read({"ds_records": ["1 13 2 ab", ds, key]}, RegisterBody)
    assert [type(each) for each in body.ds_records] == [str, DsBody, DnskeyBody]
    assert ds_inputs(body.ds_records) == (
        "1 13 2 ab",
        DsRecord(1, 13, 2, "ab"),
        Dnskey(257, 3, 13, "AA=="),
    )


@pytest.mark.parametrize(
    ("body", "nameservers"),
    [
        (RegisterBody(), None),
        (RegisterBody(nameservers=None), None),
        (RegisterBody(nameservers=[]), ()),
        (RegisterBody(nameservers=["b", "a"]), ("b", "a")),
        (RegisterBody(ns1="a", ns2="c"), ("a", "c")),
        (NameserversBody(), None),
        (NameserversBody(nameservers=None), ()),
        (NameserversBody(nameservers=[]), ()),
        (NameserversBody(ns2="b", ns1="a"), ("a", "b")),
        (NameserversBody(ns1="a", ns2=None), ("a",)),
        (NameserversBody(ns3=None), ()),
        (NameserversBody(nameservers=["a"], ns1=None), ("a",)),
    ],
)
def test_nameservers_as_a_list_or_one_by_one(
    body: RegisterBody | NameserversBody, nameservers: tuple[str, ...] | None
) -> None:
    assert sent_nameservers(body) == nameservers


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        (RegisterBody(nameservers=[], ns1="a"), {"ns1": "value_invalid"}),
        (RegisterBody(nameservers=["b"], ns3="a"), {"ns3": "value_invalid"}),
        (NameserversBody(nameservers=None, ns1="a"), {"ns1": "value_invalid"}),
        (RegisterBody(ns2="a"), {"ns1": "required"}),
        (RegisterBody(ns1="a", ns4="b"), {"ns2": "required", "ns3": "required"}),
        (NameserversBody(ns3="a"), {"ns1": "required", "ns2": "required"}),
        (NameserversBody(ns1=None, ns2="a"), {"ns1": "required"}),
        (NameserversBody(ns1="a", ns2=None, ns3=""), {"ns2": "required"}),
    ],
)
def test_nameservers_in_both_forms_or_with_a_gap_are_refused(
    body: RegisterBody | NameserversBody, errors: dict[str, str]
) -> None:
    with pytest.raises(ValidationFailed) as refused:
        sent_nameservers(body)
    assert {each.field: each.code for each in refused.value.errors} == errors


def wrong_query(text: str) -> Found:
    reading = Reading()
    assert read_query(text.encode(), SubdomainsQuery, reading) is None
    return {(each.field, each.code) for each in reading.malformed}


def test_a_query_is_read() -> None:
    text = (
        b"limit=500&status=active&q=a%20b+c&expires_before=2026-01-31T13:00:00%2B01:00&dnssec_enabled=false"
    )
    reading = Reading()
    assert read_query(text, SubdomainsQuery, reading) == SubdomainsQuery(
        limit=500,
        status="active",
        q="a b c",
        expires_before=datetime(2026, 1, 31, 12, tzinfo=UTC),
        dnssec_enabled=False,
    )
    assert reading.malformed == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("limit=0", {("limit", "unknown_value")}),
        ("limit=501", {("limit", "unknown_value")}),
        ("limit=-1", {("limit", "wrong_type")}),
        ("limit=", {("limit", "wrong_type")}),
        ("limit=1.0", {("limit", "wrong_type")}),
        ("limit=%D9%A1", {("limit", "wrong_type")}),
        ("limit=" + "9" * 5000, {("limit", "wrong_type")}),
        ("limit=5&limit=5", {("limit", "duplicate_field")}),
        ("statsu=active", {("statsu", "unknown_field")}),
        ("status=gone", {("status", "unknown_value")}),
        ("status=", {("status", "unknown_value")}),
        ("dnssec_enabled=1", {("dnssec_enabled", "unknown_value")}),
        ("dnssec_enabled=True", {("dnssec_enabled", "unknown_value")}),
        ("expires_before=yesterday", {("expires_before", "wrong_type")}),
        ("expires_before=2026-01-31", {("expires_before", "wrong_type")}),
        ("expires_before=2026-01-31T12:00:00", {("expires_before", "wrong_type")}),
        ("expires_before=2026-02-30T12:00:00Z", {("expires_before", "wrong_type")}),
        ("expires_before=0001-01-01T00:00:00%2B14:00", {("expires_before", "wrong_type")}),
        ("expires_after=9999-12-31T23:59:59-14:00", {("expires_after", "wrong_type")}),
        ("q=" + "a" * 255, {("q", "too_long")}),
        (
            "limit=0&a=1&status=x",
            {("limit", "unknown_value"), ("a", "unknown_field"), ("status", "unknown_value")},
        ),
    ],
)
def test_wrong_parameters_are_named(text: str, wrong: Found) -> None:
    assert wrong_query(text) == wrong


@pytest.mark.parametrize("text", [b"q=%FF", b"q=\xff", b"q=%00", b"%00=1", b"&".join([b"q=1"] * 65)])
def test_malformed_queries_are_refused(text: bytes) -> None:
    with pytest.raises(InvalidRequest):
        read_query(text, SubdomainsQuery, Reading())
