"""Changing a name's nameservers, glue and DS records (spec, part 4); on both databases."""

from sublet.credits.model import Outcome, Payable
from sublet.dns.types import Delegation, DsRecord
from sublet.errors import (
    NameserverRequired,
    RateLimited,
    ValidationFailed,
)
from sublet.platform_domains.platform_domain import edit_platform_domain
from sublet.subdomains.delete import delete
from sublet.subdomains.lifecycle import derive_status
from sublet.subdomains.list_store import list_all
from sublet.subdomains.model import SubdomainFilter, UpdateNameservers
from sublet.subdomains.restore import restore
from sublet.subdomains.retry import retry
from sublet.subdomains.suspend import state_before_suspension, suspend, unsuspend
from sublet.subdomains.update_nameservers import update_nameservers
from support.registry import FREE_QUOTA, OPERATOR, Registry
from support.shop import SHOP, change_nameservers, register_shop


def test_missing_fields_keep_their_value_and_glue_of_removed_hosts_is_dropped(registry: Registry) -> None:
    held = register_shop(registry)
    change_nameservers(registry, nameservers=("ns2.example.org", "ns1.example.org"))
    changed = registry.subdomain(held.id)
    assert changed.delegation.nameservers == ("ns2.example.org", "ns1.example.org")
    assert changed.delegation.glue == ()
    assert changed.delegation.ds_records == (DsRecord(2371, 13, 2, "0a" * 32),)
    assert changed.generation == 2
    with registry.refuses(ValidationFailed) as caught:
        change_nameservers(registry, nameservers=("-",), ds_records=("x",))
    assert [each.code for each in caught[0].errors] == ["nameserver_invalid", "ds_invalid"]
    with registry.refuses(ValidationFailed) as caught:
        change_nameservers(registry, nameservers=())
    assert [each.code for each in caught[0].errors] == ["ds_without_nameservers"]
    registry.write(edit_platform_domain, OPERATOR, "example.test", {"nameservers_min": 3})
    change_nameservers(registry, ds_records=())
    with registry.refuses(ValidationFailed) as caught:
        change_nameservers(registry, nameservers=("ns1.example.org",))
    assert [each.code for each in caught[0].errors] == ["too_few_nameservers"]
    change_nameservers(registry, nameservers=())
    assert registry.subdomain(held.id).delegation == Delegation()


def test_a_name_is_inactive_once_the_removal_of_its_delegation_is_confirmed(registry: Registry) -> None:
    registry.move()
    held = register_shop(registry)
    registry.publish()
    change_nameservers(registry, nameservers=(), ds_records=())

    def found() -> str:
        name = registry.subdomain(held.id)
        status = derive_status(name, registry.now)
        assert registry.read(list_all, SubdomainFilter(status=status), 10)
        assert status == state_before_suspension(name, registry.now)["status"]
        return status

    assert found() == "provisioning"
    registry.publish(error="refused")
    assert found() == "failed"
    caught = registry.refused(NameserverRequired, retry, registry.actor(), SHOP)
    assert "removal of an old delegation automatically" in caught.message
    registry.advance(minutes=1)
    assert registry.publish() == [held.id]  # without a request of the user
    assert found() == "inactive"
    # The same holds on the way back from the trash and from a suspension.
    registry.write(delete, registry.actor(), SHOP)
    registry.write(restore, registry.actor(), SHOP, Payable(), free_quota=FREE_QUOTA)
    assert found() == "provisioning"
    registry.write(suspend, OPERATOR, SHOP)
    registry.publish(error="refused")
    registry.write(unsuspend, OPERATOR, SHOP)
    assert found() == "provisioning"
    registry.publish()
    assert found() == "inactive"
    assert registry.doctor() == []


def test_the_same_delegation_again_changes_nothing(registry: Registry) -> None:
    held = register_shop(registry)
    registry.publish()
    before = registry.dump()
    assert change_nameservers(registry, nameservers=("NS1.example.org.", "ns1.shop.example.test")) == Outcome(
        held.id
    )
    assert change_nameservers(registry) == Outcome(held.id)
    assert registry.dump() == before


def test_the_same_delegation_after_a_failure_is_published_again(registry: Registry) -> None:
    registry.move()
    held = register_shop(registry)
    registry.publish(error="refused")
    change_nameservers(registry)
    found = registry.subdomain(held.id)
    assert (found.generation, found.provision_error, found.attempts) == (2, None, 0)
    assert found.next_attempt_at is None


def test_the_number_of_changes_in_a_day_is_limited(registry: Registry) -> None:
    register_shop(registry)
    registry.register("other.example.test")

    def put(identifier: str, number: int, name: str = "ann") -> Outcome:
        command = UpdateNameservers((f"ns{number}.example.org",), glue=())
        return registry.write(
            update_nameservers, registry.actor(name), identifier, command, changes_per_day=3
        )

    for number in range(3):
        put(SHOP, number)
        registry.advance(hours=1)
    with registry.refuses(RateLimited) as limited:
        put(SHOP, 3)
    assert limited[0].retry_after_seconds == 21 * 3600
    put(SHOP, 2)  # the same delegation is no change
    put("other.example.test", 3)  # the limit counts for each name
    registry.advance(hours=21)
    put(SHOP, 3)
    with registry.refuses(RateLimited) as again:
        put(SHOP, 4)
    assert again[0].retry_after_seconds == 3600
    registry.advance(days=-40)  # a clock that was set back: changes in the future aren't counted
    for number in range(4, 7):
        put(SHOP, number)
    with registry.refuses(RateLimited):
        put(SHOP, 7)
