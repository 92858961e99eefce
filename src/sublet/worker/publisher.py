"""The publisher: brings what the registry wants into the zones, and believes only what it reads back.

Level-triggered: it looks which names' generation is not the published one, and works on those, a batch a zone. A change in this
process wakes it at once; changes of other processes (the operator's command line) are seen within `POLL_SECONDS`.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping

import structlog

from sublet.db import Database
from sublet.dns.types import Record
from sublet.dns.verify import ReadBackFailed, matches, read_back
from sublet.errors import Unavailable
from sublet.subdomains import publish_store
from sublet.subdomains.change_zone import ZoneChanged, change_zone
from sublet.subdomains.publishing import Batch, Item, Result, begin_publication, record_publication

POLL_SECONDS = 0.25
READ_BACK_TIMEOUT_SECONDS = 5.0
FAULT_PAUSE_SECONDS = 1.0
IN_USE = "The name is in use in the zone by records that the registry did not write; the operator has to look at it."
DIFFERENT = "The name server does not answer with this delegation yet; it is tried again by itself."
NOT_APPLIED = "The name server refused this delegation; the operator has to look at it."
log = structlog.get_logger()


class Publisher:
    """Publishes through the built-in name server, which listens at `address`.

    `outcomes` counts what became of names ("published", "failed"), for the metrics.
    """

    def __init__(self, db: Database, address: tuple[str, int]) -> None:
        self._db = db
        self._address = address
        self.outcomes: Counter[str] = Counter()

    async def run(self) -> None:
        """Publish for ever; a fault is logged and waited out, it never ends the loop."""
        while True:
            try:
                if not await self.publish_waiting():
                    await self._db.changed(POLL_SECONDS)
            except Unavailable:
                await asyncio.sleep(FAULT_PAUSE_SECONDS)
            except Exception:
                log.exception("publisher_fault")
                await asyncio.sleep(FAULT_PAUSE_SECONDS)

    async def publish_waiting(self) -> bool:
        """Publish one batch of every platform domain where names wait; tell whether there was any."""
        waiting = await self._db.read(publish_store.list_waiting_platform_domain_ids)
        for platform_domain_id in waiting:
            batch = await self._db.write(begin_publication, platform_domain_id)
            if batch is not None:
                await self._publish(batch)
        return bool(waiting)

    async def _publish(self, batch: Batch) -> None:
        results = await self._send(batch)
        await self._db.write(record_publication, {result.item.subdomain_id: result for result in results})
        failed = sum(result.error is not None for result in results)
        self.outcomes.update(published=len(results) - failed, failed=failed)
        log.info("published", zone=batch.zone, names=len(results) - failed, failed=failed)

    async def _send(self, batch: Batch) -> list[Result]:
        """Change the zone and read it back; a batch that is refused whole is halved until the poison stands alone."""
        try:
            changed = await self._db.write(change_zone, batch)
        except Unavailable:
            raise
        except Exception:
            log.exception(
                "zone_change_refused", zone=batch.zone, names=[item.fqdn for item in batch.items][:10]
            )
            if len(batch.items) == 1:
                return [Result(batch.items[0], error=NOT_APPLIED, nothing_sent=True)]
            middle = len(batch.items) // 2
            halves = (batch.items[:middle], batch.items[middle:])
            return [
                result
                for items in halves
                for result in await self._send(Batch(batch.platform_domain_id, batch.zone, items))
            ]
        return await self._read_back(batch, changed)

    async def _read_back(self, batch: Batch, changed: ZoneChanged) -> list[Result]:
        # Stale ones are neither published nor failed: they wait in their newer generation.
        left_out = changed.refused_ids | changed.stale_ids
        sent = [item for item in batch.items if item.subdomain_id not in left_out]
        refused = [
            Result(item, error=IN_USE, nothing_sent=True)
            for item in batch.items
            if item.subdomain_id in changed.refused_ids
        ]
        if not sent:
            return refused
        gone = sorted({owner for item in sent for owner in item.owners - _owners(item)})
        try:
            served = await read_back(
                self._address,
                [item.fqdn for item in sent],
                timeout_seconds=READ_BACK_TIMEOUT_SECONDS,
                also_absent=gone,
            )
        except ReadBackFailed as error:
            log.warning("read_back_failed", zone=batch.zone, error=str(error))
            return refused + [Result(item, error=DIFFERENT) for item in sent]
        return refused + [_judge(item, served, changed.serial) for item in sent]


def _owners(item: Item) -> frozenset[str]:
    return frozenset(record.owner for record in item.desired)


def _judge(item: Item, served: Mapping[str, tuple[Record, ...]], serial: int) -> Result:
    """Published is only what the server answers with exactly, and of which nothing older is left."""
    left_over = [owner for owner in item.owners - _owners(item) if served[owner]]
    if left_over or not matches(item.desired, served[item.fqdn]):
        return Result(item, error=DIFFERENT)
    return Result(item, serial=serial)
