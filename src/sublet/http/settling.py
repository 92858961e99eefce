"""Wait until a change is published: one query for all waiting requests of a process."""

import asyncio

import structlog

from sublet.db import Database
from sublet.errors import Unavailable
from sublet.subdomains.store import list_settled

LOOK_SECONDS = 0.1
"""The longest wait for a commit before the next query: a commit during a query may be missed."""
PAUSE_SECONDS = 0.002
"""The pause between two queries: commits come in groups."""
log = structlog.get_logger()


class Settling:
    """The requests that wait until their change is published or has failed.

    Any commit may be the one they wait for, so one task queries for all of them.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._waiting: dict[int, set[asyncio.Future[None]]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def wait(self, subdomain_id: int, seconds: float) -> None:
        """Wait until a name's last change is published or has failed, `seconds` are over, or the database is away.

        Raises:
            Unavailable: the database was away before it began to wait.
        """
        if seconds <= 0:
            return
        settled: list[int] = await self._db.read(list_settled, [subdomain_id])
        if settled:
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(subdomain_id, set()).add(future)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            return
        finally:
            futures = self._waiting.get(subdomain_id, set())
            futures.discard(future)
            if not futures:
                self._waiting.pop(subdomain_id, None)

    async def _look(self) -> None:
        try:
            while self._waiting:
                for each in await self._db.read(list_settled, list(self._waiting)):
                    self._release(each)
                if self._waiting:
                    await self._db.changed(LOOK_SECONDS)
                    await asyncio.sleep(PAUSE_SECONDS)
        except Unavailable:
            return  # already logged
        except Exception:
            log.exception("settling_fault")
        finally:
            self._looking = None
            for each in tuple(self._waiting):
                self._release(each)

    def _release(self, subdomain_id: int) -> None:
        for future in self._waiting.pop(subdomain_id, ()):
            if not future.done():
                future.set_result(None)
