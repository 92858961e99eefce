"""The publisher: brings what the registry wants into the zones, and believes only what it reads back.

Level-triggered: it looks which names' generation is not the published one, and works on those, a batch a zone. Each zone has a task
of its own, so that one whose name server is away keeps no other back; what comes while one message is under way goes with the
next. A change in this process wakes it at once; changes of other processes (the operator's command line) are seen within
`POLL_SECONDS`.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import structlog

from sublet.db import Database, Tx
from sublet.dns.primary import PrimaryFault
from sublet.dns.types import Primary
from sublet.errors import Unavailable
from sublet.platform_domains import zone_state_store
from sublet.subdomains import publish_store
from sublet.subdomains.publishing import (
    Batch,
    Result,
    begin_probe,
    begin_publication,
    record_publication,
    record_refusal,
    record_zone_fault,
)
from sublet.worker.built_in_zone import BuiltInZone
from sublet.worker.judgement import IN_USE, NOT_APPLIED, SENTENCES
from sublet.worker.primary_zone import FindPrimary, PrimaryZone
from sublet.worker.zones import BatchRefused, BatchStale, ReadBack, Zone

POLL_SECONDS = 0.25
FAULT_PAUSE_SECONDS = 1.0
STALE_PAUSE_SECONDS = 0.05
STALE_MAX = 20
"""How often in a row a zone may be found changed by somebody else before it rests: what stands at its address may be two servers."""
log = structlog.get_logger()


def _no_primary(name: str) -> Primary:
    raise PrimaryFault("settings", f"the settings have no primary {name!r}", certain=True)


class Publisher:
    """Publishes through the built-in name servers, which answer at `built_in`, and the primaries that `find_primary` gives.

    `batch_max` has by primary how many names one message carries at most, as for `begin_publication`.
    `outcomes` counts what became of names ("published", "failed"), `causes` why not, by `dns.primary.CAUSES`. `on_published` is
    told how long each name took from its change to its publication.
    """

    def __init__(
        self,
        db: Database,
        built_in: Sequence[tuple[str, int]],
        find_primary: FindPrimary = _no_primary,
        *,
        batch_max: Mapping[str, int] = {},
        on_published: Callable[[timedelta], None] = lambda _: None,
    ) -> None:
        self._db = db
        self.built_in = BuiltInZone(db, built_in)
        self._find_primary = find_primary
        self._batch_max = batch_max
        self._on_published = on_published
        self._zones: dict[int, PrimaryZone] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._stale_counts: Counter[int] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()

    async def run(self) -> None:
        """Publish for ever; a fault is logged and waited out, it never ends the loop."""
        try:
            while True:
                try:
                    await self.publish_waiting()
                    await self._db.changed(POLL_SECONDS)
                except Unavailable:
                    await asyncio.sleep(FAULT_PAUSE_SECONDS)
                except Exception:
                    log.exception("publisher_fault")
                    await asyncio.sleep(FAULT_PAUSE_SECONDS)
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def publish_waiting(self) -> None:
        """Have every zone in which names wait published by a task of its own; those that have one go on."""
        for platform_domain_id in await self._db.read(_list_waiting):
            if platform_domain_id not in self._tasks:
                task = asyncio.create_task(self._publish_zone(platform_domain_id))
                self._tasks[platform_domain_id] = task
                task.add_done_callback(lambda _, of=platform_domain_id: self._tasks.pop(of, None))  # type: ignore[misc]

    async def _publish_zone(self, platform_domain_id: int) -> None:
        """Publish batch by batch until nothing waits in a zone, or it has to rest.

        While one batch is read back and recorded the next is sent already; it has none of its names.
        """
        recording: asyncio.Task[bool] | None = None
        try:
            goes_on, sent = True, frozenset[int]()
            while goes_on:
                batch = await self._db.write(
                    begin_publication, platform_domain_id, self._batch_max, None, sent
                )
                if batch is None and recording is None:
                    return
                changed = True if batch is None else await self._change(batch)
                goes_on = (recording is None or await recording) and changed is not False
                recording, sent = None, frozenset()
                if goes_on and batch is not None and callable(changed):
                    recording = asyncio.create_task(self._record(batch, changed))
                    sent = frozenset(item.subdomain_id for item in batch.items)
        except Unavailable:
            await asyncio.sleep(FAULT_PAUSE_SECONDS)
        except Exception:
            log.exception("publisher_fault", platform_domain_id=platform_domain_id)
            await asyncio.sleep(FAULT_PAUSE_SECONDS)
        finally:
            if recording is not None:
                recording.cancel()
                await asyncio.gather(recording, return_exceptions=True)

    async def _publish(self, batch: Batch) -> bool:
        """Publish a batch from its change to its record; tell whether the zone goes on."""
        changed = await self._change(batch)
        return await self._record(batch, changed) if callable(changed) else changed

    async def _change(self, batch: Batch) -> ReadBack | bool:
        """Change the zone by a batch; one that is refused whole is halved until the poison stands alone.

        Returns what reads the change back; where there is nothing to read back, whether the zone goes on.
        """
        try:
            return await self._zone(batch).change(batch)
        except BatchStale:
            return await self._begin_anew(batch)
        except PrimaryFault as fault:
            await self._rest(batch, fault)
            return False
        except BatchRefused as refusal:
            return await self._narrow(batch, refusal)

    async def _record(self, batch: Batch, read_back: ReadBack) -> bool:
        """Read back what was changed and record what came of it; tell whether the zone goes on."""
        try:
            results = await read_back()
        except PrimaryFault as fault:
            await self._rest(batch, fault)
            return False
        self._stale_counts.pop(batch.platform_domain_id, None)
        by_id = {result.item.subdomain_id: result for result in results}
        for took in await self._db.write(record_publication, by_id, batch):
            self._on_published(took)
        self._count(batch.zone, results)
        for each in results:
            if each.error is not None:
                log.warning("name_fault", zone=batch.zone, name=each.item.fqdn, cause=each.cause)
        return True

    async def _begin_anew(self, batch: Batch) -> bool:
        """Let a batch be begun anew: another publisher may be at work in this zone. Not for ever: then the zone rests."""
        self._stale_counts[batch.platform_domain_id] += 1
        if self._stale_counts[batch.platform_domain_id] < STALE_MAX:
            await asyncio.sleep(STALE_PAUSE_SECONDS)
            return True
        del self._stale_counts[batch.platform_domain_id]
        await self._rest(batch, PrimaryFault("fence", f"the fence of {batch.zone} is another at each look"))
        return False

    async def _narrow(self, batch: Batch, refusal: BatchRefused) -> bool:
        """Find out what is refused: the zone's every change, or some names of the batch."""
        if refusal.cause != "in_use" and batch.primary and refusal.was_sent:
            try:
                await self._probe(batch)
            except PrimaryFault as fault:
                await self._rest(batch, fault)
                return False
            except BatchStale:
                return await self._begin_anew(batch)
        if len(batch.items) == 1:
            sentence = IN_USE if refusal.cause == "in_use" else NOT_APPLIED
            result = Result(batch.items[0], error=sentence, cause=refusal.cause, nothing_sent=True)
            await self._db.write(record_refusal, batch.platform_domain_id, result)
            self._count(batch.zone, [result])
            log.warning(
                "name_fault",
                zone=batch.zone,
                name=batch.items[0].fqdn,
                cause=refusal.cause,
                detail=str(refusal),
            )
            return True
        middle = len(batch.items) // 2
        for items in (batch.items[:middle], batch.items[middle:]):
            among = [item.subdomain_id for item in items]
            half = await self._db.write(begin_publication, batch.platform_domain_id, self._batch_max, among)
            if half is not None and not await self._publish(half):
                return False
        return True

    async def _probe(self, batch: Batch) -> None:
        """Send an update without any name: return if the zone takes it, and then the batch can't be applied any more.

        Raises:
            PrimaryFault: why the zone takes none.
            BatchStale: the zone has changed since.
        """
        probe = await self._db.write(begin_probe, batch.platform_domain_id)
        if probe is None:
            raise BatchStale
        await self._zone(probe).change(probe)
        await self._db.write(record_publication, {}, probe)

    async def _rest(self, batch: Batch, fault: PrimaryFault) -> None:
        """Let a zone in which nothing can be published rest for a moment."""
        sentence = SENTENCES.get(fault.cause, NOT_APPLIED)
        await self._db.write(
            record_zone_fault, batch.platform_domain_id, batch.items, fault.cause, str(fault), sentence
        )
        self._count(batch.zone, [Result(item, error=sentence, cause=fault.cause) for item in batch.items])
        log.warning("zone_fault", zone=batch.zone, cause=fault.cause, detail=str(fault))

    def _zone(self, batch: Batch) -> Zone:
        if not batch.primary:
            return self.built_in
        return self._zones.setdefault(batch.platform_domain_id, PrimaryZone(self._db, self._find_primary))

    def _count(self, zone: str, results: Sequence[Result]) -> None:
        causes = [result.cause or "failure" for result in results if result.error is not None]
        self.causes.update(causes)
        self.outcomes.update(published=len(results) - len(causes), failed=len(causes))
        if results:
            log.info("published", zone=zone, names=len(results) - len(causes), failed=len(causes))


def _list_waiting(tx: Tx) -> list[int]:
    resting = zone_state_store.list_resting_platform_domain_ids(tx)
    return [each for each in publish_store.list_waiting_platform_domain_ids(tx) if each not in resting]
