"""The forms for records: what people type becomes RRsets, or an error at the field."""

import pytest

from sublet.dns.types import RecordSet
from sublet.errors import ValidationFailed
from sublet.web.form import Form
from sublet.web.records import record_lines
from sublet.web.records_form import check_records_form
from support.rule_domains import rule_domain

FQDN = "site.example.test"
DOMAIN = rule_domain()
SPF = '@ 300 TXT "v=spf1 -all"'
STORED = (RecordSet("@", "A", 300, ("8.8.4.4",)), RecordSet("@", "TXT", 300, ('"v=spf1 -all"',)))


def outcome(fields: dict[str, str], stored: tuple[RecordSet, ...] = ()) -> list[str]:
    """Return the lines of all records after a form, or its errors with their fields."""
    try:
        _, wanted = check_records_form(Form(list(fields.items())), FQDN, stored, DOMAIN)
    except ValidationFailed as refusal:
        return [f"{each.field}: {each.message}" for each in refusal.errors]
    return record_lines(wanted)


@pytest.mark.parametrize(
    ("purpose", "fields", "expected"),
    [
        ("host", {"host": "https://My-Site.netlify.app/x"}, ["@ 300 CNAME my-site.netlify.app."]),
        ("host", {"host": "a.example.", "host_at": "both"}, ["@ 300 CNAME a.example.", "www 300 CNAME a.example."]),  # noqa: E501
        ("host", {"host": "8.8.4.4", "host_at": "www"}, ["www 300 A 8.8.4.4"]),
        ("addresses", {"addresses": "8.8.4.4, 2606:4700::1"}, ["@ 300 A 8.8.4.4", "@ 300 AAAA 2606:4700::1"]),
        ("github", {"github_user": "Octocat"}, ["@ 300 CNAME octocat.github.io."]),
        ("github", {"github_user": "@octocat"}, ["@ 300 CNAME octocat.github.io."]),
        ("github", {"github_user": "https://github.com/octocat/x"}, ["@ 300 CNAME octocat.github.io."]),
        ("github", {"github_user": "octocat.github.io/x", "github_user_at": "www"}, ["www 300 CNAME octocat.github.io."]),  # noqa: E501
        (
            "mail",
            {"mail_hosts": "mx1.example.com\n5 mx2.example.com", "spf": "v=spf1 -all"},
            ["@ 300 MX 10 mx1.example.com.", "@ 300 MX 5 mx2.example.com.", SPF],
        ),
        ("mail", {"mail_hosts": "10 mx1.a.example, 20 mx2.a.example"}, ["@ 300 MX 10 mx1.a.example.", "@ 300 MX 20 mx2.a.example."]),  # noqa: E501
        ("mail", {"mail_hosts": "a.example. 300 IN MX 5 mx.a.example."}, ["@ 300 MX 5 mx.a.example."]),
        ("text", {"text": "google=a b", "text_at": ""}, ['@ 300 TXT "google=a b"']),
        ("new", {"name": "", "type": "A", "ttl": "60", "values": "8.8.8.8\n\n8.8.4.4"}, ["@ 60 A 8.8.4.4", "@ 60 A 8.8.8.8"]),  # noqa: E501
        ("zone_file", {"zone_file": "$TTL 600\nwww IN A 8.8.8.8\n@ NS a.example."}, ["www 600 A 8.8.8.8"]),
    ],
)  # fmt: skip
def test_a_form_becomes_records(purpose: str, fields: dict[str, str], expected: list[str]) -> None:
    assert outcome({"purpose": purpose} | fields) == expected


