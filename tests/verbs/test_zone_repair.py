"""Checking a transferred zone and repairing it, step by step; on both databases."""

from datetime import timedelta

import pytest
from sqlalchemy import delete as delete_rows

from sublet.db import Tx
from sublet.dns.types import Record
from sublet.doctor.running import check_watch
from sublet.errors import Conflict, SubdomainUnavailable
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_store
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.zone_store import ZoneState
from sublet.primaries.check_process import Outcome
from sublet.primaries.check_zone import ZoneCheck, check_zone
from sublet.primaries.publisher_transactions import begin_publication
from sublet.primaries.repair_zone import begin_repair, repair, store_foreign
from sublet.subdomains import published_owner_store, store
from sublet.subdomains.delete import delete
from sublet.subdomains.model import Subdomain, UpdateNameservers
from sublet.subdomains.purge import purge
from sublet.subdomains.update_nameservers import update_nameservers
from support.registry import OPERATOR, Registry

ZONE = "example.test"
SHOP, OLD = f"shop.{ZONE}", f"old.{ZONE}"
NS = ("ns1.example.org",)
SOA = Record(ZONE, "SOA", 3600, f"ns1.{ZONE}. hostmaster.{ZONE}. 5 3600 900 604800 300")
FORMER = [Record(OLD, "NS", 3600, "ns1.former.example."), Record(f"ns1.{OLD}", "A", 3600, "9.9.9.9")]
FOREIGN = Record(f"office.{ZONE}", "NS", 300, "ns1.office.example.")


def _domain(registry: Registry) -> PlatformDomain:
    found = registry.read(platform_domain_store.find_platform_domain, registry.domains[ZONE])
    assert found is not None
    return found


@pytest.fixture
def moved(registry: Registry) -> Registry:
    """Return a registry whose zone is on a primary that the test simulates."""
    prepare_moved(registry)
    return registry


def prepare_moved(registry: Registry) -> None:
    """Publish two names, and release the second one."""
    registry.move()
    registry.register(SHOP, nameservers=NS)
    registry.register(OLD, registration_mode="plus", nameservers=NS)
    registry.publish()
    registry.write(delete, registry.actor(), OLD)
    registry.publish()
    registry.write(purge, OPERATOR, OLD)
    registry.publish()
    registry.write(purge, OPERATOR, OLD, release=True)
    registry.advance(minutes=1)


def _check(registry: Registry, *live: Record, rebuilt: bool = False) -> ZoneCheck:
    began_at = registry.now
    return registry.read(
        check_zone, _domain(registry), [SOA, *live], transfer_began_at=began_at, rebuilt=rebuilt
    )


def _shop(ns: str = "ns1.example.org") -> Record:
    return Record(SHOP, "NS", 3600, f"{ns}.")


def _state(registry: Registry) -> ZoneState:
    return registry.read(zone_store.find_zone_state, registry.domains[ZONE])


def _store(registry: Registry, **values: object) -> None:
    domain_id = registry.domains[ZONE]
    registry.write(lambda tx: zone_store.update_zone_state(tx, domain_id, **values))


def _repair(registry: Registry, found: ZoneCheck, *, force: bool = False) -> str | None:
    outcome = Outcome(5, _state(registry).rebuilt_at, found.repairs, found.differences.foreign, ())
    reason: str | None = registry.run(
        repair(registry.db, OPERATOR, registry.domains[ZONE], "main", outcome, force=force)
    )
    return reason


def test_an_unchanged_zone_has_no_differences(moved: Registry) -> None:
    fence = Record(f"_sublet.{ZONE}", "TXT", 0, '"abc"')
    apex = Record(ZONE, "DNSKEY", 3600, "257 3 13 AAAA")
    found = _check(moved, _shop(), fence, apex)
    assert found.differences.needs_no_repair
    assert found.differences.foreign == ()
    assert found.repairs.is_settled


