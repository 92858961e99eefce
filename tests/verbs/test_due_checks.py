"""Checks of delegations: the names that are due, the recorded results, and the claims of addresses; on both
databases.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import func, select

from sublet import audit
from sublet.config import Settings
from sublet.db import Tx
from sublet.dns.types import Delegation, RecordSetInput
from sublet.health import store
from sublet.health.checker import Checker, CheckResult
from sublet.health.due_checks import claim_due, record_check, schedule_changed_names, schedule_first_checks
from sublet.health.health_keeper import HealthKeeper
from sublet.health.model import BROKEN, HEALTHY, DueCheck, Finding, Health, Level, Question, Report
from sublet.health.query_limits import claim_addresses, delete_idle_addresses, release_addresses
from sublet.mail.store import list_mails
from sublet.subdomains.delete import delete
from sublet.subdomains.model import Subdomain, UpdateNameservers
from sublet.subdomains.records.change import ChangeRecords, change_records
from sublet.subdomains.update_nameservers import update_nameservers
from support.registry import Registry

SHOP = "shop.example.test"
HOSTS = ("ns1.example.org", "ns2.example.org")
LAME = Finding("lame", Level.ERROR, "ns1.example.org", "It is lame.", "Repair it.")


def due_after(registry: Registry, **passed: float) -> list[DueCheck]:
    registry.advance(**passed)
    return registry.write(claim_due, 10)


def record(registry: Registry, held: Subdomain, state: str) -> Health | None:
    findings = (LAME,) if state == BROKEN else ()
    generation = registry.subdomain(held.id).published_generation
    return registry.write(record_check, held.id, generation, Report(state, findings, registry.now))


def mails(registry: Registry) -> list[str]:
    found = registry.read(list_mails, waiting=True, user_id=registry.users["ann"], limit=10)
    return [each.subject for each in found][::-1]


def test_a_new_name_is_due_within_minutes_and_one_worker_takes_it(registry: Registry) -> None:
    held = registry.register(SHOP, nameservers=HOSTS)
    registry.register("bare.example.test")
    assert registry.write(schedule_changed_names) == 1
    assert registry.write(schedule_changed_names) == 0
    assert due_after(registry, minutes=1) == []
    (due,) = due_after(registry, minutes=3)
    assert (due.subdomain_id, due.generation, due.target.fqdn) == (held.id, 1, SHOP)
    assert (due.target.delegation, due.target.parent_signed) == (Delegation(HOSTS), False)
    assert due_after(registry, seconds=50) == []  # The worker's claim lasts a minute.
    assert len(due_after(registry, seconds=11)) == 1
    registry.write(store.reschedule, [held.id], registry.now + timedelta(hours=1))
    assert due_after(registry, minutes=59) == []
    assert len(due_after(registry, minutes=1)) == 1


def test_first_checks_of_existing_names_are_spread_over_a_day(registry: Registry) -> None:
    registry.register(SHOP, nameservers=HOSTS)
    registry.advance(hours=1)
    assert registry.write(schedule_changed_names) == 0
    assert registry.write(schedule_first_checks, 0) is None  # It is due within a day.
    assert len(due_after(registry, days=1)) == 1


def test_changes_while_no_worker_ran_are_found(registry: Registry) -> None:
    searched_at = registry.now
    registry.advance(hours=1)
    registry.register(SHOP, nameservers=HOSTS)
    registry.advance(hours=1)
    assert registry.write(schedule_changed_names) == 0
    assert registry.write(schedule_changed_names, searched_at) == 1


def test_a_change_is_checked_soon_and_a_name_that_left_the_dns_is_not_checked(registry: Registry) -> None:
    held = registry.register(SHOP, nameservers=HOSTS)
    registry.write(schedule_changed_names)
    record(registry, held, HEALTHY)
    registry.advance(hours=1)
    command = UpdateNameservers(nameservers=HOSTS[:1])
    registry.write(update_nameservers, registry.actor(), SHOP, command)
    assert record(registry, held, HEALTHY) is not None
    registry.write(update_nameservers, registry.actor(), SHOP, UpdateNameservers(nameservers=HOSTS))
    assert (
        registry.write(record_check, held.id, 2, Report(BROKEN, (), registry.now)) is None
    )  # of the state before
    assert registry.write(schedule_changed_names) == 1
    (due,) = due_after(registry, minutes=4)
    assert due.generation == 3
    registry.write(delete, registry.actor(), SHOP)
    assert record(registry, held, BROKEN) is None
    assert due_after(registry, days=2) == []
    assert registry.read(store.find_health, held.id) is None


def test_only_names_with_nameservers_or_an_alias_are_checked(registry: Registry) -> None:
    registry.add_domain("records.test", records="on")
    site, www = "site.records.test", RecordSetInput("www", "CNAME", ("shop.example.org",))
    held = registry.register(site, records=(www,))
    registry.register("text.records.test", records=(RecordSetInput("@", "TXT", ('"CNAME"',)),))
    registry.publish("records.test")
    assert registry.write(schedule_changed_names) == 1
    (due,) = due_after(registry, minutes=4)
    assert (due.subdomain_id, due.target.aliases) == (held.id, ((f"www.{site}", "shop.example.org"),))
    assert record(registry, held, HEALTHY) is not None
    registry.write(change_records, registry.actor(), site, ChangeRecords((), replaces_all=True))
    assert due_after(registry, days=2) == []
    assert registry.read(store.find_health, held.id) is None


def test_a_lasting_breakage_and_its_end_are_mailed_once(registry: Registry) -> None:
    held = registry.register(SHOP, nameservers=HOSTS)
    found = record(registry, held, BROKEN)
    assert found is not None
    assert (found.state, found.findings) == (BROKEN, (LAME,))
    registry.advance(hours=2)
    record(registry, held, BROKEN)
    assert mails(registry) == []
    for _ in range(2):
        registry.advance(hours=1)
        record(registry, held, BROKEN)
    assert mails(registry) == [f"{SHOP} doesn't work"]
    for _ in range(2):
        registry.advance(minutes=10)
        record(registry, held, HEALTHY)
    assert mails(registry) == [f"{SHOP} doesn't work", f"{SHOP} works again"]
    changes = registry.read(store.list_changes, held.id)
    assert [(each.state, each.codes) for each in changes] == [(HEALTHY, ()), (BROKEN, ("lame",))]
    events = registry.read(audit.list_events, "delegation_health", [held.id], ["delegation_health.change"])
    assert [each.after["state"] for each in events if each.after] == [BROKEN, HEALTHY]
    assert registry.doctor() == []


def test_the_history_is_bounded(registry: Registry) -> None:
    held = registry.register(SHOP, nameservers=HOSTS)
    for number in range(store.CHANGES_MAX + 5):
        registry.advance(minutes=1)
        registry.write(store.insert_change, held.id, HEALTHY, [str(number)])
    changes = registry.read(store.list_changes, held.id)
    assert len(changes) == store.CHANGES_MAX
    assert changes[0].codes == (str(store.CHANGES_MAX + 4),)
    assert changes[-1].codes == ("5",)


def test_one_check_at_a_time_claims_an_address_and_later_checks_book_it(registry: Registry) -> None:
    claim = ["9.9.9.9", "8.8.8.8"]
    assert registry.write(claim_addresses, claim, books=True) is None
    assert registry.write(claim_addresses, ["8.8.8.8"], books=False) == registry.now + timedelta(seconds=3)
    booked = [registry.write(claim_addresses, ["8.8.8.8"], books=True) for _ in range(3)]
    assert [(each - registry.now).total_seconds() for each in booked if each] == [3, 6, 9]
    registry.write(release_addresses, claim)
    assert (
        registry.write(claim_addresses, claim, books=True) is not None
    )  # The address has a pause of a second.
    registry.advance(seconds=1)
    assert registry.write(claim_addresses, claim, books=True) is None
    registry.advance(seconds=16)  # The claim of a worker that died has ended.
    assert registry.write(claim_addresses, claim, books=True) is None
    registry.advance(hours=2)
    registry.write(delete_idle_addresses)
    assert registry.read(count_addresses) == 0


def count_addresses(tx: Tx) -> int:
    return int(tx.connection.execute(select(func.count()).select_from(store.health_targets)).scalar_one())


class FaultyFollower:
    """A follower with a programming error."""

    name = "faulty"

    def __init__(self) -> None:
        self.decisions: Counter[str] = Counter()

    async def questions(self, due: DueCheck) -> Sequence[Question]:
        raise RuntimeError(due)

    async def follow(self, due: DueCheck, result: CheckResult) -> object:
        raise NotImplementedError


def test_a_check_that_ends_in_a_fault_is_due_again_in_half_an_hour(registry: Registry) -> None:
    held = registry.register(SHOP, nameservers=HOSTS)
    registry.write(schedule_changed_names)
    registry.advance(minutes=5)

    def is_put_off(tx: Tx) -> bool:
        health = store.find_health(tx, held.id)
        return health is not None and health.due_at == registry.now + timedelta(minutes=30)

    async def run() -> None:
        checker = Checker(Settings(), registry.db)
        keeper = HealthKeeper(registry.db, checker, followers=[FaultyFollower()])
        assert await keeper.start_checks() == 1
        async with asyncio.timeout(60):
            while not await registry.db.read(is_put_off):  # noqa: ASYNC110 - rows set no event
                await asyncio.sleep(0.01)

    registry.run(run())


def test_the_keeper_deletes_idle_addresses_more_than_once_a_day(registry: Registry) -> None:
    async def run() -> None:
        keeper = HealthKeeper(registry.db, Checker(Settings(), registry.db))
        running = asyncio.create_task(keeper.run())
        try:
            async with asyncio.timeout(60):
                for address in ("9.9.9.9", "8.8.8.8"):
                    await registry.db.write(claim_addresses, [address], books=True)
                    registry.advance(hours=2)
                    while await registry.db.read(count_addresses):  # noqa: ASYNC110 - rows set no event
                        await asyncio.sleep(0.1)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    registry.run(run())
