"""The publisher: send the desired records to zones on primaries, read them back, and record what is
published.

The publisher is level-triggered: it publishes the names whose generation differs from the published
generation. Each zone has its own task, so that an unreachable name server delays no other zone. A commit of
this process wakes the publisher at once; the publisher finds commits of other processes (the operator's
commands) within `POLL_SECONDS`.

One worker publishes a zone, under the zone's lease (`processes/leases.py`), and gives the lease back when no
name waits. If the worker is killed, another worker takes over after the lease has expired.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import NoReturn

import structlog
from msgspec import Struct

from sublet.db import Database, Tx
from sublet.errors import Unavailable
from sublet.primaries import store as publish_store
from sublet.primaries.primary import IN_USE, NOT_APPLIED, SENTENCES, PrimaryFault
from sublet.primaries.primary_zone import BatchRefused, BatchStale, FindPrimary, PrimaryZone, ReadBack
from sublet.primaries.publisher_transactions import (
    Batch,
    Result,
    begin_probe,
    begin_publication,
    record_publication,
    record_refusal,
    record_zone_fault,
)
from sublet.primaries.update import fence_name
from sublet.processes.leases import (
    PUBLISH_FOR,
    RENEWALS,
    give_back_lease,
    list_held_by_others,
    publish_lease,
    renew_best_effort,
    take_lease,
    under_lease,
)
from sublet.processes.model import Lease, LeaseLost
from sublet.processes.repeat import FAULT_PAUSE_SECONDS, repeat
from sublet.structs import replace

POLL_SECONDS = 0.25
STALE_PAUSE_SECONDS = 0.05
STALE_MAX = 20
"""After this many stale batches in a row the zone backs off. Two servers behind one address can cause stale
batches.
"""
QUERY_PAUSE_SECONDS = 0.02
"""The minimum pause between two queries for waiting names. Each commit wakes the publisher, but most commits
change no zone.
"""
STAND_BACK_SECONDS = 0.02
"""How long a worker lets other workers take a zone first, for each zone that the worker publishes already."""
STAND_BACK_ZONES_MAX = 10
log = structlog.get_logger()


class _BackOff(Exception):  # noqa: N818 - no error: the zone is tried again later
    """Nothing can be published in a zone now. The reason is stored."""


class _ZoneWork(Struct):
    """The work of this process on one zone. `has_failed` is True from a back-off until the next task."""

    platform_domain_id: int
    zone: PrimaryZone
    task: asyncio.Task[None] | None = None
    lease: Lease | None = None
    has_failed: bool = False
    stale_count: int = 0

    @property
    def is_running(self) -> bool:
        return self.task is not None and not self.task.done()


class Publisher:
    """Publishes zones on the primaries that `find_primary` returns.

    `batch_max` has the maximum number of names in a batch, by the name of the primary. `on_published` is
    called with the time from the change of a name to its publication. `holder` identifies this process as a
    holder of leases. `is_alone` returns True while no other worker runs. `outcomes` counts names
    ("published", "failed"), `causes` counts failed names by `primaries.primary.CAUSES`.
    """

    def __init__(
        self,
        db: Database,
        find_primary: FindPrimary,
        *,
        batch_max: Mapping[str, int],
        on_published: Callable[[timedelta], None] = lambda _: None,
        holder: str,
        is_alone: Callable[[], bool],
    ) -> None:
        self._db = db
        self._find_primary = find_primary
        self._batch_max = batch_max
        self._on_published = on_published
        self._holder = holder
        self._is_alone = is_alone
        self._work: dict[int, _ZoneWork] = {}
        self.outcomes: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()

    async def run(self) -> None:
        """Publish until cancelled."""
        renewing = asyncio.create_task(self._renew())
        try:
            await repeat(self._step, "publisher_fault")
        finally:
            ending = [renewing, *(each.task for each in self._work.values() if each.task is not None)]
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)

    async def _step(self) -> float:
        await self.publish_waiting()
        await self._db.changed(POLL_SECONDS)
        return QUERY_PAUSE_SECONDS

    async def _renew(self) -> None:
        """Renew the leases of this publisher, because a name server may take longer to answer than a lease
        lasts.
        """
        while True:
            await asyncio.sleep(PUBLISH_FOR.total_seconds() / RENEWALS)
            try:
                leases = [each.lease for each in self._work.values() if each.lease is not None]
                await asyncio.gather(*(renew_best_effort(self._db, each, PUBLISH_FOR) for each in leases))
            except Exception:
                log.exception("publisher_fault")

    async def publish_waiting(self) -> None:
        """Start a task for each zone with waiting names, unless a task or another worker publishes the zone
        already.
        """
        is_alone = self._is_alone()
        waiting = await (
            self._db.read(publish_store.list_waiting_platform_domain_ids)
            if is_alone
            else self._db.read(_list_waiting_for, self._holder)
        )
        if not is_alone:
            random.shuffle(waiting)  # Otherwise all workers compete for the same zone first.
        for platform_domain_id in waiting:
            work = self._zone_work(platform_domain_id)
            if not work.is_running:
                seconds = 0.0 if is_alone else self._stand_back_seconds(work)
                work.has_failed = False
                work.task = asyncio.create_task(self._publish_zone(work, seconds))

    def _zone_work(self, platform_domain_id: int) -> _ZoneWork:
        work = self._work.get(platform_domain_id)
        if work is None:
            zone = PrimaryZone(self._db, self._find_primary)
            work = self._work[platform_domain_id] = _ZoneWork(platform_domain_id, zone)
        return work

    def _stand_back_seconds(self, work: _ZoneWork) -> float:
        """Return how long to let other workers take a zone first.

        They may have fewer zones, or may reach the zone's name server.
        """
        running = sum(each.is_running for each in self._work.values())
        zones = STAND_BACK_ZONES_MAX if work.has_failed else min(running, STAND_BACK_ZONES_MAX)
        return STAND_BACK_SECONDS * zones

    async def _publish_zone(self, work: _ZoneWork, stand_back_seconds: float) -> None:
        """Publish until nothing waits in a zone, or the zone backs off."""
        try:
            if stand_back_seconds > 0:
                await asyncio.sleep(stand_back_seconds)
            await self._publish_batches(work)
        except LeaseLost as lost:
            if work.lease is not None:  # otherwise another worker took the zone first
                log.warning("zone_taken_over", lease=str(lost))
        except Unavailable:
            await asyncio.sleep(FAULT_PAUSE_SECONDS)
        except Exception:
            log.exception("publisher_fault", platform_domain_id=work.platform_domain_id)
            await asyncio.sleep(FAULT_PAUSE_SECONDS)
        finally:
            work.lease = None

    async def _publish_batches(self, work: _ZoneWork) -> None:
        """Send each batch while the previous batch is read back and recorded. No name is in both."""
        recording: asyncio.Task[None] | None = None
        sent = frozenset[int]()
        try:
            while True:
                batch = await self._begin_next(work, besides=sent)
                if batch is None and recording is None:
                    return
                try:
                    read_back = None if batch is None else await self._change(batch)
                except _BackOff:
                    if recording is not None:
                        await recording
                    raise
                if recording is not None:
                    await recording
                recording, sent = None, frozenset()
                if batch is not None and read_back is not None:
                    recording = asyncio.create_task(self._read_back_and_record(batch, read_back))
                    sent = frozenset(item.subdomain_id for item in batch.items)
        except _BackOff:
            await self._give_back(work)
        finally:
            if recording is not None:
                recording.cancel()
                await asyncio.gather(recording, return_exceptions=True)

    async def _begin_next(self, work: _ZoneWork, besides: Collection[int]) -> Batch | None:
        """Begin a batch of any waiting names except `besides`.

        If nothing waits and there are other workers, give the lease back.
        """
        is_alone = self._is_alone()
        if is_alone and work.lease is not None:
            # Usually nothing waits after a batch. A single worker keeps its lease, so this read saves a write
            # transaction.
            is_any_waiting = await self._db.read(
                publish_store.is_any_waiting, work.platform_domain_id, besides
            )
            if not is_any_waiting:
                return None
        gives_back = not besides and not is_alone
        if gives_back:
            work.lease = None  # so that `_renew` doesn't renew the lease after its end
        return await self._begin(work, besides=besides, gives_back=gives_back)

    async def _begin(
        self,
        work: _ZoneWork,
        *,
        among: Collection[int] | None = None,
        besides: Collection[int] = (),
        gives_back: bool = False,
    ) -> Batch | None:
        batch = await self._db.write(
            _begin_under_lease,
            self._holder,
            work.platform_domain_id,
            self._batch_max,
            among,
            besides,
            gives_back=gives_back,
        )
        if batch is not None:
            work.lease = batch.lease
        return batch

    async def _give_back(self, work: _ZoneWork) -> None:
        """Give back the lease of a zone that this worker can't publish, so that another worker may try."""
        lease, work.lease = work.lease, None
        if lease is not None and not self._is_alone():
            work.has_failed = True
            with suppress(Unavailable):
                await self._db.write(give_back_lease, lease)

    async def _change(self, batch: Batch) -> ReadBack | None:
        """Change the zone by a batch, and return the function that reads the batch back, or None.

        A refused batch is halved until the name that causes the refusal is alone. This method and the methods
        below raise `_BackOff` if the zone accepts no changes now.
        """
        try:
            return await self._zone_work(batch.platform_domain_id).zone.change(batch)
        except BatchStale:
            await self._note_stale(batch)
        except PrimaryFault as fault:
            await self._back_off(batch, fault)
        except BatchRefused as refusal:
            await self._halve(batch, refusal)
        return None

    async def _read_back_and_record(self, batch: Batch, read_back: ReadBack) -> None:
        try:
            results = await read_back()
        except PrimaryFault as fault:
            await self._back_off(batch, fault)
        self._zone_work(batch.platform_domain_id).stale_count = 0
        by_id = {result.item.subdomain_id: result for result in results}
        for took in await self._db.write(under_lease, batch.lease, record_publication, by_id, batch):
            self._on_published(took)
        self._count(batch.zone, results)
        for each in results:
            if each.error is not None:
                log.warning("name_fault", zone=batch.zone, name=each.item.fqdn, cause=each.cause)

    async def _note_stale(self, batch: Batch) -> None:
        """Count a stale batch, and pause before the next attempt.

        After `STALE_MAX` stale batches in a row back off.
        """
        work = self._zone_work(batch.platform_domain_id)
        work.stale_count += 1
        if work.stale_count < STALE_MAX:
            await asyncio.sleep(STALE_PAUSE_SECONDS)
            return
        work.stale_count = 0
        await self._back_off(
            batch,
            PrimaryFault(
                "fence",
                f"the fence record `{fence_name(batch.zone)}` changed before each of the last {STALE_MAX} "
                "batches. Check that one server answers at the primary's address, and that nothing else "
                "writes the record.",
            ),
        )

    async def _halve(self, batch: Batch, refusal: BatchRefused) -> None:
        """Halve a refused batch until each refused name is alone, unless the zone
        accepts no change at all.
        """
        if refusal.cause != "in_use" and refusal.was_sent:
            try:
                await self._probe(batch)
            except PrimaryFault as fault:
                await self._back_off(batch, fault)
            except BatchStale:
                await self._note_stale(batch)
                return
        if len(batch.items) == 1:
            await self._record_refusal(batch, refusal)
            return
        middle = len(batch.items) // 2
        for items in (batch.items[:middle], batch.items[middle:]):
            among = [item.subdomain_id for item in items]
            half = await self._begin(self._zone_work(batch.platform_domain_id), among=among)
            if half is not None:
                read_back = await self._change(half)
                if read_back is not None:
                    await self._read_back_and_record(half, read_back)

    async def _record_refusal(self, batch: Batch, refusal: BatchRefused) -> None:
        (item,) = batch.items
        sentence = IN_USE if refusal.cause == "in_use" else NOT_APPLIED
        result = Result(item, error=sentence, cause=refusal.cause, nothing_applied=True)
        await self._db.write(under_lease, batch.lease, record_refusal, batch.platform_domain_id, result)
        self._count(batch.zone, [result])
        log.warning("name_fault", zone=batch.zone, name=item.fqdn, cause=refusal.cause, detail=str(refusal))

    async def _probe(self, batch: Batch) -> None:
        """Send an update without names, which replaces the fence, so that the server can't apply the batch
        any more.

        Raises:
            PrimaryFault: why the zone accepts no updates.
            BatchStale: the fence has changed since the batch was begun, or the zone has left its primary.
        """
        probe = await self._db.write(under_lease, batch.lease, begin_probe, batch.platform_domain_id)
        if probe is None:
            raise BatchStale
        probe = replace(probe, lease=batch.lease)
        await self._zone_work(probe.platform_domain_id).zone.change(probe)
        await self._db.write(under_lease, batch.lease, record_publication, {}, probe)

    async def _back_off(self, batch: Batch, fault: PrimaryFault) -> NoReturn:
        """Record why nothing can be published in a zone now, and raise `_BackOff`."""
        sentence = SENTENCES.get(fault.cause, NOT_APPLIED)
        await self._db.write(
            under_lease,
            batch.lease,
            record_zone_fault,
            batch.platform_domain_id,
            batch.items,
            fault.cause,
            str(fault),
            sentence,
        )
        self._count(batch.zone, [Result(item, error=sentence, cause=fault.cause) for item in batch.items])
        log.warning("zone_fault", zone=batch.zone, cause=fault.cause, detail=str(fault))
        raise _BackOff from fault

    def _count(self, zone: str, results: Sequence[Result]) -> None:
        causes = [result.cause or "failure" for result in results if result.error is not None]
        self.causes.update(causes)
        self.outcomes.update(published=len(results) - len(causes), failed=len(causes))
        if results:
            log.info("published", zone=zone, names=len(results) - len(causes), failed=len(causes))


def _list_waiting_for(tx: Tx, holder: str) -> list[int]:
    """Return the ids of the platform domains with waiting names, except those that
    another holder publishes.
    """
    waiting = publish_store.list_waiting_platform_domain_ids(tx)
    if not waiting:
        return []
    held = list_held_by_others(tx, [publish_lease(each) for each in waiting], holder)
    return [each for each in waiting if publish_lease(each) not in held]


def _begin_under_lease(
    tx: Tx,
    holder: str,
    platform_domain_id: int,
    batch_max: Mapping[str, int],
    among: Collection[int] | None,
    besides: Collection[int],
    *,
    gives_back: bool,
) -> Batch | None:
    """Take or renew a zone's lease and return the next batch.

    If no name waits, return None and, with `gives_back`, give the lease back.

    Raises:
        LeaseLost: another worker has the lease.
    """
    lease = take_lease(tx, publish_lease(platform_domain_id), holder, PUBLISH_FOR)
    if lease is None:
        raise LeaseLost(publish_lease(platform_domain_id))
    batch = begin_publication(tx, platform_domain_id, batch_max, among, besides)
    if batch is None and gives_back:
        give_back_lease(tx, lease)
    return None if batch is None else replace(batch, lease=lease)
