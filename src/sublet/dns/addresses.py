"""Parse glue addresses into canonical text, and refuse addresses that are not public.

`ipaddress.is_global` isn't enough: it depends on the Python release, and is True for multicast, 6to4, and
NAT64 of private addresses. With such glue a resolver would query its own network.
"""

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from msgspec import Struct

from sublet.dns.names import shown

_IPV4_TEXT: Final = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")
_IPV6_TEXT: Final = re.compile(r"[0-9A-Fa-f:.]{2,45}")

_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_NAT64: Final = IPv6Network("64:ff9b::/96")


class InvalidAddress(ValueError):  # noqa: N818 - named like the classes in sublet.errors
    """The text is not an address of the required family; `str()` is a message for users."""


class SpecialBlock(Struct, frozen=True):
    """A block of IANA's special-purpose registries, a block that is not unicast, or a provider's block that
    only its own network reaches.
    """

    network: IPv4Network | IPv6Network
    meaning: str
    public: bool = False


def _block(network: str, meaning: str, *, public: bool = False) -> SpecialBlock:
    return SpecialBlock(ip_network(network), meaning, public)


SPECIAL_BLOCKS: Final = (
    # https://www.iana.org/assignments/iana-ipv4-special-registry
    _block("0.0.0.0/8", "this network, RFC 791"),
    _block("10.0.0.0/8", "private use, RFC 1918"),
    _block("100.64.0.0/10", "shared address space of carriers, RFC 6598"),
    _block("127.0.0.0/8", "loopback, RFC 1122"),
    _block("169.254.0.0/16", "link-local, RFC 3927"),
    _block("172.16.0.0/12", "private use, RFC 1918"),
    _block("192.0.0.0/24", "IETF protocol assignments, RFC 6890"),
    _block("192.0.0.9/32", "Port Control Protocol anycast, RFC 7723", public=True),
    _block("192.0.0.10/32", "TURN anycast, RFC 8155", public=True),
    _block("192.0.2.0/24", "documentation, RFC 5737"),
    _block("192.31.196.0/24", "AS112, RFC 7535", public=True),
    _block("192.52.193.0/24", "AMT, RFC 7450", public=True),
    _block("192.88.99.0/24", "6to4 relays, deprecated, RFC 7526"),
    _block("192.168.0.0/16", "private use, RFC 1918"),
    _block("192.175.48.0/24", "AS112, RFC 7534", public=True),
    _block("198.18.0.0/15", "benchmarking, RFC 2544"),
    _block("198.51.100.0/24", "documentation, RFC 5737"),
    _block("203.0.113.0/24", "documentation, RFC 5737"),
    _block("224.0.0.0/4", "multicast, RFC 5771"),
    _block("240.0.0.0/4", "reserved, RFC 1112"),
    _block("255.255.255.255/32", "limited broadcast, RFC 919"),
    # Addresses that providers assign inside their networks. They look public, but each network has its own
    # server there, or none.
    _block("35.199.192.0/19", "Google Cloud's own network"),
    _block("161.26.0.0/16", "IBM Cloud's own network"),
    _block("166.8.0.0/14", "IBM Cloud's own network"),
    _block("168.63.129.16/32", "the virtual address of Azure's own services"),
    _block("183.60.82.98/32", "the DNS server inside Tencent Cloud"),
    _block("183.60.83.19/32", "the DNS server inside Tencent Cloud"),
    _block("199.36.153.4/30", "the restricted address of Google's APIs"),
    _block("199.36.153.8/30", "the private address of Google's APIs"),
    # https://www.iana.org/assignments/iana-ipv6-special-registry
    _block("::/128", "unspecified, RFC 4291"),
    _block("::1/128", "loopback, RFC 4291"),
    _block("::ffff:0:0/96", "IPv4-mapped, RFC 4291"),
    _block("64:ff9b:1::/48", "local-use IPv4/IPv6 translation, RFC 8215"),
    _block("100::/64", "discard-only, RFC 6666"),
    _block("100:0:0:1::/64", "dummy prefix, RFC 9780"),
    _block("2001::/23", "IETF protocol assignments, RFC 2928"),
    _block("2001::/32", "Teredo, RFC 4380"),
    _block("2001:1::1/128", "Port Control Protocol anycast, RFC 7723", public=True),
    _block("2001:1::2/128", "TURN anycast, RFC 8155", public=True),
    _block("2001:1::3/128", "DNS-SD service registration anycast, RFC 9665", public=True),
    _block("2001:2::/48", "benchmarking, RFC 5180"),
    _block("2001:3::/32", "AMT, RFC 7450", public=True),
    _block("2001:4:112::/48", "AS112, RFC 7535", public=True),
    _block("2001:10::/28", "ORCHID, deprecated, RFC 4843"),
    # IANA lists these two blocks as Globally Reachable, but their addresses identify hosts and are not routed
    # (RFC 7343, RFC 9374). So no nameserver can answer at such an address.
    _block("2001:20::/28", "ORCHIDv2 identifiers, RFC 7343"),
    _block("2001:30::/28", "drone identifiers, RFC 9374"),
    _block("2001:db8::/32", "documentation, RFC 3849"),
    _block("2002::/16", "6to4, RFC 3056"),
    _block("2620:4f:8000::/48", "AS112, RFC 7534", public=True),
    _block("2600:2d00:2:1000::/64", "the restricted address of Google's APIs"),
    _block("2600:2d00:2:2000::/64", "the private address of Google's APIs"),
    _block("3fff::/20", "documentation, RFC 9637"),
    _block("5f00::/16", "segment routing identifiers, RFC 9602"),
    _block("fc00::/7", "unique local, RFC 4193"),
    _block("fe80::/10", "link-local, RFC 4291"),
    _block("fec0::/10", "site-local, deprecated, RFC 3879"),
    _block("ff00::/8", "multicast, RFC 4291"),
)
"""Blocks with a special meaning. `public` is True if all resolvers can reach an address in the block."""

