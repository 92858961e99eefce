"""Two publishers, or one that was long away: what was prepared earlier never overwrites what is newer."""

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest

from guards import check_stale_change_is_refused
from outage import Outage, service_with_outage
from sublet.db import Database, Tx, open_database
from sublet.platform_domains import zone_store
from sublet.platform_domains.find import find_platform_domain
from sublet.subdomains import change_zone as module
from sublet.subdomains.change_zone import change_zone
from sublet.subdomains.publishing import Batch, begin_publication


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


def test_the_same_change_twice_at_once_stands_once(outage: Outage) -> None:
    service = outage.service
    ada = service.add_user()

    def prepare(tx: Tx) -> Batch:
        batch = begin_publication(tx, find_platform_domain(tx, "example.test").id)
        assert batch is not None
        return batch

    async def change_at_once(batch: Batch) -> None:
        databases: list[Database] = [open_database(service.settings.database_url) for _ in range(4)]
        try:
            await asyncio.gather(*(database.write(change_zone, batch) for database in databases))
        finally:
            for database in databases:
                await database.close()

    with outage.held():
        for number in range(50):
            service.register(ada, f"n{number}.example.test", nameservers=["ns1.provider.example"])
        batch = service.write(prepare)
        asyncio.run(change_at_once(batch))
        found = service.read(lambda tx: zone_store.list_zone_records(tx, batch.platform_domain_id))
    assert len(found) == 50
    assert Counter(found).most_common(1)[0][1] == 1
