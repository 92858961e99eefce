"""Retrying a name's provisioning (spec, part 4); on both databases."""

from typing import Any

from sublet.credits.model import Outcome
from sublet.dns.types import GlueInput
from sublet.errors import NameserverRequired, RetryNotAvailable
from sublet.subdomains.lifecycle import derive_status
from sublet.subdomains.model import Subdomain, UpdateNameservers
from sublet.subdomains.retry import retry
from sublet.subdomains.update_nameservers import update_nameservers
from support.registry import Registry

SHOP = "shop.example.test"


GLUE = GlueInput("ns1.shop.example.test", "203.0.114.5", None)


DS = "2371 13 2 " + "0a" * 32


def change(registry: Registry, identifier: str = SHOP, name: str = "ann", **members: Any) -> Outcome:
    return registry.write(update_nameservers, registry.actor(name), identifier, UpdateNameservers(**members))


def _delegated(registry: Registry) -> Subdomain:
    return registry.register(
        SHOP, nameservers=("ns1.example.org", "ns1.shop.example.test"), glue=(GLUE,), ds_records=(DS,)
    )


def test_a_retry_needs_a_nameserver_then_a_failure(registry: Registry) -> None:
    registry.move()
    held = registry.register(SHOP)
    with registry.refuses(NameserverRequired):
        registry.write(retry, registry.actor(), SHOP)
    change(registry, nameservers=("ns1.example.org",))
    with registry.refuses(RetryNotAvailable):  # waiting is no failure
        registry.write(retry, registry.actor(), SHOP)
    registry.publish(error="refused")
    assert derive_status(registry.subdomain(held.id), registry.now) == "failed"
    assert registry.publish() == []  # its back-off runs
    registry.write(retry, registry.actor(), SHOP)
    assert derive_status(registry.subdomain(held.id), registry.now) == "provisioning"
    assert registry.publish() == [held.id]
    with registry.refuses(RetryNotAvailable):
        registry.write(retry, registry.actor(), SHOP)


def test_a_failure_to_clear_the_nameservers_needs_a_nameserver_first(registry: Registry) -> None:
    _delegated(registry)
    registry.publish()
    change(registry, nameservers=(), ds_records=())
    registry.publish(error="refused")
    with registry.refuses(NameserverRequired):
        registry.write(retry, registry.actor(), SHOP)
