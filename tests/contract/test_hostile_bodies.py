"""Bodies that are no good JSON, or not what they say: refused with 4xx and a sentence,
and nothing is stored.
"""

import gzip
import json
from collections.abc import Iterator

import pytest

from support import http_clients
from support.hostile_input import Target, codes, nothing_stored, refusal

pytestmark = pytest.mark.slow

GOOD = b'{"fqdn":"new.example.test"}'
MEBIBYTE = 1024 * 1024

NOT_JSON = {
    "NaN": b'{"fqdn":"new.example.test","max_credits":NaN}',
    "Infinity": b'{"fqdn":"new.example.test","max_credits":Infinity}',
    "-Infinity": b'{"fqdn":"new.example.test","max_credits":-Infinity}',
    "1e400": b'{"fqdn":"new.example.test","max_credits":1e400}',
    "an integer beyond 64 bits": b'{"fqdn":"new.example.test","max_credits":9223372036854775808}',
    "60,000 digits": b'{"fqdn":"new.example.test","max_credits":' + b"9" * 60_000 + b"}",
    "leading zero": b'{"fqdn":"new.example.test","max_credits":01}',
    "hexadecimal": b'{"fqdn":"new.example.test","max_credits":0x1}',
    "lists 60,000 deep": b"[" * 60_000,
    "a member 30,000 deep": b'{"fqdn":"new.example.test","glue":' + b"[" * 30_000 + b"]" * 30_000 + b"}",
    "objects 10,000 deep": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "33 deep": b'{"fqdn":"new.example.test","glue":' + b"[" * 33 + b"]" * 33 + b"}",
    "a byte order mark": b"\xef\xbb\xbf" + GOOD,
    "UTF-16": GOOD.decode().encode("utf-16"),
    "UTF-16 without a mark": GOOD.decode().encode("utf-16-le"),
    "UTF-32": GOOD.decode().encode("utf-32"),
    "Latin-1": '{"fqdn":"bücher.example.test"}'.encode("latin-1"),
    "overlong UTF-8": b'{"fqdn":"new\xc0\xaeexample.test"}',
    "a surrogate in UTF-8": b'{"fqdn":"new\xed\xa0\x80.example.test"}',
    "an escaped lone surrogate": b'{"fqdn":"new\\ud800.example.test"}',
    "an escaped low surrogate": b'{"fqdn":"new\\udc00.example.test"}',
    "surrogates the wrong way round": b'{"fqdn":"new\\udc00\\ud800.example.test"}',
    "a lone surrogate as a key": b'{"fqdn":"new.example.test","\\ud800":1}',
    "an escaped NUL": b'{"fqdn":"new\\u0000.example.test"}',
    "a NUL as a key": b'{"fqdn":"new.example.test","\\u0000":1}',
    "a NUL octet": b'{"fqdn":"new\x00.example.test"}',
    "a NUL after the end": GOOD + b"\x00",
    "a raw newline in a text": b'{"fqdn":"new\n.example.test"}',
    "trailing data": GOOD + b"x",
    "two objects": GOOD + GOOD,
    "JSON lines": GOOD + b"\n" + GOOD,
    "a trailing comma": b'{"fqdn":"new.example.test",}',
    "single quotes": b"{'fqdn':'new.example.test'}",
    "a comment": GOOD + b"// please",
    "cut off": GOOD[:-1],
    "a list": b"[" + GOOD + b"]",
    "a text": b'"new.example.test"',
    "a number": b"1",
    "null": b"null",
    "only spaces": b"   ",
    "a form": b"fqdn=new.example.test",
    "XML": b"<fqdn>new.example.test</fqdn>",
}


@pytest.mark.parametrize("name", NOT_JSON)
def test_invalid_json_is_refused(target: Target, name: str) -> None:
    with nothing_stored(target):
        answer = target.send(NOT_JSON[name])
    assert refusal(answer, 400)["error"] == "invalid_json"


def test_depth_of_100_000_is_refused_by_its_size(target: Target) -> None:
    body = b'{"glue":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with nothing_stored(target):
        answer = target.send(body)
    assert refusal(answer, 413)["details"] == {"limit_bytes": 65536}


