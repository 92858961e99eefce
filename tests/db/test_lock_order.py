"""PostgreSQL: concurrent transactions wait for each other's locks without a deadlock."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.pool import NullPool

from sublet.accounts import store as account_store
from sublet.db import Tx
from sublet.db.connect import postgresql_engine
from sublet.errors import Conflict, SubdomainNotFound, ValidationFailed
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_state_store
from sublet.primaries.publisher_transactions import (
    Result,
    begin_publication,
    record_publication,
    record_refusal,
    record_zone_fault,
    settle_fence,
)
from sublet.subdomains import published_owner_store, store
from sublet.subdomains.delete import delete
from sublet.subdomains.edit_zone_settings import edit_zone_settings
from sublet.subdomains.model import Register, UpdateNameservers
from sublet.subdomains.purge import purge
from sublet.subdomains.register import register
from sublet.subdomains.retry import retry
from sublet.subdomains.sweep.sweep import sweep
from sublet.subdomains.transfer import transfer
from sublet.subdomains.update_nameservers import update_nameservers
from support.postgresql import fresh_database
from support.registry import OPERATOR, Prepared, Registry, open_registry
from support.serve_process import wait_until

ZONE = "example.test"
SHOP = f"shop.{ZONE}"
FAULT = ("no_answer", "main does not answer", "The name server does not answer.")


@pytest.fixture
def pair(postgresql_server: str, postgresql_registry: Prepared) -> Iterator[tuple[Registry, Engine]]:
    """A registry whose zone is marked as on a primary, and an engine for transactions that the test holds open."""
    with (
        fresh_database(postgresql_server, like=postgresql_registry.url) as url,
        open_registry(url, postgresql_registry) as registry,
    ):
        domain_id = registry.domains[ZONE]
        registry.write(lambda tx: platform_domain_store.update_platform_domain(tx, domain_id, primary="main"))
        engine = postgresql_engine(url, poolclass=NullPool)
        yield registry, engine


def _interleave(
    registry: Registry,
    engine: Engine,
    first: Callable[[Tx], object],
    beside: Callable[[Tx], object],
    then: Callable[[Tx], object],
) -> None:
    """Run `first` and `then` in one transaction. Between them `beside` begins in another one and waits. Neither is retried."""

    def run() -> None:
        with engine.begin() as connection:
            beside(Tx(connection, registry.now))

    with ThreadPoolExecutor(1) as threads:
        with engine.begin() as connection:
            tx = Tx(connection, registry.now)
            first(tx)
            waiting = threads.submit(run)
            wait_until(lambda: waiting.done() or registry.read(_count_blocked) == 1)
            assert not waiting.done(), waiting.exception() or "nothing keeps it"
            then(tx)
        waiting.result(30)


def _count_blocked(tx: Tx) -> int:
    blocked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    return int(tx.connection.execute(text(blocked)).scalar_one())


def test_a_retry_and_a_zone_fault_do_not_deadlock(pair: tuple[Registry, Engine]) -> None:
    registry, engine = pair
    domain_id = registry.domains[ZONE]
    held = registry.register(SHOP, nameservers=("ns1.example.org",))
    batch = registry.write(begin_publication, domain_id)
    assert batch is not None
    registry.write(record_zone_fault, domain_id, batch.items, *FAULT)
    _interleave(
        registry,
        engine,
        lambda tx: zone_state_store.update_zone_state(tx, domain_id, problem=FAULT[0]),
        lambda tx: retry(tx, registry.actor(), SHOP),
        lambda tx: record_zone_fault(tx, domain_id, batch.items, *FAULT),
    )
    assert registry.subdomain(held.id).attempts == 0, "the retry came after the fault"
    assert registry.read(zone_state_store.find_zone_state, domain_id).next_attempt_at is None


def test_two_transactions_can_store_the_first_state_of_a_zone(pair: tuple[Registry, Engine]) -> None:
    registry, engine = pair
    domain_id = registry.domains[ZONE]
    _interleave(
        registry,
        engine,
        lambda tx: zone_state_store.update_zone_state(tx, domain_id, seen_at=registry.now),
        lambda tx: zone_state_store.update_zone_state(tx, domain_id, watch_problem="refused"),
        lambda _: None,
    )
    state = registry.read(zone_state_store.find_zone_state, domain_id)
    assert (state.seen_at, state.watch_problem) == (registry.now, "refused")


def test_recording_a_refusal_waits_for_the_settlement_of_the_fence(pair: tuple[Registry, Engine]) -> None:
    """Both lock names and their owners, in different orders."""
    registry, engine = pair
    domain_id = registry.domains[ZONE]
    registry.register(SHOP, nameservers=("ns1.example.org",))
    batch = registry.write(begin_publication, domain_id)
    assert batch is not None
    (item,) = batch.items
    refused = Result(item, error="in use", cause="in_use", nothing_applied=True)
    _interleave(
        registry,
        engine,
        lambda tx: settle_fence(tx, domain_id, batch.fence, batch.next_fence),
        lambda tx: record_refusal(tx, domain_id, refused),
        lambda tx: record_publication(tx, {item.subdomain_id: Result(item, serial=7)}, batch),
    )
    assert registry.subdomain(item.subdomain_id).published_generation == 1
    assert registry.read(published_owner_store.list_published_owners_by_subdomain, [item.subdomain_id]) == {
        item.subdomain_id: {SHOP: True}
    }


def test_a_publication_is_recorded_while_its_user_is_locked(pair: tuple[Registry, Engine]) -> None:
    """PostgreSQL locks the user of a row that the same transaction has changed before, to check the foreign key."""
    registry, engine = pair
    domain_id = registry.domains[ZONE]
    registry.register(SHOP, nameservers=("ns1.example.org",))
    batch = registry.write(begin_publication, domain_id)
    assert batch is not None
    (item,) = batch.items

    def record() -> None:
        with engine.begin() as connection:
            tx = Tx(connection, registry.now)
            store.update_subdomain(tx, item.subdomain_id, attempts=1)
            record_publication(tx, {item.subdomain_id: Result(item, serial=7)}, batch)

    with ThreadPoolExecutor(1) as threads, engine.begin() as connection:
        account_store.lock_user(Tx(connection, registry.now), registry.users["ann"])
        threads.submit(record).result(20)
    assert registry.subdomain(item.subdomain_id).published_generation == 1


def test_the_sweep_and_a_publication_do_not_deadlock(pair: tuple[Registry, Engine]) -> None:
    """The sweep processes the longest due names first, the publisher names by their ids. Both lock all names before that."""
    registry, engine = pair
    domain_id = registry.domains[ZONE]
    held = [
        registry.register(f"name{number}.{ZONE}", nameservers=("ns1.example.org",)) for number in range(2)
    ]
    batch = registry.write(begin_publication, domain_id)
    assert batch is not None
    due = [registry.now - timedelta(seconds=number) for number in (1, 2)]  # the later name is processed first
    for each, due_at in zip(held, due, strict=True):
        registry.write(store.set_dates, each.id, due_at=due_at, loss_at=None)
    _interleave(
        registry,
        engine,
        lambda tx: store.lock_subdomains(tx, [held[0].id]),
        sweep,
        lambda tx: record_publication(
            tx, {item.subdomain_id: Result(item, serial=7) for item in batch.items}, batch
        ),
    )
    assert [registry.subdomain(each.id).published_generation for each in held] == [1, 1]


def test_dates_are_recomputed_while_a_user_is_locked(pair: tuple[Registry, Engine]) -> None:
    """After a change of days the sweep locks the names, and no user."""
    registry, engine = pair
    held = registry.register(SHOP)
    registry.sweep()
    registry.write(edit_zone_settings, OPERATOR, ZONE, {"grace_days": 100})
    with engine.begin() as connection:
        tx = Tx(connection, registry.now)
        assert account_store.lock_user(tx, registry.users["ann"]) is not None
        assert registry.write(sweep).names == 1
    assert registry.dates()[held.id].loss_at == held.expires_at + timedelta(days=100)


@pytest.mark.parametrize("verb", ["change", "registration"])
def test_a_nameserver_below_a_name_being_purged_is_refused(pair: tuple[Registry, Engine], verb: str) -> None:
    """The purge waits for the transaction that adds the nameserver, and then sees the nameserver; or the reverse."""
    registry, engine = pair
    registry.register(SHOP, "ben", nameservers=("ns1.example.org",))
    registry.publish(ZONE)
    registry.write(delete, registry.actor("ben"), SHOP)
    registry.sweep()
    registry.publish(ZONE)
    host = f"ns1.{SHOP}"
    ada = f"ada.{ZONE}"
    if verb == "change":
        registry.register(ada)

    def add(tx: Tx) -> None:
        if verb == "change":
            update_nameservers(tx, registry.actor(), ada, UpdateNameservers(nameservers=(host,)))
        else:
            register(tx, registry.actor(), Register(fqdn=ada, nameservers=(host,)), free_quota=9)

    def release(tx: Tx) -> None:
        with pytest.raises(Conflict, match="other names have nameservers below it"):
            purge(tx, OPERATOR, SHOP, release=True)

    _interleave(registry, engine, add, release, lambda _: None)
    registry.write(delete, registry.actor(), ada)


def test_a_concurrent_purge_is_seen_before_the_nameserver_is_stored(pair: tuple[Registry, Engine]) -> None:
    registry, engine = pair
    registry.register(SHOP, "ben", nameservers=("ns1.example.org",))
    registry.register(f"ada.{ZONE}")
    registry.write(delete, registry.actor("ben"), SHOP)

    def add(tx: Tx) -> None:
        with pytest.raises(ValidationFailed):
            update_nameservers(
                tx, registry.actor(), f"ada.{ZONE}", UpdateNameservers(nameservers=(f"ns1.{SHOP}",))
            )

    _interleave(registry, engine, lambda tx: purge(tx, OPERATOR, SHOP), add, lambda _: None)


def test_two_transfers_of_a_name_are_serialized(pair: tuple[Registry, Engine]) -> None:
    registry, engine = pair
    registry.add_user("carl")
    held = registry.register(SHOP)
    _interleave(
        registry,
        engine,
        lambda tx: transfer(tx, OPERATOR, SHOP, "ben@example.org"),
        lambda tx: transfer(tx, OPERATOR, SHOP, "carl@example.org"),
        lambda tx: account_store.lock_users(tx, [registry.users["ben"]]),
    )
    assert registry.subdomain(held.id).user_id == registry.users["carl"]
    assert registry.doctor() == []


def test_a_former_user_s_change_that_waited_for_a_transfer_is_refused(pair: tuple[Registry, Engine]) -> None:
    registry, engine = pair
    held = registry.register(SHOP)

    def refused(tx: Tx) -> None:
        with pytest.raises(SubdomainNotFound):
            delete(tx, registry.actor(), SHOP)

    _interleave(
        registry, engine, lambda tx: transfer(tx, OPERATOR, SHOP, "ben@example.org"), refused, lambda _: None
    )
    assert registry.subdomain(held.id).trashed_at is None
