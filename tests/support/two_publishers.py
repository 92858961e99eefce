"""Two publishers with one database. Each has its own `Database` object, as in two worker processes."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from sublet.db import Database, open_database
from sublet.dns.types import Primary
from sublet.primaries.publisher import Publisher
from sublet.primaries.store import count_waiting
from support.registry import Registry
from support.waiting import ENOUGH_SECONDS


@dataclass
class Worker:
    """A publisher that a test can start and kill.

    `took` counts the names that it sent, by zone; `stale` counts its stale batches.
    """

    db: Database
    publisher: Publisher
    took: Counter[str] = field(default_factory=Counter)
    stale: int = 0
    task: "asyncio.Task[None] | None" = None

    def start(self) -> None:
        """Start the publisher."""
        self.task = asyncio.create_task(self.publisher.run())

    async def kill(self) -> None:
        """Kill the publisher. Its leases stay."""
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def two_publishers(
    registry: Registry, url: str, primaries: Mapping[str, Primary], *, batch_max: int = 100
) -> AsyncIterator[tuple[Worker, Worker]]:
    """Return two publishers "a" and "b" that aren't started.

    Both know each other, and these primaries by name.
    """
    databases = [open_database(url, lambda: registry.now, may_lose_writes=True) for _ in range(2)]
    workers = []
    for db, holder in zip(databases, "ab", strict=True):
        publisher = Publisher(
            db,
            primaries.__getitem__,
            batch_max=dict.fromkeys(primaries, batch_max),
            holder=holder,
            is_alone=lambda: False,
        )
        workers.append(_watched(Worker(db, publisher)))
    try:
        yield workers[0], workers[1]
    finally:
        for worker in workers:
            if worker.task is not None:
                await worker.kill()
        for db in databases:
            await db.close()


def _watched(worker: Worker) -> Worker:
    """Count the names that a publisher sends, by zone, and its stale batches."""
    publisher = worker.publisher
    note_stale, change = publisher._note_stale, publisher._change

    async def counted_stale(*args: object) -> None:
        worker.stale += 1
        await note_stale(*args)  # type: ignore[arg-type]

    async def counted_change(batch: object) -> object:
        worker.took[batch.zone] += len(batch.items)  # type: ignore[attr-defined]
        return await change(batch)  # type: ignore[arg-type]

    publisher._note_stale = counted_stale  # type: ignore[assignment]
    publisher._change = counted_change  # type: ignore[assignment]
    return worker


async def until(is_so: Callable[[], bool], seconds: float = ENOUGH_SECONDS) -> None:
    """Wait until a condition is true, or fail after `seconds`."""
    async with asyncio.timeout(seconds):
        while not is_so():  # noqa: ASYNC110 - the condition has no event
            await asyncio.sleep(0.02)


async def until_published(db: Database, seconds: float = ENOUGH_SECONDS) -> None:
    """Wait until no name waits for its publication, or fail after `seconds`."""
    async with asyncio.timeout(seconds):
        while await db.read(count_waiting):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.02)
