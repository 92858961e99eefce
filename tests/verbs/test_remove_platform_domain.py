"""Removing a platform domain: what prevents it, what is deleted, and adding it again; on both databases."""

from typing import Any

from sublet.credits.store import list_coupons
from sublet.dns.types import Record
from sublet.errors import Conflict, NotFound, PlatformDomainNotFound
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_store
from sublet.platform_domains.labels import block_labels, set_label
from sublet.platform_domains.platform_domain import (
    add_platform_domain,
    edit_platform_domain,
    find_platform_domain,
)
from sublet.subdomains.delete import delete
from sublet.subdomains.end_platform_domain import remove_platform_domain
from sublet.subdomains.find import find_for_operator
from sublet.subdomains.model import Register
from sublet.subdomains.purge import purge
from sublet.subdomains.register import register
from sublet.subdomains.store import list_unreleased_names
from sublet.subdomains.view_zone import view_zones
from support.registry import OPERATOR, Registry

ZONE, SHOP = "example.test", "shop.example.test"


def remove(registry: Registry, **options: Any) -> None:
    registry.write(remove_platform_domain, OPERATOR, ZONE, **options)


def shut(registry: Registry, domain: str = ZONE) -> None:
    registry.write(edit_platform_domain, OPERATOR, domain, {"registration_open": False})


def release(registry: Registry, fqdn: str, name: str = "ann") -> None:
    registry.write(delete, registry.actor(name), fqdn)
    registry.write(purge, OPERATOR, fqdn, release=True)


def test_its_settings_are_deleted_and_its_history_stays(registry: Registry) -> None:
    held = registry.register(SHOP, registration_mode="plus", nameservers=("ns1.example.org",))
    release(registry, SHOP)
    domain_id = registry.domains[ZONE]
    registry.write(set_label, OPERATOR, ZONE, "gold", "premium")
    registry.write(block_labels, OPERATOR, "bank*", ZONE)
    registry.add_coupon("HERE", percent=10, domain=ZONE)
    adopted = Record(f"www.{ZONE}", "A", 300, "192.0.2.1")
    registry.write(lambda tx: zone_store.insert_records(tx, domain_id, [adopted]))
    balance = registry.balance()
    shut(registry)
    remove(registry)
    assert registry.read(platform_domain_store.list_platform_domains) == []
    assert registry.read(view_zones, [ZONE, f"www.{ZONE}"]) == {}
    assert registry.read(platform_domain_store.list_offers, domain_id) == []
    assert registry.read(zone_store.list_zone_records, domain_id) == []
    assert registry.read(list_coupons)[0].retired_at == registry.now
    with registry.refuses(NotFound):
        registry.read(find_platform_domain, ZONE)
    with registry.refuses(NotFound):
        registry.read(find_platform_domain, str(domain_id))
    for command in (Register(fqdn=SHOP), Register(platform_domain_id=domain_id, label="shop")):
        registry.refused(PlatformDomainNotFound, register, registry.actor(), command, free_quota=5)
    assert registry.read(find_for_operator, str(held.id)).fqdn == SHOP
    assert registry.balance() == balance
    assert registry.doctor() == []
    with registry.refuses(NotFound):
        remove(registry)


def test_the_same_domain_is_added_again(registry: Registry) -> None:
    held = registry.register(SHOP, nameservers=("ns1.example.org",))
    registry.write(edit_platform_domain, OPERATOR, ZONE, {"serial": 500, "grace_days": 3})
    release(registry, SHOP)
    shut(registry)
    remove(registry)
    registry.advance(days=1)
    added = registry.write(add_platform_domain, OPERATOR, ZONE, {}, names_held=list_unreleased_names)
    assert added.platform_domain.id == registry.domains[ZONE]
    assert (added.platform_domain.serial, added.platform_domain.grace_days) == (500, 30)
    assert added.platform_domain.registration_open
    again = registry.register(SHOP)
    assert again.id > held.id
    assert registry.doctor() == []


def test_an_open_or_unknown_platform_domain_is_not_removed(registry: Registry) -> None:
    with registry.refuses(Conflict) as caught:
        remove(registry)
    assert f"Run `sublet domain edit {ZONE} --closed` first." in caught[0].message
    registry.refused(NotFound, remove_platform_domain, OPERATOR, "no.test")


def test_names_that_are_not_released_prevent_the_removal(registry: Registry) -> None:
    registry.register(SHOP)
    registry.register("bin.example.test", "ben")
    registry.register("cool.example.test", "ben")
    for name in ("bin", "cool"):
        registry.write(delete, registry.actor("ben"), f"{name}.{ZONE}")
    registry.write(purge, OPERATOR, f"cool.{ZONE}")
    shut(registry)
    with registry.refuses(Conflict) as caught:
        remove(registry)
    assert "It has 1 live name:" in caught[0].message
    assert "It has 1 name in the trash and 1 cooling off:" in caught[0].message


def test_other_zones_prevent_the_removal(registry: Registry) -> None:
    registry.add_domain("other.test", apex_nameservers=(f"ns2.{ZONE}",))
    registry.add_domain(f"below.{ZONE}")
    shut(registry)
    with registry.refuses(Conflict) as caught:
        remove(registry)
    assert f"The platform domains below.{ZONE} are below it: remove them first." in caught[0].message
    assert "Nameservers of other.test are inside it" in caught[0].message


def test_dependent_names_elsewhere_prevent_the_removal(registry: Registry) -> None:
    registry.add_domain("other.test")
    registry.register("shop.other.test", nameservers=(f"ns1.{ZONE}",))
    shut(registry)
    with registry.refuses(Conflict) as caught:
        remove(registry)
    assert "Names under other platform domains have nameservers at or below it" in caught[0].message
    remove(registry, force=True)
