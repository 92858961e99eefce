"""Addresses of clients behind trusted proxies, and the keys that their requests count under."""

import pytest

from sublet.operations.client import (
    address_key,
    find_client_address,
    parse_trusted_proxies,
)

PROXIES = parse_trusted_proxies("10.0.0.1, 2001:DB8::1")


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("192.0.2.1", ["198.51.100.1"], "192.0.2.1"),  # not from a trusted proxy: may be invented
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["203.0.113.9, 198.51.100.1"], "198.51.100.1"),  # the client wrote the first
        ("10.0.0.1", ["203.0.113.9", "198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["198.51.100.1, 2001:db8:0::1"], "198.51.100.1"),
        ("10.0.0.1", ["nonsense"], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1, nonsense"], "10.0.0.1"),
        ("2001:db8::1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["198.51.100.1:5678"], "198.51.100.1"),
        ("10.0.0.1", ["203.0.113.9:1, 198.51.100.1:65535"], "198.51.100.1"),
        ("10.0.0.1", ["[2001:db8:1::7]:443"], "2001:db8:1::7"),
        ("10.0.0.1", ["[2001:db8:1::7]"], "2001:db8:1::7"),
        ("10.0.0.1", ["2001:db8:1::7"], "2001:db8:1::7"),
        ("10.0.0.1", ["198.51.100.1:5678, [2001:DB8::1]:80"], "198.51.100.1"),  # the last is trusted
        ("10.0.0.1", ["198.51.100.1:"], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1:5678:9"], "10.0.0.1"),
        ("10.0.0.1", ["[198.51.100.1"], "10.0.0.1"),
        ("10.0.0.1", ["[]:80"], "10.0.0.1"),
        ("::ffff:192.0.2.1", [], "192.0.2.1"),
        ("::ffff:10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("::ffff:10.0.0.1", ["::ffff:198.51.100.1, ::ffff:10.0.0.1"], "198.51.100.1"),
        ("", [], ""),
    ],
)
def test_only_headers_of_trusted_proxies_count(peer: str, forwarded: list[str], address: str) -> None:
    assert find_client_address(peer, forwarded, PROXIES) == address


def test_an_ipv6_network_of_64_bits_is_one_key() -> None:
    assert address_key("2001:db8:1:2::5") == address_key("2001:db8:1:2:ffff::9%eth0")
    assert address_key("2001:db8:1:2::5") != address_key("2001:db8:1:3::5")
    assert address_key("192.0.2.1") != address_key("192.0.2.2")
    assert address_key("") == ""