DUPLICATES = {
    "fqdn": b'{"fqdn":"new.example.test","fqdn":"new.example.test"}',
    "confirm": b'{"fqdn":"new.example.test","registration_mode":"plus","confirm":false,"confirm":true}',
    "glue[0].host": b'{"fqdn":"new.example.test","nameservers":["ns1.new.example.test"],'
    b'"glue":[{"host":"ns1.new.example.test","host":"ns1.new.example.test","ipv4":"8.8.8.8"}]}',
    "ds_records[0].digest": b'{"fqdn":"new.example.test","nameservers":["ns1.provider.example"],'
    b'"ds_records":[{"key_tag":1,"algorithm":13,"digest_type":2,"digest":"'
    + b"00" * 32
    + b'","digest":"00"}]}',
}


@pytest.mark.parametrize("field", DUPLICATES)
def test_a_duplicate_member_is_refused_by_name(target: Target, field: str) -> None:
    with nothing_stored(target):
        answer = target.send(DUPLICATES[field])
    assert (field, "duplicate_field") in codes(refusal(answer, 400))


def test_a_key_written_with_escapes_is_the_same_key(target: Target) -> None:
    with nothing_stored(target):
        answer = target.send(b'{"fqdn":"new.example.test","\\u0066qdn":"other.example.test"}')
    assert ("fqdn", "duplicate_field") in codes(refusal(answer, 400))


@pytest.mark.parametrize("value", ['"true"', '"yes"', "1", "0", "1.0", "[]", "[true]", "{}", '""'])
@pytest.mark.parametrize("path", ["/subdomains", "/subdomains/blog.example.test/renew"])
def test_confirm_must_be_a_boolean(target: Target, path: str, value: str) -> None:
    wanted = '"fqdn":"new.example.test","registration_mode":"plus",' if path == "/subdomains" else ""
    with nothing_stored(target):
        answer = target.send(f'{{{wanted}"confirm":{value}}}'.encode(), path)
    assert codes(refusal(answer, 400)) == {("confirm", "wrong_type")}


WRONG_TYPES: dict[str, list[object]] = {
    "fqdn": [1, True, ["new.example.test"], {"name": "new.example.test"}],
    "label": [1, False, [], {}],
    "domain": [0, True, [], {}],
    "platform_domain_id": ["1", True, 1.5, [1], {}],
    "nameservers": ["ns1.provider.example", 1, {"0": "ns1.provider.example"}],
    "ns1": [1, ["ns1.provider.example"], {}],
    "glue": ["ns1.new.example.test", {"host": "ns1.new.example.test"}, 1],
    "ds_records": ["2371 13 2 00", {"key_tag": 1}, 1],
    "coupon_code": [1, True, []],
    "registration_mode": [1, ["free"]],
    "max_credits": ["10", True, 1.5, []],
}


@pytest.mark.parametrize("field", WRONG_TYPES)
def test_a_wrong_type_is_refused_by_name(target: Target, field: str) -> None:
    good = {} if field in ("fqdn", "label", "domain", "platform_domain_id") else {"fqdn": "new.example.test"}
    for value in WRONG_TYPES[field]:
        with nothing_stored(target):
            answer = target.call("POST", "/subdomains", {**good, field: value})
        assert codes(refusal(answer, 400)) == {(field, "wrong_type")}, value


def test_wrong_types_inside_lists_are_refused_all_at_once(target: Target) -> None:
    body = {
        "fqdn": "new.example.test",
        "nameservers": ["ns1.provider.example", 1, None],
        "glue": [1, {"host": 1, "ipv4": ["8.8.8.8"]}],
        "ds_records": [1, {"key_tag": "1", "algorithm": True, "digest_type": 2, "digest": 0}],
        "__proto__": {"confirm": True},
    }
    with nothing_stored(target):
        answer = target.call("POST", "/subdomains", body)
    assert codes(refusal(answer, 400)) == {
        ("nameservers[1]", "wrong_type"),
        ("nameservers[2]", "wrong_type"),
        ("glue[0]", "wrong_type"),
        ("glue[1].host", "wrong_type"),
        ("glue[1].ipv4", "wrong_type"),
        ("ds_records[0]", "wrong_type"),
        ("ds_records[1].key_tag", "wrong_type"),
        ("ds_records[1].algorithm", "wrong_type"),
        ("ds_records[1].digest", "wrong_type"),
        ("__proto__", "unknown_field"),
    }


