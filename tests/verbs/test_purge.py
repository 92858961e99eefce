"""Purging a name, and releasing it (the operator's `sublet subdomain purge`)."""

from pathlib import Path

import pytest

from sublet.db import Tx
from sublet.dns.types import Delegation
from sublet.errors import Conflict, SubdomainUnavailable
from sublet.platform_domains.platform_domain import edit_platform_domain
from sublet.subdomains.delete import move_to_trash
from sublet.subdomains.find import find_for_operator
from sublet.subdomains.purge import purge
from sublet.subdomains.restore import operator_restore
from sublet.subdomains.store import find_subdomain, update_subdomain
from sublet.subdomains.suspend import suspend, unsuspend
from support.operator_registry import Registry, small_registry

ALPHA, BETA = "alpha.example.test", "beta.example.test"


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return small_registry(tmp_path)


def _trash(registry: Registry, name: str) -> None:
    registry.do(lambda tx, actor: move_to_trash(tx, actor, find_for_operator(tx, name)))


def _publish(registry: Registry, subdomain_id: int) -> None:
    def run(tx: Tx) -> None:
        found = find_subdomain(tx, subdomain_id)
        assert found is not None
        update_subdomain(tx, subdomain_id, published_generation=found.generation)

    registry.write(run)


def test_a_purged_name_loses_its_delegation_and_cools_off(registry: Registry) -> None:
    _trash(registry, ALPHA)
    purged = registry.do(purge, ALPHA)
    assert (purged.purged_at, purged.released_at) == (registry.now, None)
    assert purged.delegation == Delegation()
    before = registry.rows()
    for attempt in (purge, suspend, unsuspend, operator_restore):
        with pytest.raises(Conflict, match="purged"):
            registry.do(attempt, ALPHA)
    assert registry.rows() == before
    with pytest.raises(SubdomainUnavailable) as raised:
        registry.register(2, ALPHA)
    assert raised.value.details["reason"] == "cooling_off"


def test_a_name_is_released_only_once_its_removal_from_the_dns_is_confirmed(registry: Registry) -> None:
    registry.do(edit_platform_domain, "example.test", {"primary": "main"})
    _trash(registry, ALPHA)
    before = registry.rows()
    with pytest.raises(Conflict, match="not published"):
        registry.do(purge, ALPHA, release=True)
    assert registry.rows() == before
    _publish(registry, 1)
    released = registry.do(purge, ALPHA, release=True)
    assert released.purged_at == released.released_at == registry.now
    assert released.delegation == Delegation()
    assert released.generation == released.published_generation
    assert [each["action"] for each in registry.events()[-2:]] == ["subdomain.purge", "subdomain.release"]
    registry.register(2, ALPHA)
    with pytest.raises(Conflict, match="released already"):
        registry.do(purge, "1", release=True)


def test_a_purged_name_can_be_released_later(registry: Registry) -> None:
    _trash(registry, BETA)
    registry.do(purge, BETA)
    assert registry.do(purge, BETA, release=True).released_at == registry.now
    registry.register(2, BETA, "free")
