"""Find the address of a client, also behind trusted proxies, and the rate limit keys of an address and its
network.
"""

import ipaddress
import re
from functools import lru_cache

CACHE_SIZE = 4096
NETWORK_BITS = {4: 24, 6: 48}
"""The prefix length of a network, by IP version. RFC 6177 gives an IPv6 site a /48 to a /64."""


_HOP = re.compile(r"\[(?P<ipv6>[^\]]*)\](:[0-9]+)?|(?P<ipv4>[0-9.]+)(:[0-9]+)?|(?P<other>.*)")
"""An element of `X-Forwarded-For`. Some proxies append the port of the connection, and write an IPv6 address
in brackets then.
"""


def parse_trusted_proxies(text: str) -> frozenset[str]:
    """Return the addresses of the setting `trusted_proxies`, in canonical form."""
    return frozenset(str(ipaddress.ip_address(part.strip())) for part in text.split(",") if part.strip())


def find_client_address(peer: str, forwarded_for: list[str], trusted: frozenset[str]) -> str:
    """Return the address of the client.

    `peer` is the other end of the connection, `forwarded_for` has the `X-Forwarded-For` headers.

    A trusted proxy appends the address that it sees, with or without its port, so the last address that isn't
    a trusted proxy counts. A client can invent earlier addresses. The header of an untrusted peer is ignored.
    """
    if peer not in trusted:
        return peer
    hops = [hop.strip() for line in forwarded_for for hop in line.split(",")]
    for hop in reversed(hops):
        try:
            address = str(ipaddress.ip_address(_without_port(hop)))
        except ValueError:
            return peer
        if address not in trusted:
            return address
        peer = address
    return peer


def _without_port(hop: str) -> str:
    found = _HOP.fullmatch(hop)
    return next(each for each in found.group("ipv6", "ipv4", "other") if each is not None) if found else hop


@lru_cache(CACHE_SIZE)
def address_key(address: str) -> str:
    """Return the rate limit key of an address: an IPv4 address, or the /64 of an IPv6 address, because a
    customer has a whole /64.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


@lru_cache(CACHE_SIZE)
def network_key(address: str) -> str | None:
    """Return the rate limit key of an address's network; None for loopback, and for a text that isn't an
    address.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    if parsed.is_loopback:
        return None
    return str(ipaddress.ip_network((parsed, NETWORK_BITS[parsed.version]), strict=False))
