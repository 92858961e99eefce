"""A platform domain on a primary of its own, below one on the built-in name server: that one refers to it."""

import dns.flags
import dns.message
import dns.rcode
import pytest

from sublet.dns.answer import answer
from sublet.dns.query import read_query
from sublet.dns.types import Secondary
from sublet.subdomains.view_zone import view_zones
from support.registry import Registry

CHILD = "child.example.test"


def _answer(registry: Registry, name: str, rdtype: str) -> dns.message.Message:
    views = registry.read(view_zones, [name])
    query = read_query(dns.message.make_query(name, rdtype).to_wire())
    return dns.message.from_wire(answer(query, views.get(name), over_tcp=True).wire)


@pytest.mark.parametrize("name", [CHILD, f"shop.{CHILD}", f"deep.shop.{CHILD}"])
def test_names_of_the_child_are_referred_to_its_nameservers(registry: Registry, name: str) -> None:
    registry.add_domain(
        CHILD,
        primary="main",
        apex_nameservers=(f"ns1.{CHILD}", "ns.elsewhere.example"),
        secondaries=(
            Secondary(f"ns1.{CHILD}", "192.0.2.54", 53),
            Secondary("watched.example", "192.0.2.55", 53),
        ),
    )
    found = _answer(registry, name, "A")
    assert found.rcode() == dns.rcode.NOERROR
    assert not found.flags & dns.flags.AA
    (nameservers,) = found.authority
    assert sorted(str(nameservers).splitlines()) == [
        f"{CHILD}. 3600 IN NS ns.elsewhere.example.",
        f"{CHILD}. 3600 IN NS ns1.{CHILD}.",
    ]
    assert [str(each) for each in found.additional] == [f"ns1.{CHILD}. 3600 IN A 192.0.2.54"]


def test_the_parent_goes_on_answering_for_what_is_its_own(registry: Registry) -> None:
    registry.add_domain(CHILD, primary="main")
    assert _answer(registry, "nobody.example.test", "A").rcode() == dns.rcode.NXDOMAIN
    assert _answer(registry, "example.test", "SOA").answer
    nested = _answer(registry, f"shop.{CHILD}", "A")
    assert not nested.answer
    assert nested.authority


def test_a_zone_alone_on_a_primary_is_refused(registry: Registry) -> None:
    registry.add_domain("alone.test", primary="main")
    assert _answer(registry, "shop.alone.test", "A").rcode() == dns.rcode.REFUSED