def test_names_published_during_the_transfer_are_not_judged(moved: Registry) -> None:
    moved.write(update_nameservers, moved.actor(), SHOP, UpdateNameservers(("ns2.example.org",)))
    assert _check(moved, _shop()).waiting == (SHOP,)
    moved.publish()
    found = _check(moved, _shop(), Record(f"ns1.{SHOP}", "A", 300, "9.9.9.9"))
    assert found.differences.needs_no_repair
    assert (found.differences.foreign, found.waiting, found.repairs.is_settled) == ((), (), False)
    moved.advance(seconds=10)
    assert [each.name for each in _check(moved, _shop()).differences.different] == [SHOP]


def test_a_former_delegation_is_foreign_until_the_zone_was_rebuilt(moved: Registry) -> None:
    assert set(_check(moved, _shop(), *FORMER).differences.foreign) == set(FORMER)
    found = _check(moved, _shop(), *FORMER, FOREIGN, rebuilt=True)
    assert (set(found.differences.orphaned), found.differences.foreign) == (set(FORMER), (FOREIGN,))
    assert [(each.owner, each.fqdn) for each in found.repairs.orphaned] == [
        (f"ns1.{OLD}", OLD),
        (OLD, OLD),
    ]


@pytest.mark.parametrize("owner", [f"*.{OLD}", f"a\\.b.{OLD}"])
def test_records_that_no_delegation_can_have_are_foreign_in_a_rebuilt_zone_too(
    moved: Registry, owner: str
) -> None:
    by_hand = Record(owner, "A", 300, "192.0.2.80")
    found = _check(moved, _shop(), by_hand, rebuilt=True)
    assert (found.differences.foreign, found.repairs.orphaned) == ((by_hand,), ())


def test_a_former_delegation_is_removed_before_a_user_gets_the_name(moved: Registry) -> None:
    _store(moved, rebuilt_at=moved.now)
    assert _repair(moved, _check(moved, _shop(), *FORMER, rebuilt=True)) is None
    assert (_state(moved).rebuilt_at, _state(moved).checked_serial, _state(moved).orphaned) == (None, 5, 2)
    with moved.refuses(SubdomainUnavailable) as caught:
        moved.register(OLD, "ben")
    assert caught[0].details["reason"] == "cooling_off"
    moved.sent[ZONE].update(FORMER)  # like on the server
    moved.publish()
    assert moved.sent[ZONE] == {_shop()}
    moved.register(OLD, "ben")


def _once_published(registry: Registry) -> list[Record]:
    """Return the delegations of 21 published and released names, as an old file of the zone has them."""
    names = [OLD, *(f"n{number}.{ZONE}" for number in range(20))]
    registry.add_user("eve", free_quota=20)
    ids = [registry.register(name, "eve", nameservers=NS).id for name in names[1:]]
    registry.publish()
    # As if they had been deleted, unpublished, purged and released.
    gone = {"trashed_at": registry.now, "purged_at": registry.now, "released_at": registry.now}
    owned = published_owner_store.published_owners

    def let_go(tx: Tx) -> None:
        for subdomain_id in ids:
            store.update_subdomain(tx, subdomain_id, **gone)
        tx.connection.execute(delete_rows(owned).where(owned.c.subdomain_id.in_(ids)))

    registry.write(let_go)
    return [Record(name, "NS", 3600, "ns1.former.example.") for name in names]


def test_a_name_whose_former_delegation_may_return_is_not_registered_before_the_repair(
    moved: Registry,
) -> None:
    def refused(*names: str) -> None:
        for name in names:
            with moved.refuses(SubdomainUnavailable) as caught:
                moved.register(name, "ben")
            assert caught[0].details == {"reason": "cooling_off", "owned": False}

    found = _check(moved, _shop(), *_once_published(moved), rebuilt=True)
    _store(moved, rebuilt_at=moved.now)
    refused(OLD, f"n7.{ZONE}")  # not checked yet
    assert "21 names" in str(_repair(moved, found))
    refused(OLD, f"n7.{ZONE}")
    moved.register(f"never.{ZONE}", "ben")
    _store(moved, repair_stopped_at=None, rebuilt_at=None)
    moved.register(OLD, "ben")


