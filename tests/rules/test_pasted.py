import pytest

from sublet.web.pasted import parse_pasted_ds, parse_pasted_glue, parse_pasted_nameservers

DIG = """
; <<>> DiG 9.18 <<>> DNSKEY blog.example.test +multiline
blog.example.test.\t3600 IN DNSKEY 257 3 13 (
\t\tmdsswUyr3DPW132mOi8V9xESWE8jTo0dxCjjnopKl+GqJxpVXckHAeF+
\t\tKkxLbxILfDLUT0rAK9iUzy1L53eKGQ==
\t\t) ; KSK; alg = ECDSAP256SHA256 ; key id = 2371
blog.example.test. 3600 IN DS 2371 13 2 ABCD EF01
"""


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", []),
        ("ns1.x.example\n\n ns2.x.example ", ["ns1.x.example", "ns2.x.example"]),
        ("ns1.x.example., ns2.x.example;ns3.x.example", ["ns1.x.example", "ns2.x.example", "ns3.x.example"]),
        ("blog.example.test. 3600 IN NS ns1.x.example.", ["ns1.x.example"]),
        ("blog.example.test. 1h IN NS ns1.x.example.", ["ns1.x.example"]),
        ("@ NS ns1.x.example.\n;; WHEN: today", ["ns1.x.example"]),
        ("192.0.2.1", ["192.0.2.1"]),
    ],
)
def test_nameservers(text: str, hosts: list[str]) -> None:
    assert list(parse_pasted_nameservers(text).values) == hosts


@pytest.mark.parametrize(
    ("text", "glue"),
    [
        ("", []),
        ("ns1.x 192.0.2.1 2001:db8::1", [{"host": "ns1.x", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1"}]),
        ("ns1.x. 3600 IN A 192.0.2.1", [{"host": "ns1.x", "ipv4": "192.0.2.1"}]),
        ("ns1.x. 1h30m IN A 192.0.2.1", [{"host": "ns1.x", "ipv4": "192.0.2.1"}]),
        ("ns1.x. IN 1W AAAA 2001:db8::1", [{"host": "ns1.x", "ipv6": "2001:db8::1"}]),
        ("ns1.x. AAAA 2001:db8::1 ; old", [{"host": "ns1.x", "ipv6": "2001:db8::1"}]),
        ("ns1.x 192.0.2.1, 192.0.2.2", [{"host": "ns1.x", "ipv4": f"192.0.2.{last}"} for last in (1, 2)]),
        ("ns1.x", [{"host": "ns1.x"}]),
        ("ns1.x nonsense", [{"host": "ns1.x", "ipv4": "nonsense"}]),
    ],
)
def test_glue(text: str, glue: list[dict[str, str]]) -> None:
    assert list(parse_pasted_glue(text, "x", ["ns1.x"]).values) == glue


def test_ds_records_and_keys_of_dig() -> None:
    key, ds = parse_pasted_ds(DIG).values
    assert key == (
        "blog.example.test DNSKEY 257 3 13 "
        "mdsswUyr3DPW132mOi8V9xESWE8jTo0dxCjjnopKl+GqJxpVXckHAeF+KkxLbxILfDLUT0rAK9iUzy1L53eKGQ=="
    )
    assert ds == "blog.example.test DS 2371 13 2 ABCD EF01"
    assert parse_pasted_ds(DIG, "blog.example.test").values == (
        key.partition("DNSKEY ")[2],
        "2371 13 2 ABCD EF01",
    )
