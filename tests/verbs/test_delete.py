"""Deleting a name, which moves it to the trash (spec, part 3, rule 1); on both databases."""

from sublet.credits.model import Outcome, Payable
from sublet.errors import Conflict, NotFound
from sublet.subdomains.delete import delete, operator_delete
from sublet.subdomains.lifecycle import derive_status
from sublet.subdomains.purge import purge
from sublet.subdomains.restore import restore
from sublet.subdomains.suspend import suspend
from support.registry import FREE_QUOTA, OPERATOR, START, Registry
from support.shop import SHOP, register_shop


def test_a_deleted_name_leaves_the_zone_and_is_restored_unchanged(registry: Registry) -> None:
    held = register_shop(registry)
    registry.publish()
    bare = registry.register("bare.example.test")
    registry.write(delete, registry.actor(), bare.fqdn)
    assert registry.publish() == []
    assert registry.write(delete, registry.actor(), str(held.id)) == Outcome(held.id)
    trashed = registry.subdomain(held.id)
    assert (trashed.trashed_at, trashed.generation, trashed.delegation) == (START, 2, held.delegation)
    registry.publish()
    registry.advance(days=29)
    assert registry.write(restore, registry.actor(), SHOP, Payable(), free_quota=FREE_QUOTA) == Outcome(
        held.id
    )
    back = registry.subdomain(held.id)
    assert (back.trashed_at, back.delegation, back.expires_at) == (None, held.delegation, held.expires_at)
    registry.publish()
    assert derive_status(registry.subdomain(held.id), registry.now) == "active"
    assert registry.doctor() == []


def test_the_operator_deletes_any_name_even_a_suspended_one(registry: Registry) -> None:
    held = registry.register(SHOP, nameservers=("ns1.example.org",))
    registry.write(suspend, OPERATOR, SHOP, "phishing")
    deleted = registry.write(operator_delete, OPERATOR, SHOP.upper())
    assert (deleted.trashed_at, deleted.suspended_reason) == (START, "phishing")
    registry.refused(Conflict, operator_delete, OPERATOR, SHOP)
    registry.write(purge, OPERATOR, SHOP)
    registry.refused(Conflict, operator_delete, OPERATOR, str(held.id))
    registry.refused(NotFound, operator_delete, OPERATOR, "other.example.test")
    assert registry.doctor() == []