def test_an_unknown_member_gets_a_suggestion(target: Target) -> None:
    with nothing_stored(target):
        answer = target.call("POST", "/subdomains", {"fqdn": "new.example.test", "nameserver": []})
    members = refusal(answer, 400)
    assert codes(members) == {("nameserver", "unknown_field")}
    assert "did you mean `nameservers`?" in members["errors"][0]["message"]


def test_10_megabytes_by_content_length_are_refused(target: Target) -> None:
    with nothing_stored(target):
        answer = target.send(b'{"label":"' + b"a" * (10 * MEBIBYTE) + b'"}')
    assert refusal(answer, 413)["error"] == "payload_too_large"


def test_10_megabytes_in_chunks_are_refused(target: Target) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'{"label":"'
        for _ in range(160):
            yield b"a" * 65536

    headers = {"authorization": f"Bearer {target.user.token}", "content-type": "application/json"}
    url = target.service.base_url + "/subdomains"
    with nothing_stored(target), http_clients.Client() as client:
        answer = client.post(url, content=chunks(), headers=headers)
    assert refusal(answer, 413)["error"] == "payload_too_large"


def test_the_largest_body_is_accepted(target: Target) -> None:
    room = 65536 - len(b'{"fqdn":"new.example.test","note":""}')
    body = b'{"fqdn":"new.example.test","note":"' + b"a" * room + b'"}'
    with nothing_stored(target):
        read = target.send(body)
        refused = target.send(body + b" ")
    assert codes(refusal(read, 400)) == {("note", "unknown_field")}
    assert refusal(refused, 413)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "gzip, identity", "x"])
def test_an_encoded_body_is_refused(target: Target, encoding: str) -> None:
    bomb = gzip.compress(b" " * (10 * MEBIBYTE) + GOOD)
    with nothing_stored(target):
        answer = target.send(bomb, content_encoding=encoding)
    assert refusal(answer, 415)["error"] == "unsupported_media_type"


def test_an_undeclared_gzip_body_is_invalid_json(target: Target) -> None:
    with nothing_stored(target):
        answer = target.send(gzip.compress(GOOD))
    assert refusal(answer, 400)["error"] == "invalid_json"


@pytest.mark.parametrize(
    "media_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=utf-16",
        "application/json; charset=utf-8; charset=utf-16",
        "application/json, text/plain",
        "application/jsonp",
        "application/problem+json",
        "json",
        "",
    ],
)
def test_another_media_type_is_refused(target: Target, media_type: str) -> None:
    with nothing_stored(target):
        answer = target.send(GOOD, content_type=media_type)
    assert refusal(answer, 415)["error"] == "unsupported_media_type"


def test_texts_of_tickets_follow_the_same_rules(target: Target) -> None:
    bodies = [
        b'{"subject":"a\\u0000","message":"b"}',
        b'{"subject":"a","message":"\\ud83d"}',
        json.dumps({"subject": "a" * 201, "message": "b"}).encode(),
        json.dumps({"subject": "a", "message": "b" * 20_001}).encode(),
        json.dumps({"subject": "", "message": "b"}).encode(),
        json.dumps({"subject": "a", "message": "   "}).encode(),
        json.dumps({"subject": "a\nBcc: everyone@example.org", "message": "b"}).encode(),
        json.dumps({"subject": "a", "message": "b", "fqdn": "x'; DROP TABLE tickets; --"}).encode(),
        json.dumps({"subject": "a", "message": "b", "subdomain_id": 2**63 - 1}).encode(),
    ]
    for body in bodies:
        with nothing_stored(target):
            answer = target.send(body, "/support/tickets")
        refusal(answer, 400, 422)
