"""A platform domain below another platform domain: the built-in name server refers to it; on a primary the
operator must delegate it.
"""

from collections.abc import Collection

import dns.flags
import dns.message
import dns.rcode
import pytest

from sublet.dns.answer import answer
from sublet.dns.query import read_query
from sublet.dns.types import Secondary
from sublet.doctor.notices import list_notices
from sublet.errors import Conflict
from sublet.platform_domains import store
from sublet.subdomains.edit_zone_settings import edit_zone_settings
from sublet.subdomains.view_zone import view_zones
from support.registry import OPERATOR, Registry

CHILD = "child.example.test"


def _answer(
    registry: Registry, name: str, rdtype: str, together: Collection[str] = ()
) -> dns.message.Message:
    views = registry.read(view_zones, together or [name])
    query = read_query(dns.message.make_query(name, rdtype).to_wire())
    return dns.message.from_wire(answer(query, views, over_tcp=True).wire)


@pytest.mark.parametrize("name", [CHILD, f"deep.shop.{CHILD}"])
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


def test_the_zone_above_answers_for_its_own_names(registry: Registry) -> None:
    registry.add_domain(CHILD, primary="main")
    assert _answer(registry, "nobody.example.test", "A").rcode() == dns.rcode.NXDOMAIN
    assert _answer(registry, "example.test", "SOA").answer
    nested = _answer(registry, f"shop.{CHILD}", "A")
    assert not nested.answer
    assert nested.authority
    registry.add_domain("alone.test", primary="main")
    assert _answer(registry, "shop.alone.test", "A").rcode() == dns.rcode.REFUSED
    above = _answer(registry, "example.test", "DS")
    assert [each.name.to_text() for each in above.authority] == ["example.test."]


@pytest.mark.parametrize("together", [[CHILD], [CHILD, f"shop.{CHILD}", "example.test"]])
def test_ds_of_a_nested_zone_is_answered_by_the_zone_above(registry: Registry, together: list[str]) -> None:
    """The zone above answers for DS records (RFC 4035, section 3.1.4.1), and the nested zone for the other
    records of its apex.
    """
    registry.add_domain(CHILD)
    found = _answer(registry, CHILD, "DS", together)
    assert (found.rcode(), found.flags & dns.flags.AA, found.answer) == (dns.rcode.NOERROR, dns.flags.AA, [])
    assert [each.name.to_text() for each in found.authority] == ["example.test."]
    assert [each.name.to_text() for each in _answer(registry, CHILD, "SOA", together).answer] == [f"{CHILD}."]
    assert [each.name.to_text() for each in _answer(registry, CHILD, "MX", together).authority] == [
        f"{CHILD}."
    ]


def test_ds_of_a_zone_below_a_zone_on_a_primary_is_answered_by_itself(registry: Registry) -> None:
    """The built-in name server doesn't serve the parent zone, and a zone above the parent could only refer to
    it.
    """
    registry.add_domain(CHILD, primary="main")
    registry.add_domain(f"deep.{CHILD}", force=True)
    found = _answer(registry, f"deep.{CHILD}", "DS")
    assert (found.rcode(), found.flags & dns.flags.AA, found.answer) == (dns.rcode.NOERROR, dns.flags.AA, [])
    assert [each.name.to_text() for each in found.authority] == [f"deep.{CHILD}."]


def test_a_zone_below_a_zone_on_a_primary_is_refused_until_it_is_delegated(registry: Registry) -> None:
    registry.move()
    secondary = Secondary(f"ns1.{CHILD}", "192.0.2.54", 53)

    def add(*, force: bool) -> None:
        registry.add_domain(CHILD, force=force, apex_nameservers=(secondary.host,), secondaries=(secondary,))

    with pytest.raises(Conflict) as refused:
        add(force=False)
    assert refused.value.message.splitlines()[1:] == [
        f"{CHILD}. 3600 IN NS ns1.{CHILD}.",
        f"ns1.{CHILD}. 3600 IN A 192.0.2.54",
    ]
    assert registry.read(store.find_platform_domain_by_name, CHILD) is None
    add(force=True)
    notices = [(each.notice, each.object_id) for each in registry.read(list_notices)]
    assert notices == [("zone_not_delegated", CHILD)]


def test_a_zone_on_a_primary_is_refused_above_a_zone_that_is_not_delegated(registry: Registry) -> None:
    registry.add_domain(f"deep.{CHILD}")
    with pytest.raises(Conflict, match=f"deep.{CHILD}"):
        registry.add_domain(CHILD, primary="main")
    registry.add_domain(CHILD)
    assert registry.read(list_notices) == []


def test_a_zone_with_a_nested_zone_moves_to_a_primary_only_by_force(registry: Registry) -> None:
    registry.add_domain(CHILD)
    registry.refused(Conflict, edit_zone_settings, OPERATOR, "example.test", {"primary": "main"})
    registry.write(edit_zone_settings, OPERATOR, "example.test", {"primary": "main"}, force=True)
    found = registry.read(store.find_platform_domain_by_name, "example.test")
    assert found is not None
    assert found.primary == "main"
