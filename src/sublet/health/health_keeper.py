"""The worker's part that checks published delegations: minutes after a change, then daily, and more often
while a name is broken.
"""

import asyncio
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Protocol

import structlog

from sublet.db import Database, Tx
from sublet.errors import Unavailable
from sublet.health import store
from sublet.health.brake import find_hold_reason, is_undelegation_next, record_impairment, undelegate
from sublet.health.checker import Checker, CheckResult
from sublet.health.due_checks import claim_due, record_check, schedule_changed_names, schedule_first_checks
from sublet.health.model import BROKEN, DueCheck, Question
from sublet.health.query_limits import delete_idle_addresses
from sublet.health.schedule import IMPAIRED_MAX
from sublet.processes.leases import WATCH_FOR, try_lease, under_lease
from sublet.processes.model import Lease, LeaseLost
from sublet.processes.repeat import repeat

CHECKS_MAX = 32
"""The maximum number of a worker's simultaneous checks."""
POLL_SECONDS = 1.0
SEARCH_EVERY = timedelta(minutes=1)
"""The time between two searches for changed names."""
SEARCH_ALL_EVERY = timedelta(days=1)
"""The time between two searches for names that were never checked."""
LEASE = "health"
log = structlog.get_logger()


class Follower(Protocol):
    """Changes names by the results of checks. The metrics show its `decisions` by kind, under its `name`."""

    name: str
    decisions: Counter[str]

    async def questions(self, due: DueCheck) -> Sequence[Question]:
        """Return the additional questions that the check must ask for this follower; empty if it doesn't
        follow the name.
        """

    async def follow(self, due: DueCheck, result: CheckResult) -> object:
        """Act on the result of a recorded check."""


class HealthKeeper:
    """Runs the checks that are due.

    For the metrics: `checks` counts checks by their result, `states` has the number of names in each state,
    `overdue_seconds` is how long the oldest due check has waited, `impaired` is why this host can't check,
    and `stopped` is true while the brake is on.
    """

    def __init__(
        self, db: Database, checker: Checker | None, *, holder: str = "", followers: Sequence[Follower] = ()
    ) -> None:
        self._db = db
        self.followers = followers
        self._checker = checker
        self._holder = holder or str(uuid.uuid4())
        self._running: set[asyncio.Task[None]] = set()
        self._searched_at: datetime | None = None
        self._searched_all_at: datetime | None = None
        self.checks: Counter[str] = Counter()
        self.states: dict[str, int] = {}
        self.overdue_seconds = 0.0
        self.impaired: str | None = None
        self.stopped = False

    async def run(self) -> None:
        """Check names until cancelled. Without a checker, do nothing."""
        if self._checker is None:
            await asyncio.Event().wait()
        try:
            await repeat(self._step, "health_fault")
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    async def _step(self) -> float:
        await self._schedule_checks()
        await self.start_checks()
        return POLL_SECONDS if len(self._running) < CHECKS_MAX else POLL_SECONDS / 10

    async def _schedule_checks(self) -> None:
        """Schedule checks of new and changed names. Only the worker with the lease does this."""
        now = self._db.now()
        if not _is_over(self._searched_at, SEARCH_EVERY, now):
            return
        lease = await try_lease(self._db, LEASE, self._holder, WATCH_FOR)
        assert self._checker is not None  # noqa: S101 - `run` starts no checks without a checker
        if self._checker.control.problem is not None:
            # The next check may be half an hour away, and a stored impairment holds back what it finds.
            await self._checker.control.find_problem()
        self.impaired = self._checker.control.problem
        if self.impaired is not None:
            log.error("health_impaired", reason=self.impaired)
        self.states, self.overdue_seconds, self.stopped = await self._db.read(_count_states)
        if lease is not None:
            try:
                await self._schedule_under(lease)
            except LeaseLost:
                log.warning("health_taken_over")
        self._searched_at = now

    async def _schedule_under(self, lease: Lease) -> None:
        await self._db.write(under_lease, lease, schedule_changed_names, self._searched_at)
        await self._db.write(under_lease, lease, delete_idle_addresses)
        await self._db.write(under_lease, lease, store.reset_future_checks)
        await self._db.write(under_lease, lease, record_impairment, self.impaired)
        now = self._db.now()
        if _is_over(self._searched_all_at, SEARCH_ALL_EVERY, now):
            after_id: int | None = 0
            while after_id is not None:
                after_id = await self._db.write(under_lease, lease, schedule_first_checks, after_id)
            self._searched_all_at = now

    async def start_checks(self) -> int:
        """Start the checks that are due, up to `CHECKS_MAX` at once, and return the
        number of started checks.
        """
        free_slots = CHECKS_MAX - len(self._running)
        if free_slots <= 0 or not await self._db.read(store.is_due):
            return 0
        due = await self._db.write(claim_due, free_slots)
        for each in due:
            task = asyncio.create_task(self._check(each))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return len(due)

    async def _check(self, due: DueCheck) -> None:
        assert self._checker is not None  # noqa: S101 - `run` starts no checks without a checker
        try:
            asking = [(each, await each.questions(due)) for each in self.followers]
            extra = [question for _, questions in asking for question in questions]
            result = await self._checker.check(due.target, extra=extra)
            if result.busy_until is not None:
                self.checks["put_off"] += 1
                await self._db.write(store.reschedule, [due.subdomain_id], result.busy_until)
                return
            self.checks[result.report.state] += 1
            health = await self._db.write(record_check, due.subdomain_id, due.generation, result.report)
            if result.report.state == BROKEN and health is not None and await self._undelegate(due):
                return
            for follower, questions in asking:
                if questions:
                    await follower.follow(due, result)
        except Unavailable:
            return  # The database has logged this. The check is due again when the worker's claim expires.
        except Exception:
            log.exception("health_fault", subdomain_id=due.subdomain_id)
            with suppress(Unavailable):
                again_at = self._db.now() + IMPAIRED_MAX
                await self._db.write(store.reschedule, [due.subdomain_id], again_at)

    async def _undelegate(self, due: DueCheck) -> bool:
        """Remove a name from the DNS if it has been broken for too long, and a check without cached answers
        finds it broken too.
        """
        assert self._checker is not None  # noqa: S101 - `run` starts no checks without a checker
        if not await self._db.read(is_undelegation_next, due.subdomain_id):
            return False
        again = await self._checker.check_without_cache(due.target)
        if again.report.state != BROKEN:
            log.warning("still_delegated", subdomain_id=due.subdomain_id, state=again.report.state)
            return False
        return await self._db.write(undelegate, due.subdomain_id, due.generation)


def _is_over(last_at: datetime | None, pause: timedelta, now: datetime) -> bool:
    """True if the pause after `last_at` is over, or if the clock was set back to before `last_at`."""
    return last_at is None or not timedelta() <= now - last_at < pause


def _count_states(tx: Tx) -> tuple[dict[str, int], float, bool]:
    oldest = store.find_oldest_due(tx)
    late = (tx.now - oldest).total_seconds() if oldest is not None else 0.0
    return store.count_states(tx), max(0.0, late), find_hold_reason(tx) is not None
