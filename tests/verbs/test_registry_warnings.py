"""The warning `parent_not_signed` about DS records in unsigned zones; on both databases."""

import pytest

from sublet.dns.types import Record
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_store
from sublet.platform_domains.zone_store import is_zone_signed
from sublet.primaries.check_zone import check_zone
from sublet.primaries.repair_zone import begin_repair
from sublet.subdomains.model import Subdomain
from sublet.subdomains.nameservers import registry_warnings
from support.registry import OPERATOR, Registry

ZONE = "example.test"
NS = ("ns1.provider.example", "ns2.provider.example")
DS = "2371 13 2 1f987cc6583e92df0890718c42a1d3b1a1f4b4a6b2d8a1dd09a4c1d7f4d3e5a6"
SOA = Record(ZONE, "SOA", 3600, f"ns1.{ZONE}. hostmaster.{ZONE}. 5 3600 900 604800 300")
KEY = Record(ZONE, "DNSKEY", 3600, "257 3 13 AAAA")
ELSEWHERE = Record(f"office.{ZONE}", "DNSKEY", 3600, "257 3 13 AAAA")
ROLLED = Record(ZONE, "DNSKEY", 3600, "257 3 13 BBBB")


@pytest.fixture
def signed_name(registry: Registry) -> Subdomain:
    """Return a name with a DS record, in a zone on a primary."""
    registry.move()
    return registry.register(f"shop.{ZONE}", nameservers=NS, ds_records=(DS,))


def edit(registry: Registry, **values: object) -> None:
    domain_id = registry.domains[ZONE]
    registry.write(lambda tx: platform_domain_store.update_platform_domain(tx, domain_id, **values))


def check(registry: Registry, *live: Record) -> None:
    """Check a zone with these records, like the drift repair."""
    domain_id = registry.domains[ZONE]
    domain = registry.read(platform_domain_store.find_platform_domain, domain_id)
    assert domain is not None
    found = registry.read(
        check_zone, domain, iter([SOA, *live]), transfer_began_at=registry.now, rebuilt=False
    )
    registry.write(begin_repair, OPERATOR, domain_id, "main", found.repairs)


def warned(registry: Registry, subdomain: Subdomain) -> bool:
    found = registry.read(registry_warnings, subdomain)
    assert all(each.startswith(f"parent_not_signed: The zone {ZONE} is not signed") for each in found)
    return bool(found)


def test_the_built_in_name_server_never_signs(registry: Registry) -> None:
    with_ds = registry.register(f"shop.{ZONE}", nameservers=NS, ds_records=(DS,))
    without = registry.register(f"blog.{ZONE}", nameservers=NS)
    assert (warned(registry, with_ds), warned(registry, without)) == (True, False)
    edit(registry, dnssec_signed=True)
    assert warned(registry, with_ds)


def test_a_zone_on_a_primary_is_signed_if_the_last_check_says_so(
    registry: Registry, signed_name: Subdomain
) -> None:
    """Before the first check it is unknown, and there is no warning."""
    domain_id = registry.domains[ZONE]
    assert registry.read(is_zone_signed, domain_id) is None
    assert not warned(registry, signed_name)
    for live, keys in (
        ((), ()),
        ((KEY, ROLLED), (KEY, ROLLED)),
        ((ROLLED,), (ROLLED,)),
        ((ELSEWHERE,), ()),
    ):
        check(registry, *live)
        assert registry.read(zone_store.find_apex_dnskeys, domain_id, ZONE) == keys
        assert warned(registry, signed_name) == (not keys)
        assert registry.read(is_zone_signed, domain_id) == bool(keys)


def test_the_operator_s_setting_overrides_the_check(registry: Registry, signed_name: Subdomain) -> None:
    """The setting is needed if another server behind the primary signs the zone."""
    check(registry)
    edit(registry, dnssec_signed=True)
    assert not warned(registry, signed_name)
