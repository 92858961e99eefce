"""The publisher: brings what the registry wants into the zones, and believes only what it reads back.

Level-triggered: it looks which names' generation is not the published one, and works on those, a batch a zone. Each zone has a task
of its own, so that one whose name server is away keeps no other back; what comes while one message is under way goes with the
next. A change in this process wakes it at once; changes of other processes (the operator's command line) are seen within
`POLL_SECONDS`.

Of several workers one publishes a zone: it holds the zone's lease, which each of its writes holds again (`worker/leased.py`). It gives
the lease back when nothing waits, if there are others; who dies is followed by another once the lease has run out.
"""

import asyncio
import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import structlog

from sublet.db import Database, Tx
from sublet.dns.primary import PrimaryFault
from sublet.dns.types import Primary
from sublet.errors import Unavailable
from sublet.processes.leases import (
    PUBLISH_FOR,
    give_back_lease,
    list_held_by_others,
    publish_lease,
    take_lease,
)
from sublet.processes.model import Lease, LeaseLost
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
from sublet.worker.leased import RENEWALS, renew, under
from sublet.worker.primary_zone import FindPrimary, PrimaryZone
from sublet.worker.zones import BatchRefused, BatchStale, ReadBack, Zone

POLL_SECONDS = 0.25
FAULT_PAUSE_SECONDS = 1.0
STALE_PAUSE_SECONDS = 0.05
STALE_MAX = 20
"""How often in a row a zone may be found changed by somebody else before it rests: what stands at its address may be two servers."""
SMALL_BATCH = 20
"""How many names a batch has at least whose zone needs no rest."""
REST_TIMES = 4
"""How many times as long as its batch took to be sent a zone rests, for each name of it."""
LOOK_REST_TIMES = 10
"""How many times as long as it took the look for zones rests: meanwhile the zones that were found go on by themselves."""
REST_MAX_SECONDS = 0.05
STAND_BACK_SECONDS = 0.02
"""How long a worker lets others go first, where there are others: so long for each zone that it works on."""
STAND_BACK_ZONES_MAX = 10
log = structlog.get_logger()
Begin = Callable[..., Batch | None]


def _no_primary(name: str) -> Primary:
    raise PrimaryFault("settings", f"the settings have no primary {name!r}", certain=True)


