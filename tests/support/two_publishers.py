"""Two publishers over one database, each with its own database object, like two worker processes."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from sublet.db import Database, open_database
from sublet.dns.nameserver import NameServer
from sublet.dns.types import Primary, ZoneView
from sublet.primaries.publisher import Publisher
from sublet.primaries.store import count_waiting
from sublet.subdomains.view_zone import view_zones
from support.registry import Registry

WAIT_SECONDS = 40.0


@dataclass
class Worker:
    """A publisher that can be started and killed; `begun_anew` counts batches restarted because the other publisher was first."""

    db: Database
    publisher: Publisher
    took: Counter[str] = field(default_factory=Counter)
    begun_anew: int = 0
    task: "asyncio.Task[None] | None" = None

    def start(self) -> None:
        """Let it publish."""
        self.task = asyncio.create_task(self.publisher.run())

    async def kill(self) -> None:
        """Kill it; its leases stay."""
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def two_publishers(
    registry: Registry, url: str, find_primary: Callable[[str], Primary], *, batch_max: int = 100
) -> AsyncIterator[tuple[Worker, Worker]]:
    """Two publishers "a" and "b" that know of each other, not started; the built-in name server answers for both."""
    databases = [open_database(url, lambda: registry.now, may_lose_writes=True) for _ in range(3)]

    async def read_zones(names: Collection[str]) -> Mapping[str, ZoneView]:
        return await databases[2].read(view_zones, names, ("127.0.0.1",))

    server = NameServer(read_zones)
    port = await server.start("127.0.0.1", 0)
    workers = []
    for db, holder in zip(databases[:2], "ab", strict=True):
        publisher = Publisher(
            db,
            [("127.0.0.1", port)],
            find_primary,
            batch_max={"": batch_max, "main": batch_max},
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
        await server.close()
        for db in databases:
            await db.close()


def _watched(worker: Worker) -> Worker:
    """Count what a publisher does: names changed by zone, and batches restarted."""
    publisher = worker.publisher
    begin_anew, change = publisher._begin_anew, publisher._change

    async def counted_anew(*args: object) -> bool:
        worker.begun_anew += 1
        return await begin_anew(*args)  # type: ignore[arg-type]

    async def counted_change(batch: object) -> object:
        worker.took[batch.zone] += len(batch.items)  # type: ignore[attr-defined]
        return await change(batch)  # type: ignore[arg-type]

    publisher._begin_anew = counted_anew  # type: ignore[assignment]
    publisher._change = counted_change  # type: ignore[assignment]
    return worker


async def until(is_so: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
    """Wait until it is so, or fail."""
    async with asyncio.timeout(seconds):
        while not is_so():  # noqa: ASYNC110 - it is no event that anybody could set
            await asyncio.sleep(0.02)


async def until_published(db: Database, seconds: float = WAIT_SECONDS) -> None:
    """Wait until no name waits for its publication, or fail."""
    async with asyncio.timeout(seconds):
        while await db.read(count_waiting):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.02)