_BY_VERSION: Final = {
    version: tuple(
        (int(block.network.network_address), int(block.network.netmask), block)
        for block in sorted(SPECIAL_BLOCKS, key=lambda block: -block.network.prefixlen)
        if block.network.version == version
    )
    for version in (4, 6)
}
"""The blocks with their first address and netmask, the most specific first. Comparing integers is ten times
as fast as `in`.
"""


def parse_ipv4(text: str) -> str:
    """Return the IPv4 address in canonical text: four decimal numbers.

    Raises:
        InvalidAddress: the text is something else, or has leading zeros, whitespace, a port or a prefix
            length.
    """
    try:
        address = IPv4Address(text)  # refuses leading zeros and numbers over 255
    except ValueError:
        address = None
    if address is None or not _IPV4_TEXT.fullmatch(text):
        raise InvalidAddress(
            f"`{shown(text)}` is not an IPv4 address. Give four numbers from 0 to 255 with dots, without "
            "leading zeros."
        )
    return str(address)


def parse_ipv6(text: str) -> str:
    """Return the IPv6 address in canonical text (RFC 5952).

    Raises:
        InvalidAddress: the text is something else, or has a zone id (`%eth0`), brackets, whitespace or a
            prefix length.
    """
    if "%" in text:
        raise InvalidAddress(
            f"`{shown(text)}` has a zone id, which is only valid on one machine. Give a public address."
        )
    try:
        address = IPv6Address(text)
    except ValueError:
        address = None
    if address is None or not _IPV6_TEXT.fullmatch(text):
        raise InvalidAddress(
            f"`{shown(text)}` is not an IPv6 address. Give one such as 2001:4860:4860::8888, without "
            "brackets."
        )
    return str(address)


@lru_cache(maxsize=256)
def address_record_type(address: str) -> str:
    """Return the type of the record that has this address: `A` or `AAAA`."""
    return "A" if ip_address(address).version == 4 else "AAAA"


def not_public_reason(address: str) -> str | None:
    """Return why a canonical address is not public, as a message for users; None if the address is public.

    The blocks of `SPECIAL_BLOCKS` without `public` are not public, and neither are IPv6 addresses outside
    2000::/3. In 64:ff9b::/96 the embedded IPv4 address decides (RFC 6052, section 3.1). Not checked: that the
    address is announced, or that a nameserver answers there.
    """
    parsed = ip_address(address)
    if isinstance(parsed, IPv6Address) and parsed in _NAT64:
        reason = not_public_reason(str(IPv4Address(int(parsed) & 0xFFFF_FFFF)))
        return None if reason is None else f"{address} contains an IPv4 address, and {reason}"
    number = int(parsed)
    for first, mask, block in _BY_VERSION[parsed.version]:
        if number & mask == first:
            if block.public:
                return None
            return (
                f"{address} is in {block.network} ({block.meaning}), which can't be reached from "
                "everywhere. Give a public address."
            )
    if isinstance(parsed, IPv6Address) and parsed not in _GLOBAL_UNICAST:
        return (
            f"{address} is outside {_GLOBAL_UNICAST}, the only public IPv6 addresses. Give a public address."
        )
    return None
