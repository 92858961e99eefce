import pytest

from sublet.web.pasted import parse_pasted_glue


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
