"""Changing a name's nameservers, glue and DS records (spec, part 4); on both databases."""

from dataclasses import replace

from sublet.credits.model import Outcome, Payable
from sublet.dns.types import Delegation, DsRecord, GlueEntry
from sublet.errors import (
    NameserverRequired,
    RateLimited,
    ValidationFailed,
)
from sublet.subdomains.delete import delete
from sublet.subdomains.lifecycle import allowed_actions, derive_status
from sublet.subdomains.list_store import list_all
from sublet.subdomains.model import SubdomainFilter, UpdateNameservers
from sublet.subdomains.restore import restore
from sublet.subdomains.retry import retry
from sublet.subdomains.suspend import state_before_suspension, suspend, unsuspend
from sublet.subdomains.update_nameservers import update_nameservers
from support.registry import FREE_QUOTA, OPERATOR, Registry
from support.shop import GLUE, SHOP, change_nameservers, register_shop


def test_missing_fields_keep_their_value_and_glue_of_removed_hosts_is_dropped(registry: Registry) -> None:
    held = register_shop(registry)
    change_nameservers(registry, nameservers=("ns2.example.org", "ns1.example.org"))
    changed = registry.subdomain(held.id)
    assert changed.delegation.nameservers == ("ns2.example.org", "ns1.example.org")
    assert changed.delegation.glue == ()
    assert changed.delegation.ds_records == (DsRecord(2371, 13, 2, "0a" * 32),)
    assert changed.generation == 2


def test_each_field_can_change_alone(registry: Registry) -> None:
    held = register_shop(registry)
    change_nameservers(registry, glue=(replace(GLUE, ipv4=None, ipv6="2a00::1"),))
    assert registry.subdomain(held.id).delegation.glue == (GlueEntry(GLUE.host, None, "2a00::1"),)
    change_nameservers(registry, ds_records=())
    found = registry.subdomain(held.id)
    assert (found.delegation.ds_records, len(found.delegation.nameservers), found.generation) == ((), 2, 3)


def test_clearing_the_nameservers_needs_the_ds_records_cleared_too(registry: Registry) -> None:
    held = register_shop(registry)
    with registry.refuses(ValidationFailed) as caught:
        change_nameservers(registry, nameservers=())
    assert [each.code for each in caught[0].errors] == ["ds_without_nameservers"]
    change_nameservers(registry, nameservers=(), ds_records=())
    assert registry.subdomain(held.id).delegation == Delegation()


def test_a_name_is_inactive_once_the_removal_of_its_delegation_is_confirmed(registry: Registry) -> None:
    registry.move()
    held = register_shop(registry)
    registry.publish()
    change_nameservers(registry, nameservers=(), ds_records=())

    def found() -> tuple[str, str | None, list[str]]:
        name = registry.subdomain(held.id)
        status = derive_status(name, registry.now)
        listed = [
            each
            for each in ("inactive", "provisioning", "failed")
            if registry.read(list_all, SubdomainFilter(status=each), 10)
        ]
        assert status == state_before_suspension(name, registry.now)["status"]
        actions = allowed_actions(name, registry.now, user_suspended=False, quota_left=True)
        assert actions == ("update_nameservers", "set_auto_renew", "delete")
        return status, name.provision_error, listed

    assert found() == ("provisioning", None, ["provisioning"])
    registry.publish(error="refused")
    assert found() == ("failed", "refused", ["failed"])
    with registry.refuses(NameserverRequired) as caught:
        registry.write(retry, registry.actor(), SHOP)
    assert "removal of an old delegation automatically" in caught[0].message
    registry.advance(minutes=1)
    assert registry.publish() == [held.id]  # without a request of the user
    assert found() == ("inactive", None, ["inactive"])
    # The same holds on the way back from the trash and from a suspension.
    registry.write(delete, registry.actor(), SHOP)
    registry.write(restore, registry.actor(), SHOP, Payable(), free_quota=FREE_QUOTA)
    assert found() == ("provisioning", None, ["provisioning"])
    registry.write(suspend, OPERATOR, SHOP)
    registry.publish(error="refused")
    assert derive_status(registry.subdomain(held.id), registry.now) == "suspended"
    registry.write(unsuspend, OPERATOR, SHOP)
    assert found() == ("provisioning", None, ["provisioning"])
    registry.publish()
    assert found() == ("inactive", None, ["inactive"])
    assert registry.doctor() == []


def test_a_name_that_never_had_nameservers_is_inactive_at_once(registry: Registry) -> None:
    held = registry.register(SHOP)
    assert derive_status(held, registry.now) == "inactive"
    change_nameservers(registry, nameservers=())
    registry.write(delete, registry.actor(), SHOP)
    registry.write(restore, registry.actor(), SHOP, Payable(), free_quota=FREE_QUOTA)
    assert derive_status(registry.subdomain(held.id), registry.now) == "inactive"


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
    assert (found.generation, found.provision_error, found.attempts, found.next_attempt_at) == (
        2,
        None,
        0,
        None,
    )


def test_all_invalid_fields_of_a_change_are_reported(registry: Registry) -> None:
    register_shop(registry)
    with registry.refuses(ValidationFailed) as caught:
        change_nameservers(registry, nameservers=("-", "ns1.example.org"), ds_records=("x",))
    assert [each.code for each in caught[0].errors] == ["nameserver_invalid", "ds_invalid"]


def test_a_change_that_closes_a_cycle_is_refused(registry: Registry) -> None:
    register_shop(registry)
    registry.register("two.example.test", nameservers=("ns.shop.example.test",))
    with registry.refuses(ValidationFailed) as caught:
        change_nameservers(registry, nameservers=("ns.two.example.test",), ds_records=())
    assert [each.code for each in caught[0].errors] == ["nameserver_cycle"]


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
    registry.advance(days=-40)  # a clock that was set back
    with registry.refuses(RateLimited) as back:
        put(SHOP, 4)
    assert back[0].retry_after_seconds == 24 * 3600


def test_a_limit_of_zero_is_no_limit(registry: Registry) -> None:
    register_shop(registry)
    for number in range(5):
        change_nameservers(registry, nameservers=(f"ns{number}.example.org",), glue=())
