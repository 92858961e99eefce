"""Changing platform domains, offers and labels as the operator."""

from pathlib import Path

import pytest

from sublet.dns.types import Record
from sublet.errors import PlatformDomainNotFound, SubdomainUnavailable
from sublet.platform_domains.labels import set_label, unset_label
from sublet.platform_domains.offers import offer_mode, withdraw_offer
from sublet.platform_domains.platform_domain import (
    add_platform_domain,
    edit_platform_domain,
    grant_platform_domain,
    revoke_platform_domain,
)
from sublet.platform_domains.zone_store import list_zone_records
from sublet.subdomains.store import list_unreleased_names
from support.operator_registry import Registry, small_registry

DOMAIN = "example.test"


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return small_registry(tmp_path)


ZONE_FILE = """
$TTL 7200
@ 300 IN SOA a.ns.other.test. Host.other.test. 42 1 2 3 4
@ NS b.ns.other.test.
@ NS a.ns.other.test.
@ MX 10 Mail
www A 192.0.2.1
www AAAA 2001:db8::1
_sip._tcp SRV 0 5 5060 sip
*.wild TXT "two words" "and a \\"quote\\""
child NS ns.child
ns.child 60 A 192.0.2.53
"""


def test_an_adopted_zone_gives_its_settings_and_keeps_its_records(registry: Registry) -> None:
    said = {"retry_seconds": 77}
    added = registry.do(
        add_platform_domain, "Old.test.", said, names_held=list_unreleased_names, zone_file=ZONE_FILE
    )
    domain = added.platform_domain
    assert domain.domain == "old.test"
    assert domain.apex_nameservers == ("a.ns.other.test", "b.ns.other.test")
    assert (domain.soa_mname, domain.soa_rname, domain.serial) == ("a.ns.other.test", "host.other.test", 42)
    assert (domain.refresh_seconds, domain.retry_seconds, domain.expire_seconds) == (1, 77, 3)
    assert (domain.negative_ttl_seconds, domain.apex_ttl_seconds) == (4, 7200)
    records = registry.read(list_zone_records, domain.id)
    assert added.adopted_records == len(records) == 7
    assert set(records) == {
        Record("old.test", "MX", 7200, "10 Mail.old.test."),
        Record("www.old.test", "A", 7200, "192.0.2.1"),
        Record("www.old.test", "AAAA", 7200, "2001:db8::1"),
        Record("_sip._tcp.old.test", "SRV", 7200, "0 5 5060 sip.old.test."),
        Record("*.wild.old.test", "TXT", 7200, '"two words" "and a \\"quote\\""'),
        Record("child.old.test", "NS", 7200, "ns.child.old.test."),
        Record("ns.child.old.test", "A", 60, "192.0.2.53"),
    }
    with pytest.raises(SubdomainUnavailable) as raised:
        registry.register(1, "child.old.test")
    assert raised.value.details["reason"] == "taken"


def test_a_change_of_the_apex_gives_the_zone_a_new_serial(registry: Registry) -> None:
    edited = registry.do(edit_platform_domain, DOMAIN, {"grace_days": 1})
    assert (edited.grace_days, edited.serial) == (1, 1)
    changed = {"apex_nameservers": ("NS.example.net.", "ns2.example.net")}
    edited = registry.do(edit_platform_domain, DOMAIN, changed)
    assert (edited.apex_nameservers, edited.serial) == (("ns.example.net", "ns2.example.net"), 2)
    for serial in (2**31, 2**32 - 1):
        registry.do(edit_platform_domain, DOMAIN, {"serial": serial})
    assert registry.do(edit_platform_domain, DOMAIN, {"refresh_seconds": 5}).serial == 1


def test_an_offer_keeps_terms_that_are_not_given_and_can_be_withdrawn_and_offered_again(
    registry: Registry,
) -> None:
    first = registry.do(offer_mode, DOMAIN, "premium", price_credits=50)
    assert (first.renewal_price_credits, first.period_days) == (50, 365)
    second = registry.do(offer_mode, DOMAIN, "premium", renewal_price_credits=20, period_days=30)
    assert (second.price_credits, second.renewal_price_credits, second.period_days) == (50, 20, 30)
    assert registry.do(withdraw_offer, DOMAIN, "premium").withdrawn_at == registry.now
    again = registry.do(offer_mode, DOMAIN, "premium")
    assert (again.price_credits, again.renewal_price_credits, again.withdrawn_at) == (50, 20, None)
    count = len(registry.events())
    assert registry.do(offer_mode, DOMAIN, "premium", price_credits=50) == again
    assert len(registry.events()) == count
    assert registry.do(offer_mode, "1", "free").price_credits == 0


def test_only_granted_organizations_may_register_a_special_label(registry: Registry) -> None:
    registry.do(offer_mode, DOMAIN, "special", price_credits=5)
    listed = registry.do(set_label, DOMAIN, "Müller", "special", price_credits=0, organizations=["acme", "2"])
    assert (listed.label, listed.organization_ids) == ("xn--mller-kva", (2,))
    with pytest.raises(SubdomainUnavailable):
        registry.register(1, "müller.example.test")
    registry.register(2, "müller.example.test")
    assert registry.do(unset_label, DOMAIN, "MÜLLER") == listed
    assert registry.events()[-1]["before"]["label_class"] == "special"


def test_only_granted_organizations_see_a_restricted_platform_domain(registry: Registry) -> None:
    registry.do(edit_platform_domain, DOMAIN, {"restricted": True})
    with pytest.raises(PlatformDomainNotFound):
        registry.register(2, "bob.example.test")
    assert registry.do(grant_platform_domain, DOMAIN, "acme").changed
    count = len(registry.events())
    assert not registry.do(grant_platform_domain, DOMAIN, "Acme").changed
    assert len(registry.events()) == count
    registry.register(2, "bob.example.test")
    registry.do(revoke_platform_domain, DOMAIN, "2")
    with pytest.raises(PlatformDomainNotFound):
        registry.register(2, "bob2.example.test")
