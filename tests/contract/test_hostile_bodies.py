"""Bodies that are no good JSON, or not what they say: refused with 4xx and a sentence, and nothing is stored.

The tables of all that is refused are in tests/http/test_read_body.py and tests/http/test_read_structs.py.
"""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from support import http_clients
from support.hostile_input import Target, codes, nothing_stored, refusal

pytestmark = pytest.mark.slow

GOOD = b'{"fqdn":"new.example.test"}'
MEBIBYTE = 1024 * 1024

NOT_JSON = {
    "NaN": b'{"fqdn":"new.example.test","max_credits":NaN}',
    "an integer beyond 64 bits": b'{"fqdn":"new.example.test","max_credits":9223372036854775808}',
    "lists 60,000 deep": b"[" * 60_000,
    "a byte order mark": b"\xef\xbb\xbf" + GOOD,
    "UTF-16": GOOD.decode().encode("utf-16"),
    "overlong UTF-8": b'{"fqdn":"new\xc0\xaeexample.test"}',
    "an escaped lone surrogate": b'{"fqdn":"new\\ud800.example.test"}',
    "an escaped NUL": b'{"fqdn":"new\\u0000.example.test"}',
    "two objects": GOOD + GOOD,
    "cut off": GOOD[:-1],
    "a list": b"[" + GOOD + b"]",
    "only spaces": b"   ",
    "a form": b"fqdn=new.example.test",
    "gzip that is not declared": gzip.compress(GOOD),
}


def test_invalid_json_is_refused(target: Target) -> None:
    with nothing_stored(target):
        for name, body in NOT_JSON.items():
            assert refusal(target.send(body), 400)["error"] == "invalid_json", name


WRONG_MEMBERS: list[tuple[bytes, set[tuple[str, str]]]] = [
    (
        b'{"fqdn":"new.example.test","\\u0066qdn":"other.example.test"}',
        {("fqdn", "duplicate_field")},
    ),
    (
        b'{"fqdn":"new.example.test","glue":[{"host":"ns1.new.example.test","host":"a.b","ipv4":"8.8.8.8"}]}',
        {("glue[0].host", "duplicate_field")},
    ),
    (
        b'{"fqdn":1,"registration_mode":["free"]}',
        {("fqdn", "wrong_type"), ("registration_mode", "wrong_type")},
    ),
    (b'{"fqdn":"new.example.test","max_credits":1.5}', {("max_credits", "wrong_type")}),
    (
        b'{"fqdn":"new.example.test","nameservers":["a.b",null],"ds_records":[{"key_tag":"1"}],"__proto__":{}}',
        {
            ("nameservers[1]", "wrong_type"),
            ("ds_records[0].key_tag", "wrong_type"),
            ("__proto__", "unknown_field"),
        },
    ),
]


def test_wrong_members_are_refused_by_name_all_at_once(target: Target) -> None:
    with nothing_stored(target):
        for body, expected in WRONG_MEMBERS:
            assert codes(refusal(target.send(body), 400)) == expected, body


@pytest.mark.parametrize("path", ["/subdomains", "/subdomains/blog.example.test/renew"])
def test_confirm_must_be_a_boolean(target: Target, path: str) -> None:
    wanted = '"fqdn":"new.example.test","registration_mode":"plus",' if path == "/subdomains" else ""
    with nothing_stored(target):
        for value in ('"true"', "1", "1.0", "[true]", "{}", '""'):
            answer = target.send(f'{{{wanted}"confirm":{value}}}'.encode(), path)
            assert codes(refusal(answer, 400)) == {("confirm", "wrong_type")}, value


def test_a_body_of_more_than_64_kibibytes_is_refused(target: Target) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'{"label":"'
        for _ in range(160):
            yield b"a" * 65536

    room = 65536 - len(b'{"fqdn":"new.example.test","note":""}')
    largest = b'{"fqdn":"new.example.test","note":"' + b"a" * room + b'"}'
    headers = {"authorization": f"Bearer {target.user.token}", "content-type": "application/json"}
    url = target.service.base_url + "/subdomains"
    with nothing_stored(target), http_clients.Client() as client:
        answers = [
            target.send(b'{"glue":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
            target.send(b'{"label":"' + b"a" * (10 * MEBIBYTE) + b'"}'),
            client.post(url, content=chunks(), headers=headers),
            target.send(largest + b" "),
        ]
        read = target.send(largest)
    for answer in answers:
        assert refusal(answer, 413)["details"] == {"limit_bytes": 65536}
    assert codes(refusal(read, 400)) == {("note", "unknown_field")}


def test_an_encoded_body_and_another_media_type_are_refused(target: Target) -> None:
    bomb = gzip.compress(b" " * (10 * MEBIBYTE) + GOOD)
    sent: list[tuple[bytes, dict[str, Any]]] = [
        *((bomb, {"content_encoding": each}) for each in ("gzip", "br", "gzip, identity", "x")),
        *(
            (GOOD, {"content_type": each})
            for each in (
                "text/plain",
                "application/x-www-form-urlencoded",
                "application/json; charset=utf-16",
                "application/problem+json",
                "",
            )
        ),
    ]
    with nothing_stored(target):
        for body, headers in sent:
            answer = target.send(body, **headers)
            assert refusal(answer, 415)["error"] == "unsupported_media_type", headers


def test_texts_of_tickets_follow_the_same_rules(target: Target) -> None:
    bodies = [
        b'{"subject":"a\\u0000","message":"b"}',
        json.dumps({"subject": "a" * 201, "message": "b"}).encode(),
        json.dumps({"subject": "a", "message": "b" * 20_001}).encode(),
        json.dumps({"subject": "a", "message": "   "}).encode(),
        json.dumps({"subject": "a\nBcc: everyone@example.org", "message": "b"}).encode(),
        json.dumps({"subject": "a", "message": "b", "fqdn": "x'; DROP TABLE tickets; --"}).encode(),
        json.dumps({"subject": "a", "message": "b", "subdomain_id": 2**63 - 1}).encode(),
    ]
    with nothing_stored(target):
        for body in bodies:
            refusal(target.send(body, "/support/tickets"), 400, 422)
