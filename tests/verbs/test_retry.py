"""Retrying a name's provisioning (spec, part 4); on both databases."""

from sublet.dns.types import RecordSetInput
from sublet.errors import NameserverRequired, RetryNotAvailable
from sublet.subdomains.lifecycle import derive_status
from sublet.subdomains.retry import retry
from support.registry import Registry
from support.shop import SHOP, change_nameservers


def test_a_retry_needs_a_nameserver_then_a_failure(registry: Registry) -> None:
    registry.move()
    held = registry.register(SHOP)
    registry.refused(NameserverRequired, retry, registry.actor(), SHOP)
    change_nameservers(registry, nameservers=("ns1.example.org",))
    registry.refused(RetryNotAvailable, retry, registry.actor(), SHOP)  # waiting is no failure
    registry.publish(error="refused")
    assert derive_status(registry.subdomain(held.id), registry.now) == "failed"
    assert registry.publish() == []  # its back-off runs
    registry.write(retry, registry.actor(), SHOP)
    assert derive_status(registry.subdomain(held.id), registry.now) == "provisioning"
    assert registry.publish() == [held.id]
    registry.refused(RetryNotAvailable, retry, registry.actor(), SHOP)


def test_a_retry_of_records_is_refused_without_the_advice_to_set_nameservers(registry: Registry) -> None:
    registry.add_domain("records.test", records="on")
    registry.register("shop.records.test", records=(RecordSetInput("@", "A", ("8.8.8.8",)),))
    refused = registry.refused(NameserverRequired, retry, registry.actor(), "shop.records.test")
    assert "retries their publication automatically" in refused.message