@pytest.mark.parametrize(
    ("purpose", "fields", "expected"),
    [
        ("host", {"host": "mysite"}, "host: `mysite` is not a full name."),
        ("host", {"host": "a.example b.example"}, "host: A CNAME has one value."),
        ("host", {"host": ""}, "host: The value is empty."),
        ("github", {"github_user": "Anna Lee"}, "github_user: `anna lee` has a space"),
        ("addresses", {"addresses": "10.0.0.1"}, "addresses: 10.0.0.1 is in 10.0.0.0/8"),
        ("addresses", {"addresses": "203.0.113.300"}, "addresses: `203.0.113.300` is not an IP address."),
        ("host", {"host": "2001:db8::g"}, "host: `2001:db8::g` is not an IP address."),
        ("addresses", {"addresses": ""}, "addresses: The value is empty."),
        ("mail", {"mail_hosts": "-"}, "mail_hosts: "),
        ("mail", {"mail_hosts": "10 mx1.a.example 20 mx2.a.example"}, "mail_hosts: "),
        ("mail", {"mail_hosts": "mx.example", "spf": '"'}, "spf: "),
        ("text", {"text": "x", "text_at": "a b"}, "text_at: "),
        ("new", {"type": "A", "ttl": "x", "values": "8.8.8.8"}, "ttl: `x` is no number"),
        ("new", {"type": "A", "ttl": "1", "values": "8.8.8.8"}, "ttl: A TTL of 1 seconds"),
        ("new", {"type": "NS", "values": "a.example"}, "type: NS records delegate"),
        ("new", {"type": "A", "values": ""}, "values: The value is empty."),
        ("zone_file", {"zone_file": "@ IN A 8.8.4.4\nwww IN A x"}, "zone_file: Line 2: `x` is not an IPv4 address."),  # noqa: E501
        ("zone_file", {"zone_file": "$INCLUDE x"}, "zone_file: Line 1: "),
        ("zone_file", {"zone_file": "; nothing"}, "zone_file: There are no records"),
        ("unknown", {}, "name: The owner is empty."),
    ],
)  # fmt: skip
def test_an_error_is_at_the_field_of_the_form(purpose: str, fields: dict[str, str], expected: str) -> None:
    assert outcome({"purpose": purpose} | fields)[0].startswith(expected)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"purpose": "addresses", "addresses": "8.8.8.8"}, ["@ 300 A 8.8.8.8", SPF]),
        ({"purpose": "addresses", "addresses": "2606:4700::1"}, ["@ 300 AAAA 2606:4700::1", SPF]),
        ({"purpose": "host", "host": "a.example", "host_at": "www"}, ["@ 300 A 8.8.4.4", SPF, "www 300 CNAME a.example."]),  # noqa: E501
        ({"purpose": "text", "text": "b"}, ["@ 300 A 8.8.4.4", '@ 300 TXT "b"', SPF]),
        ({"purpose": "text", "text": "b", "text_at": "@"}, ["@ 300 A 8.8.4.4", '@ 300 TXT "b"', SPF]),
        ({"purpose": "text", "text": "v=spf1 -all", "text_at": FQDN}, ["@ 300 A 8.8.4.4", SPF]),
        ({"purpose": "mail", "mail_hosts": "mx.example", "spf": "v=spf1 mx"},
         ["@ 300 A 8.8.4.4", "@ 300 MX 10 mx.example.", '@ 300 TXT "v=spf1 mx"']),
        ({"purpose": "new", "type": "A", "values": "8.8.8.8"}, ["@ 300 A 8.8.4.4", "@ 300 A 8.8.8.8", SPF]),
        ({"purpose": "row", "old_name": "@", "type": "A", "name": "WWW", "ttl": "60", "values": "8.8.8.8"}, [SPF, "www 60 A 8.8.8.8"]),  # noqa: E501
        ({"purpose": "row", "old_name": "@", "type": "A", "name": "@", "values": ""}, [SPF]),
        ({"purpose": "row", "old_name": "@", "type": "A", "name": "@", "values": "x", "remove": "yes"}, [SPF]),  # noqa: E501
        ({"purpose": "zone_file", "zone_file": "www A 8.8.8.8"}, ["www 300 A 8.8.8.8"]),
    ],
)  # fmt: skip
def test_a_form_keeps_the_other_records(fields: dict[str, str], expected: list[str]) -> None:
    assert outcome(fields, STORED) == expected


def test_a_website_at_a_host_name_says_why_it_can_t_be_there() -> None:
    (error,) = outcome({"purpose": "host", "host": "a.example"}, STORED)
    assert error.startswith("host: A CNAME must be alone at site.example.test. Remove its TXT records")


@pytest.mark.parametrize(
    ("purpose", "fields", "field"),
    [
        ("text", {"text": "b"}, "text"),
        ("mail", {"mail_hosts": "mx.example"}, "mail_hosts"),
        ("new", {"type": "A", "values": "8.8.8.8"}, "values"),
    ],
)
def test_a_name_with_a_cname_can_have_nothing_else(purpose: str, fields: dict[str, str], field: str) -> None:
    stored = (RecordSet("@", "CNAME", 300, ("a.example.",)),)
    (error,) = outcome({"purpose": purpose} | fields, stored)
    assert error.startswith(f"{field}: The name points to a host (CNAME)")


def test_an_added_text_keeps_the_ttl_of_the_others() -> None:
    stored = (RecordSet("_old", "TXT", 900, ('"a"',)),)
    fields = {"purpose": "text", "text": "b", "text_at": "_OLD"}
    assert outcome(fields, stored) == ['_old 900 TXT "a"', '_old 900 TXT "b"']
