"""The worker's part that looks at the published delegations: minutes after a change, then daily, and more often while a name is broken."""

import asyncio
import uuid
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

import structlog

from sublet.db import Database, Tx
from sublet.errors import Unavailable
from sublet.health import store
from sublet.health.checker import Checker, Looked
from sublet.health.claims import forget_addresses
from sublet.health.looks import list_all_names, list_changed_names, put_off, record_look, take_due
from sublet.health.model import BROKEN, DueLook, Question
from sublet.health.undelegate import undelegate
from sublet.processes.leased import take, under
from sublet.processes.leases import WATCH_FOR
from sublet.processes.model import Lease, LeaseLost
from sublet.processes.repeat import repeat

LOOKS_MAX = 32
"""The most looks of a worker at once."""
POLL_SECONDS = 1.0
LIST_EVERY = timedelta(minutes=1)
"""How often changed names are sought."""
LIST_ALL_EVERY = timedelta(days=1)
LEASE = "health"
log = structlog.get_logger()


class Follower(Protocol):
    """Acts on what a look saw, beyond the health of the name. The metrics show its `decisions` by their kind, under its `name`."""

    name: str
    decisions: Counter[str]

    async def questions(self, due: DueLook) -> Sequence[Question]:
        """Return what the look also has to ask."""

    async def follow(self, due: DueLook, looked: Looked) -> object:
        """Act on a look that was recorded."""


class HealthKeeper:
    """Looks at names that are due. The metrics show `looks` by the state that they saw, `states`, and `overdue_seconds`."""

    def __init__(
        self, db: Database, checker: Checker | None, *, holder: str = "", followers: Sequence[Follower] = ()
    ) -> None:
        self._db = db
        self.followers = followers
        self._checker = checker
        self._holder = holder or str(uuid.uuid4())
        self._running: set[asyncio.Task[None]] = set()
        self._listed_at: datetime | None = None
        self._listed_all_at: datetime | None = None
        self.looks: Counter[str] = Counter()
        self.states: dict[str, int] = {}
        self.overdue_seconds = 0.0

    async def run(self) -> None:
        """Look until cancelled; without a checker do nothing."""
        if self._checker is None:
            await asyncio.Event().wait()
        try:
            await repeat(self._step, "health_fault")
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    async def _step(self) -> float:
        await self._list_names()
        await self.start_looks()
        return POLL_SECONDS if len(self._running) < LOOKS_MAX else POLL_SECONDS / 10

    async def _list_names(self) -> None:
        """Add new and changed names. One worker does it for all."""
        now = self._db.now()
        if not _is_over(self._listed_at, LIST_EVERY, now):
            return
        lease = await take(self._db, LEASE, self._holder, WATCH_FOR)
        self.states, self.overdue_seconds = await self._db.read(_count)
        if lease is not None:
            try:
                await self._list_under(lease)
            except LeaseLost:
                log.warning("health_taken_over")
        self._listed_at = now

    async def _list_under(self, lease: Lease) -> None:
        await self._db.write(under, lease, list_changed_names, self._listed_at)
        now = self._db.now()
        if _is_over(self._listed_all_at, LIST_ALL_EVERY, now):
            after_id: int | None = 0
            while after_id is not None:
                after_id = await self._db.write(under, lease, list_all_names, after_id)
            await self._db.write(under, lease, forget_addresses)
            self._listed_all_at = now

    async def start_looks(self) -> int:
        """Start the looks that are due, as many as there is room for; return how many."""
        room = LOOKS_MAX - len(self._running)
        if room <= 0 or not await self._db.read(store.is_due):
            return 0
        due = await self._db.write(take_due, room)
        for each in due:
            task = asyncio.create_task(self._look(each))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return len(due)

    async def settled(self) -> None:
        """Wait until the looks that run have ended."""
        await asyncio.gather(*self._running)

    async def _look(self, due: DueLook) -> None:
        assert self._checker is not None  # noqa: S101 - `run` starts none without
        try:
            asking = [(each, await each.questions(due)) for each in self.followers]
            extra = [question for _, questions in asking for question in questions]
            looked = await self._checker.look(due.target, extra=extra)
            if looked.busy_until is not None:
                self.looks["put_off"] += 1
                await self._db.write(put_off, due.subdomain_id, looked.busy_until)
                return
            self.looks[looked.report.state] += 1
            health = await self._db.write(record_look, due.subdomain_id, due.generation, looked.report)
            if (
                looked.report.state == BROKEN
                and health is not None
                and health.warned_at is not None
                and await self._db.write(undelegate, due.subdomain_id, due.generation)
            ):
                return
            for follower, questions in asking:
                if questions:
                    await follower.follow(due, looked)
        except Unavailable:
            return  # already logged; the look is due again soon
        except Exception:
            log.exception("health_fault", subdomain_id=due.subdomain_id)


def _is_over(last_at: datetime | None, pause: timedelta, now: datetime) -> bool:
    """True if a pause since an instant is over, or the clock was set back behind it."""
    return last_at is None or not timedelta() <= now - last_at < pause


def _count(tx: Tx) -> tuple[dict[str, int], float]:
    oldest = store.find_oldest_due(tx)
    late = (tx.now - oldest).total_seconds() if oldest is not None else 0.0
    return store.count_states(tx), max(0.0, late)
