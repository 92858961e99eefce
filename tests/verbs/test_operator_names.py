"""Suspending, unsuspending and restoring names as the operator."""

from pathlib import Path

import pytest

from sublet.errors import Conflict
from sublet.subdomains.delete import move_to_trash
from sublet.subdomains.find import find_for_operator
from sublet.subdomains.lifecycle import derive_status
from sublet.subdomains.restore import operator_restore
from sublet.subdomains.suspend import suspend, unsuspend
from support.operator_registry import Registry, small_registry

ALPHA, BETA = "alpha.example.test", "beta.example.test"


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return small_registry(tmp_path)


def _trash(registry: Registry, name: str) -> None:
    registry.do(lambda tx, actor: move_to_trash(tx, actor, find_for_operator(tx, name)))


def test_a_suspension_removes_the_delegation_and_its_end_restores_it(registry: Registry) -> None:
    held = registry.do(suspend, "ALPHA.example.test.", "phishing")
    assert derive_status(held, registry.now) == "suspended"
    assert (held.suspended_reason, held.generation) == ("phishing", 2)
    freed = registry.do(unsuspend, "1")
    assert (freed.suspended_at, freed.suspended_reason, freed.generation) == (None, None, 3)
    assert freed.delegation.nameservers == ("ns1.example.org", "ns2.example.org")
    assert registry.do(suspend, BETA).generation == 0


def test_the_operator_restores_without_extending(registry: Registry) -> None:
    before = registry.read(find_for_operator, ALPHA)
    _trash(registry, ALPHA)
    registry.pass_days(20)
    restored = registry.do(operator_restore, ALPHA)
    assert (restored.trashed_at, restored.expires_at) == (None, before.expires_at)
    assert restored.generation == before.generation + 2


def test_the_operator_can_t_restore_a_name_whose_grace_is_over(registry: Registry) -> None:
    registry.pass_days(365 + 30)
    _trash(registry, ALPHA)
    before = registry.rows()
    with pytest.raises(Conflict, match="grace period is over"):
        registry.do(operator_restore, ALPHA)
    assert registry.rows() == before