class Publisher:
    """Publishes through the built-in name servers, which answer at `built_in`, and the primaries that `find_primary` gives.

    `batch_max` has by primary how many names one message carries at most, as for `begin_publication`.
    `outcomes` counts what became of names ("published", "failed"), `causes` why not, by `dns.primary.CAUSES`. `on_published` is
    told how long each name took from its change to its publication. `holder` is this process as a holder of leases, `is_alone` tells
    that no other worker is known.
    """

    def __init__(
        self,
        db: Database,
        built_in: Sequence[tuple[str, int]],
        find_primary: FindPrimary = _no_primary,
        *,
        batch_max: Mapping[str, int] = {},
        on_published: Callable[[timedelta], None] = lambda _: None,
        holder: str = "",
        is_alone: Callable[[], bool] = lambda: True,
    ) -> None:
        self._db = db
        self.built_in = BuiltInZone(db, built_in)
        self._find_primary = find_primary
        self._batch_max = batch_max
        self._on_published = on_published
        self._holder = holder or str(uuid.uuid4())
        self._is_alone = is_alone
        self._zones: dict[int, PrimaryZone] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._leases: dict[int, Lease] = {}
        self._faulty: set[int] = set()
        self._stale_counts: Counter[int] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()

    async def run(self) -> None:
        """Publish for ever; a fault is logged and waited out, it never ends the loop."""
        renewing = asyncio.create_task(self._renew())
        try:
            while True:
                try:
                    began = time.monotonic()
                    await self.publish_waiting()
                    ended = time.monotonic()
                    await self._db.changed(POLL_SECONDS)
                    # Where much is committed one look is for all of it.
                    rest_ends = ended + min(LOOK_REST_TIMES * (ended - began), REST_MAX_SECONDS)
                    await asyncio.sleep(max(0.0, rest_ends - time.monotonic()))
                except Unavailable:
                    await asyncio.sleep(FAULT_PAUSE_SECONDS)
                except Exception:
                    log.exception("publisher_fault")
                    await asyncio.sleep(FAULT_PAUSE_SECONDS)
        finally:
            ending = [renewing, *self._tasks.values()]
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)

    async def _renew(self) -> None:
        """Renew the leases of the zones that are being worked on: a name server may take longer for its answers than they last."""
        while True:
            await asyncio.sleep(PUBLISH_FOR.total_seconds() / RENEWALS)
            try:
                await asyncio.gather(
                    *(renew(self._db, each, PUBLISH_FOR) for each in tuple(self._leases.values()))
                )
            except Exception:
                log.exception("publisher_fault")

    async def publish_waiting(self) -> None:
        """Have every zone in which names wait published by a task of its own; those that have one go on.

        What another worker publishes is left to it.
        """
        is_alone = self._is_alone()
        waiting = await (
            self._db.read(publish_store.list_waiting_platform_domain_ids)
            if is_alone
            else self._db.read(_list_waiting_for, self._holder)
        )
        if not is_alone:
            random.shuffle(waiting)  # else all begin with the same
        for platform_domain_id in waiting:
            if platform_domain_id not in self._tasks:
                seconds = 0.0 if is_alone else self._stand_back_seconds(platform_domain_id)
                task = asyncio.create_task(self._publish_zone(platform_domain_id, seconds))
                self._tasks[platform_domain_id] = task
                task.add_done_callback(lambda _, of=platform_domain_id: self._tasks.pop(of, None))  # type: ignore[misc]

    def _stand_back_seconds(self, platform_domain_id: int) -> float:
        """Return for how long other workers may go first in a zone: those that have fewer zones, or no trouble with this one."""
        zones = STAND_BACK_ZONES_MAX if platform_domain_id in self._faulty else len(self._tasks)
        self._faulty.discard(platform_domain_id)
        return STAND_BACK_SECONDS * min(zones, STAND_BACK_ZONES_MAX)

    async def _publish_zone(self, platform_domain_id: int, stand_back_seconds: float) -> None:
        """Publish batch by batch until nothing waits in a zone, or it has to rest.

        While one batch is read back and recorded the next is sent already; it has none of its names.
        """
        recording: asyncio.Task[bool] | None = None
        try:
            if stand_back_seconds > 0:
                await asyncio.sleep(stand_back_seconds)
            goes_on, sent, rest_seconds = True, frozenset[int](), 0.0
            while goes_on:
                await asyncio.sleep(rest_seconds)
                began = time.monotonic()
                batch = await self._begin(platform_domain_id, besides=sent)
                if batch is None and recording is None:
                    return
                changed = True if batch is None else await self._change(batch)
                rest_seconds = (
                    0.0 if batch is None else rest_after(len(batch.items), time.monotonic() - began)
                )
                goes_on = (recording is None or await recording) and changed is not False
                recording, sent = None, frozenset()
                if goes_on and batch is not None and callable(changed):
                    recording = asyncio.create_task(self._record(batch, changed))
                    sent = frozenset(item.subdomain_id for item in batch.items)
            await self._give_back(platform_domain_id)
        except LeaseLost as lost:
            if platform_domain_id in self._leases:  # else another has had it before we began
                log.warning("zone_taken_over", lease=str(lost))
        except Unavailable:
            await asyncio.sleep(FAULT_PAUSE_SECONDS)
        except Exception:
            log.exception("publisher_fault", platform_domain_id=platform_domain_id)
            await asyncio.sleep(FAULT_PAUSE_SECONDS)
        finally:
            self._leases.pop(platform_domain_id, None)
            if recording is not None:
                recording.cancel()
                await asyncio.gather(recording, return_exceptions=True)

    async def _begin(
        self, platform_domain_id: int, among: Collection[int] | None = None, besides: Collection[int] = ()
    ) -> Batch | None:
        """Begin a batch under the zone's lease; the one that finds nothing left to do gives it back, where others may want it.

        Raises:
            LeaseLost: another worker has the zone.
        """
        is_alone = self._is_alone()
        if is_alone and among is None and platform_domain_id in self._leases:
            # After the first batch mostly nothing waits; whoever is alone may keep the lease, and has nothing to write then.
            waits = await self._db.read(publish_store.is_any_waiting, platform_domain_id, besides)
            if not waits:
                return None
        gives_back = among is None and not besides and not is_alone
        if gives_back:
            self._leases.pop(platform_domain_id, None)  # so that it is not renewed after that
        batch = await self._db.write(
            _begin_under_lease,
            begin_publication,
            self._holder,
            platform_domain_id,
            self._batch_max,
            among,
            besides,
            gives_back=gives_back,
        )
        if batch is not None and batch.lease is not None:
            self._leases[platform_domain_id] = batch.lease
        return batch

    async def _give_back(self, platform_domain_id: int) -> None:
        """Let others try a zone in which nothing goes on here."""
        lease = self._leases.pop(platform_domain_id, None)
        if lease is not None and not self._is_alone():
            self._faulty.add(platform_domain_id)
            with suppress(Unavailable):
                await self._db.write(give_back_lease, lease)

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
        for took in await self._db.write(under, batch.lease, record_publication, by_id, batch):
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
            await self._db.write(under, batch.lease, record_refusal, batch.platform_domain_id, result)
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
            half = await self._begin(batch.platform_domain_id, among)
            if half is not None and not await self._publish(half):
                return False
        return True

    async def _probe(self, batch: Batch) -> None:
        """Send an update without any name: return if the zone takes it, and then the batch can't be applied any more.

        Raises:
            PrimaryFault: why the zone takes none.
            BatchStale: the zone has changed since.
        """
        probe = await self._db.write(under, batch.lease, begin_probe, batch.platform_domain_id)
        if probe is None:
            raise BatchStale
        probe = replace(probe, lease=batch.lease)
        await self._zone(probe).change(probe)
        await self._db.write(under, batch.lease, record_publication, {}, probe)

    async def _rest(self, batch: Batch, fault: PrimaryFault) -> None:
        """Let a zone in which nothing can be published rest for a moment."""
        sentence = SENTENCES.get(fault.cause, NOT_APPLIED)
        await self._db.write(
            under,
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


def rest_after(names: int, took_seconds: float) -> float:
    """Return for how long a zone rests after a batch of so many names that took so long to be sent: what comes meanwhile goes together.

    A name by itself costs three times what it costs among twenty. Who comes alone isn't kept waiting: the rest is behind its batch,
    and the shorter the fewer came with it.
    """
    return min(REST_TIMES * names * took_seconds, REST_MAX_SECONDS) if names < SMALL_BATCH else 0.0


def _list_waiting_for(tx: Tx, holder: str) -> list[int]:
    """Return the zones to be worked on that no other than this holder publishes."""
    waiting = publish_store.list_waiting_platform_domain_ids(tx)
    if not waiting:
        return []
    held = list_held_by_others(tx, [publish_lease(each) for each in waiting], holder)
    return [each for each in waiting if publish_lease(each) not in held]


def _begin_under_lease(
    tx: Tx, begin: Begin, holder: str, platform_domain_id: int, *args: object, gives_back: bool
) -> Batch | None:
    """Take or renew a zone's lease, and begin what waits there; with nothing to begin the lease is given back, if that is asked."""
    lease = take_lease(tx, publish_lease(platform_domain_id), holder, PUBLISH_FOR)
    if lease is None:
        raise LeaseLost(publish_lease(platform_domain_id))
    batch = begin(tx, platform_domain_id, *args)
    if batch is None and gives_back:
        give_back_lease(tx, lease)
    return None if batch is None else replace(batch, lease=lease)
