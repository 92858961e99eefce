"""Wait until a change is published, with a single query for all waiting requests of a process."""

import asyncio

import structlog

from sublet.db import Database
from sublet.errors import Unavailable
from sublet.subdomains.store import list_published_or_failed

POLL_SECONDS = 0.1
"""The maximum wait for a commit before the next query, because a commit during a query may be missed."""
PAUSE_SECONDS = 0.002
"""The pause between a commit and the next query. Commits come in groups, and one query covers a group."""
log = structlog.get_logger()


class PublicationWaiter:
    """The requests that wait until their change is published or has failed.

    Any commit may publish any of the changes, so a single task polls for all requests.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._waiting: dict[int, set[asyncio.Future[None]]] = {}
        self._polling: asyncio.Task[None] | None = None

    async def wait(self, subdomain_id: int, seconds: float) -> None:
        """Wait at most `seconds` until a name's last change is published or has failed.

        Return early if the database stops answering.

        Raises:
            Unavailable: the database didn't answer the first query.
        """
        if seconds <= 0:
            return
        settled: list[int] = await self._db.read(list_published_or_failed, [subdomain_id])
        if settled:
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(subdomain_id, set()).add(future)
        if self._polling is None:
            self._polling = asyncio.create_task(self._poll())
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

    async def _poll(self) -> None:
        try:
            while self._waiting:
                for each in await self._db.read(list_published_or_failed, list(self._waiting)):
                    self._release(each)
                if self._waiting:
                    await self._db.changed(POLL_SECONDS)
                    await asyncio.sleep(PAUSE_SECONDS)
        except Unavailable:
            return  # already logged
        except Exception:
            log.exception("publication_wait_fault")
        finally:
            self._polling = None
            for each in tuple(self._waiting):
                self._release(each)

    def _release(self, subdomain_id: int) -> None:
        for future in self._waiting.pop(subdomain_id, ()):
            if not future.done():
                future.set_result(None)