def test_the_brake_is_stored_and_refills(moved: Registry) -> None:
    many = _once_published(moved)
    _store(moved, rebuilt_at=moved.now)
    found = _check(moved, *many, rebuilt=True)
    assert "implausible" in str(_repair(moved, found))
    stopped = _state(moved)
    assert (stopped.repair_stopped_at, stopped.rebuilt_at) == (moved.now, moved.now)
    assert stopped.missing == 1
    assert moved.subdomain(1).generation == 2, "what is missing is published again"
    assert {each.invariant for each in moved.read(lambda tx: [*check_watch(tx)])} >= {"zone_is_repaired"}
    assert _repair(moved, found, force=True) is None
    assert (_state(moved).repair_stopped_at, _state(moved).rebuilt_at) == (None, None)


def test_a_zone_that_was_moved_meanwhile_is_left_alone(moved: Registry) -> None:
    found = _check(moved, FOREIGN)
    domain_id = moved.domains[ZONE]
    moved.move("")
    moved.refused(Conflict, begin_repair, OPERATOR, domain_id, "main", found.repairs)
    moved.write(store_foreign, domain_id, "main", (), (FOREIGN,))
    assert moved.read(zone_store.list_zone_records, domain_id) == []


def test_the_doctor_reports_the_last_check_and_missing_checks(moved: Registry) -> None:
    def invariants() -> list[str]:
        return sorted(
            {each.invariant for each in (*moved.doctor(), *moved.read(lambda tx: [*check_watch(tx)]))}
        )

    assert invariants() == ["zone_is_watched"]
    _store(moved, seen_at=moved.now, checked_at=moved.now)
    assert invariants() == []
    _store(moved, missing=1)
    assert invariants() == ["zone_is_registry"]
    values = {"missing": 0, "watch_problem": "refused", "watch_problem_detail": "main answers REFUSED"}
    _store(moved, **values)
    assert invariants() == ["zone_is_watched"]
    _store(moved, watch_problem=None)
    moved.now += timedelta(minutes=11)
    assert invariants() == ["zone_is_watched"]


def _two_rows_wait(registry: Registry) -> tuple[int, Subdomain]:
    """Register a name while a repair removes its returned former delegation.

    Return the domain's id and the new row.
    """
    domain_id = registry.domains[ZONE]
    found = _check(registry, _shop(), *FORMER, rebuilt=True).repairs
    ben = registry.register(OLD, "ben", nameservers=NS)
    # The repair has seen no holder yet, because on PostgreSQL the two transactions don't see each other.
    for each in found.orphaned:
        registry.write(
            published_owner_store.move_published_owner,
            each.owner,
            each.subdomain_id,
            each.subdomain_id,
            has_records=False,
        )
    registry.write(store.republish, {each.subdomain_id for each in found.orphaned})
    return domain_id, ben


@pytest.mark.parametrize("is_applied", [False, True])
def test_only_the_holder_of_two_rows_of_a_name_is_published(moved: Registry, *, is_applied: bool) -> None:
    domain_id, ben = _two_rows_wait(moved)
    if not is_applied:
        moved.sent[ZONE].update(FORMER)
    batch = moved.write(begin_publication, domain_id)
    assert batch is not None
    (item,) = batch.items
    assert (item.subdomain_id, item.owners) == (ben.id, frozenset({OLD, f"ns1.{OLD}"}))
    moved.publish()
    moved.advance(minutes=2)
    assert moved.publish() == [], "nothing of the former row is left that could be tried again"
    assert moved.sent[ZONE] == {_shop(), Record(OLD, "NS", 3600, "ns1.example.org.")}
    assert moved.read(published_owner_store.list_published_owners_of_zone, domain_id)[OLD] == ben.id
    assert moved.doctor() == []
