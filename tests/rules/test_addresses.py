# ruff: noqa: RUF001, S104, SIM905 - look-alikes and long lists of names are what is tested
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublet.dns.addresses import SPECIAL_BLOCKS, InvalidAddress, not_public_reason, parse_ipv4, parse_ipv6

# The blocks in IANA's registries whose Globally Reachable is not "True", each with an address from its
# middle, and multicast. The list is independent of the table in the code, so that a missing line there fails
# the test.
NOT_PUBLIC = """
    0.0.0.0 0.0.0.1 0.255.255.255 10.0.0.0 10.1.2.3 10.255.255.255 100.64.0.0 100.100.100.100 100.127.255.255
    127.0.0.1 127.255.255.255 169.254.0.1 169.254.169.254 172.16.0.0 172.20.1.1 172.31.255.255
    192.0.0.0 192.0.0.1 192.0.0.7 192.0.0.8 192.0.0.11 192.0.0.170 192.0.0.171 192.0.0.255
    192.0.2.0 192.0.2.1 192.0.2.255 192.88.99.0 192.88.99.1 192.88.99.2 192.168.0.1 192.168.255.255
    198.18.0.0 198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1 232.1.2.3 239.255.255.255 240.0.0.0 250.1.2.3
    255.255.255.254 255.255.255.255
    35.199.192.0 35.199.223.255 161.26.0.0 161.26.0.10 166.8.0.0 166.9.14.5 166.11.255.255 168.63.129.16 183.60.82.98 183.60.83.19
    199.36.153.4 199.36.153.11 64:ff9b::168.63.129.16 2600:2d00:2:1000::1 2600:2d00:2:2000::1
    :: ::1 ::2 ::8.8.8.8 ::ffff:8.8.8.8 ::ffff:10.0.0.1 ::ffff:0:8.8.8.8
    64:ff9b::10.0.0.1 64:ff9b::127.0.0.1 64:ff9b::192.0.2.1 64:ff9b::224.0.0.1 64:ff9b:0:1::808:808 64:ff9b:1::1 64:ff9b:1::8.8.8.8
    64:ff9b:2::1 100::1 100::ffff:ffff:ffff:ffff 100:0:0:1::1 100:0:0:2::1 200::1 400::1 1000::1 1fff::1
    2001::1 2001:0:ffff::1 2001:1:: 2001:1::4 2001:1:1::1 2001:2::1 2001:2:0:ffff::1 2001:2:1::1 2001:4::1 2001:4:113::1 2001:5::1
    2001:10::1 2001:1f:ffff::1 2001:20::1 2001:2f::1 2001:30::1 2001:3f:ffff::1 2001:40::1 2001:1ff:ffff::1
    2001:db8::1 2001:db8:ffff:ffff::1 2002::1 2002:0808:0808::1 2002:0a00:0001::1 2002:ffff::1
    3fff::1 3fff:fff:ffff::1 4000::1 5f00::1 5f00:ffff::1 8000::1 fc00::1 fd12:3456::1 fdff::1 fe00::1
    fe80::1 febf::1 fec0::1 feff::1 ff00::1 ff02::1 ff0e::1 ff3e:30:2001:db8::1 ffff::1
""".split()  # noqa: E501

PUBLIC = """
    1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1 169.253.255.255 169.255.0.0
    172.15.255.255 172.32.0.0 192.0.0.9 192.0.0.10 192.0.1.0 192.0.3.0 192.31.196.1 192.52.193.1 192.88.98.1 192.88.100.1
    192.167.255.255 192.169.0.0 192.175.48.1 193.0.14.129 198.17.255.255 198.20.0.0 198.41.0.4 198.51.99.1 198.51.101.1
    203.0.112.1 203.0.114.1 223.255.255.255 35.199.191.255 35.199.224.0 161.25.255.255 161.27.0.0 166.7.255.255 166.12.0.0
    168.63.129.15 168.63.129.17 199.36.153.3 199.36.153.12 2600:2d00:2:1001::1 2600:2d00:2:1fff::1
    64:ff9b::8.8.8.8 64:ff9b::1.1.1.1 2000::1 2001:1::1 2001:1::2 2001:1::3 2001:3::1 2001:4:112::1 2001:200::1 2001:500:2::c
    2001:db7:ffff::1 2001:db9::1 2001:7fd::1 2003::1 2606:4700::1111 2620:4f:8000::1 2a00:1450::1 3ffe:ffff::1 3fff:1000::1
""".split()  # noqa: E501


def test_public_and_other_addresses() -> None:
    for address in (*PUBLIC, *NOT_PUBLIC):
        parsed = parse_ipv6(address) if ":" in address else parse_ipv4(address)
        reason = not_public_reason(parsed)
        assert (reason is None) == (address in PUBLIC), address
        assert reason is None or parsed in reason


@given(st.sampled_from([block for block in SPECIAL_BLOCKS if not block.public]), st.data())
def test_addresses_of_special_blocks_are_not_public_except_in_their_public_parts(
    block: object, data: st.DataObject
) -> None:
    network = block.network  # type: ignore[attr-defined]
    offset = data.draw(st.integers(0, network.num_addresses - 1))
    address = network.network_address + offset
    nested = any(
        part.public and address.version == part.network.version and address in part.network
        for part in SPECIAL_BLOCKS
    )
    assert (not_public_reason(str(address)) is None) == nested


WELL_FORMED = {
    "0.0.0.0": "0.0.0.0",
    "255.255.255.255": "255.255.255.255",
    "2001:0DB8:0000:0000:0000:0000:0000:0001": "2001:db8::1",
    "2001:db8:0:1:1:1:1:1": "2001:db8:0:1:1:1:1:1",
    "2001:db8:0:0:1:0:0:1": "2001:db8::1:0:0:1",
    "::": "::",
    "64:ff9b::8.8.8.8": "64:ff9b::808:808",
}
NO_IPV4 = """
    1 1.2.3 1.2.3.4.5 256.1.1.1 01.2.3.4 0x1.2.3.4 1.2.3.4/32 1.2.3.4:53 1.2.3.-4 +1.2.3.4 1.2.3. 16909060
    1.2.3.4. ::ffff:1.2.3.4 １.2.3.4 1.2.3.٤ ns1.example.com 1.2.3.4%eth0
""".split()
NO_IPV6 = """
    : ::: 1.2.3.4 2001:db8 2001:db8::1::2 2001:db8::12345 1:2:3:4:5:6:7:8:9 2001:db8::g fe80::1%eth0
    2001:db8::1/64 [2001:db8::1] 64:ff9b::08.8.8.8 64:ff9b::8.8.8 ２001:db8::1
    42540766411282592856903984951653826561
""".split()
ENDS = ["", " ", "\n", "\0", "\ud800", "1" * 100_000]


@pytest.mark.parametrize(("text", "address"), WELL_FORMED.items())
def test_an_address_has_one_form(text: str, address: str) -> None:
    assert (parse_ipv6 if ":" in text else parse_ipv4)(text) == address
    for end in ENDS[1:]:
        with pytest.raises(InvalidAddress):
            (parse_ipv6 if ":" in text else parse_ipv4)(text + end)


@pytest.mark.parametrize(
    ("parse", "texts"), [(parse_ipv4, (*NO_IPV4, *ENDS)), (parse_ipv6, (*NO_IPV6, *ENDS))]
)
def test_other_texts_are_refused(parse: Callable[[str], str], texts: Sequence[str]) -> None:
    for text in texts:
        with pytest.raises(InvalidAddress) as refused:
            parse(text)
        assert str(refused.value).isprintable()
        str(refused.value).encode()
