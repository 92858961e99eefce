"""Two publishers, or one that paused for long: an old batch never overwrites a newer one."""

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest
from sublet.subdomains.change_zone import change_zone

from sublet.db import Database, Tx, open_database
from sublet.dns.types import Record
from sublet.platform_domains import zone_store
from sublet.platform_domains.find import find_platform_domain
from sublet.primaries.publishing import Batch, begin_publication
from sublet.subdomains import change_zone as module
from support.crash_checks import HOST, NAME, standing, zone_is_right
from support.guard_checks import check_stale_change_is_refused
from support.publisher_outage import Outage, service_with_outage
from support.running_service import Registrant, RunningService
from support.serve_process import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def outage(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outage]:
    with service_with_outage(database_url, monkeypatch, publish_wait_ms=0) as running:
        yield running


def test_a_stale_change_is_refused(outage: Outage) -> None:
    check_stale_change_is_refused(outage)


def test_no_fence_is_caught(outage: Outage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_stale_ids", lambda _tx, _batch: frozenset())
    with pytest.raises(AssertionError, match=r"ns1\.old\.example"):
        check_stale_change_is_refused(outage)


def test_what_was_only_written_ahead_does_not_pass_for_ours(outage: Outage) -> None:
    """Killed after the write-ahead, before the zone was changed: a record added by hand at the name still isn't ours."""
    service = outage.service
    ada = service.add_user()
    with outage.held():
        service.register(ada, NAME, nameservers=["ns1.provider.example"])
        service.write(lambda tx: _add_by_hand(tx, NAME))
        service.write(_prepare)
    wait_until(lambda: _error(service, ada) is not None)
    assert "in use" in str(_error(service, ada))
    assert standing(service) == {(NAME, "A", "8.8.8.8")}
    service.call(ada, "DELETE", f"/subdomains/{NAME}")
    wait_until(lambda: zone_is_right(service))
    assert standing(service) == {(NAME, "A", "8.8.8.8")}


def test_new_glue_does_not_overwrite_what_stands_below_the_name(outage: Outage) -> None:
    service = outage.service
    ada = service.add_user()
    service.register(ada, NAME, nameservers=["ns1.provider.example"])
    wait_until(lambda: zone_is_right(service))
    service.write(lambda tx: _add_by_hand(tx, HOST))
    body = {"nameservers": [HOST], "glue": [{"host": HOST, "ipv4": "8.8.4.4"}]}
    service.call(ada, "PUT", f"/subdomains/{NAME}/nameservers", body)
    wait_until(lambda: _error(service, ada) is not None)
    assert standing(service) == {(NAME, "NS", "ns1.provider.example."), (HOST, "A", "8.8.8.8")}
    service.call(ada, "DELETE", f"/subdomains/{NAME}")
    wait_until(lambda: zone_is_right(service))
    assert standing(service) == {(HOST, "A", "8.8.8.8")}


def _add_by_hand(tx: Tx, owner: str) -> None:
    platform_domain = find_platform_domain(tx, "example.test")
    zone_store.insert_records(tx, platform_domain.id, [Record(owner, "A", 300, "8.8.8.8")])


def _error(service: RunningService, who: Registrant) -> object:
    return service.call(who, "GET", f"/subdomains/{NAME}").json()["subdomain"]["provision_error"]


def _prepare(tx: Tx) -> Batch:
    batch = begin_publication(tx, find_platform_domain(tx, "example.test").id)
    assert batch is not None
    return batch


def test_the_same_change_twice_at_once_stands_once(outage: Outage) -> None:
    service = outage.service
    ada = service.add_user()

    async def change_at_once(batch: Batch) -> None:
        databases: list[Database] = [
            open_database(service.settings.database_url, may_lose_writes=True) for _ in range(4)
        ]
        try:
            await asyncio.gather(*(database.write(change_zone, batch) for database in databases))
        finally:
            for database in databases:
                await database.close()

    with outage.held():
        for number in range(50):
            service.register(ada, f"n{number}.example.test", nameservers=["ns1.provider.example"])
        batch = service.write(_prepare)
        asyncio.run(change_at_once(batch))
        found = service.read(lambda tx: zone_store.list_zone_records(tx, batch.platform_domain_id))
    assert len(found) == 50
    assert Counter(found).most_common(1)[0][1] == 1
