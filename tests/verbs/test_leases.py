"""Leases have one holder at a time, and their epoch counts the holders; processes register and leave."""

from datetime import timedelta

import pytest

from sublet.db import Tx
from sublet.processes import store
from sublet.processes.leases import (
    PUBLISH_FOR,
    give_back_lease,
    hold_lease,
    list_held_by_others,
    renew_lease,
    take_lease,
    under_lease,
)
from sublet.processes.model import Lease, LeaseLost, Process
from sublet.processes.processes import (
    FORGOTTEN_AFTER,
    GONE_AFTER,
    announce,
    leave,
    list_running,
    record_heartbeat,
)
from sublet.structs import replace
from support.leases import find, run_out
from support.registry import Registry

ZONE = "publish:1"


def _take(registry: Registry, holder: str, name: str = ZONE) -> Lease | None:
    return registry.write(take_lease, name, holder, PUBLISH_FOR)


def _taken(registry: Registry, holder: str, name: str = ZONE) -> Lease:
    lease = _take(registry, holder, name)
    assert lease is not None
    return lease


def test_a_lease_has_one_holder_at_a_time(registry: Registry) -> None:
    first = _taken(registry, "a")
    assert (first.name, first.holder, first.epoch) == (ZONE, "a", 1)
    assert _take(registry, "b") is None
    assert _take(registry, "a") == first, "it is fresh, and left as it is"
    assert _taken(registry, "b", "publish:2").epoch == 1, "another zone's is another"


def test_an_expired_lease_gets_another_holder_in_the_next_epoch(registry: Registry) -> None:
    first = _taken(registry, "a")
    registry.write(run_out, ZONE)
    registry.write(hold_lease, first)  # An expired lease stays valid until another process takes it.
    second = _taken(registry, "b")
    assert (second.holder, second.epoch) == ("b", 2)
    registry.write(hold_lease, second)
    for late in (
        lambda tx: hold_lease(tx, first),
        lambda tx: renew_lease(tx, first, PUBLISH_FOR),
    ):
        with pytest.raises(LeaseLost):
            registry.write(late)
    registry.write(give_back_lease, first)
    assert registry.read(find, ZONE) == second, "who has lost it gives nothing back"
    assert _take(registry, "a") is None


def test_a_released_lease_is_free_at_once(registry: Registry) -> None:
    first = _taken(registry, "a")
    registry.write(give_back_lease, first)
    assert _taken(registry, "a").epoch == 1, "nobody wrote in between"
    registry.write(give_back_lease, first)
    assert _taken(registry, "b").epoch == 2


def test_a_lease_is_renewed_after_half_of_its_duration(registry: Registry) -> None:
    first = _taken(registry, "a")
    assert registry.write(renew_lease, first, PUBLISH_FOR) == first
    for verb in ("renew", "take"):
        registry.write(run_out, ZONE, PUBLISH_FOR * 0.6)
        before = registry.read(find, ZONE)
        after = registry.write(renew_lease, first, PUBLISH_FOR) if verb == "renew" else _taken(registry, "a")
        assert after == registry.read(find, ZONE)
        assert (after.epoch, after.expires_at > before.expires_at) == (1, True)


def test_leases_of_other_holders_are_listed(registry: Registry) -> None:
    _taken(registry, "a", "publish:1")
    _taken(registry, "b", "publish:2")
    _taken(registry, "b", "publish:3")
    registry.write(run_out, "publish:3")
    names = [f"publish:{number}" for number in range(1, 5)]
    assert registry.read(list_held_by_others, names, "a") == {"publish:2"}
    assert registry.read(list_held_by_others, names, "b") == {"publish:1"}


def test_nothing_is_written_under_a_lost_lease(registry: Registry) -> None:
    def write(tx: Tx, text: str) -> str:
        store.insert_process(tx, replace(_process(tx), id=text))
        return text

    lease = _taken(registry, "a")
    assert registry.write(under_lease, lease, write, "x") == "x"
    assert registry.write(under_lease, None, write, "y") == "y"
    registry.write(run_out, ZONE)
    _taken(registry, "b")
    before = registry.dump()
    with pytest.raises(LeaseLost):
        registry.write(under_lease, lease, write, "z")
    assert registry.dump() == before


# Processes


def _process(tx: Tx) -> Process:
    now = store.find_clock(tx)
    return Process("p", "worker", "host", 1, "0.1.0", "0004", now, now)


def _announce(registry: Registry, name: str, *, alone: bool = False) -> None:
    registry.write(announce, replace(registry.read(_process), id=name), alone=alone)


def _silent(tx: Tx, name: str, since: timedelta) -> None:
    store.update_seen_at(tx, name, store.find_clock(tx) - since)


def _ids(registry: Registry) -> set[str]:
    return {each.id for each in registry.read(store.list_processes)}


def test_processes_see_each_other(registry: Registry) -> None:
    _announce(registry, "a")
    _announce(registry, "b")
    seen = registry.write(record_heartbeat, "a")
    assert ([each.id for each in seen.others], seen.is_known) == (["b"], True)
    registry.write(_silent, "b", GONE_AFTER + timedelta(seconds=5))
    assert registry.write(record_heartbeat, "a").others == ()
    assert _ids(registry) == {"a", "b"}, "it is still shown"
    registry.write(_silent, "b", FORGOTTEN_AFTER + timedelta(seconds=5))
    registry.write(record_heartbeat, "a")
    assert _ids(registry) == {"a"}
    assert registry.write(record_heartbeat, "b").is_known is False


def test_a_process_that_leaves_ends_its_leases(registry: Registry) -> None:
    _announce(registry, "a")
    _taken(registry, "a", "publish:1")
    _taken(registry, "a", "check:1")
    kept = _taken(registry, "b", "publish:2")
    registry.write(leave, "a")
    assert _ids(registry) == set()
    assert [_taken(registry, "b", name).epoch for name in ("publish:1", "check:1")] == [2, 2]
    assert registry.read(find, "publish:2") == kept


def test_the_only_process_ends_the_leases_of_killed_ones(registry: Registry) -> None:
    _announce(registry, "dead")
    _taken(registry, "dead")
    _announce(registry, "a", alone=True)
    assert _ids(registry) == {"a"}
    assert _taken(registry, "a").epoch == 2


def test_the_shared_clock_is_that_of_the_database(registry: Registry) -> None:
    _taken(registry, "a")
    registry.advance(days=30)  # of this process' own clock
    is_server = registry.read(lambda tx: tx.connection.dialect.name) == "postgresql"
    assert (_take(registry, "b") is None) is is_server
    _announce(registry, "a")
    assert [each.role for each in registry.read(list_running)] == ["worker"]
    ahead = registry.write(record_heartbeat, "a").clock_ahead
    assert (ahead == timedelta()) is not is_server
