"""Find drift (changes of zones on primaries that the registry didn't make), and repair it.

Every few seconds the worker queries the serial and the fence of each zone. If the serial has changed since
the last check, the worker checks the whole zone in a child process, one zone at a time. A pause follows each
check, because our own updates change the serial too. A zone with an unknown fence was rebuilt, and is checked
at once.

Only one worker checks a zone, the holder of the zone's lease.
"""

import asyncio
import sys
import time
from asyncio.subprocess import PIPE
from collections import Counter
from contextlib import suppress
from datetime import datetime, timedelta

import msgspec
import structlog

from sublet.audit import SYSTEM
from sublet.db import Database, Tx
from sublet.errors import Conflict, Unavailable
from sublet.platform_domains import zone_store
from sublet.primaries.check_process import MOVED, CheckRequest, Failure, Outcome
from sublet.primaries.primary import PrimaryFault, read_fence
from sublet.primaries.primary_zone import FindPrimary, store_fence
from sublet.primaries.repair_zone import repair
from sublet.primaries.zone_notices import FAILURES_BEFORE_NOTICE, notify_of_zone_problem
from sublet.processes.leases import WATCH_FOR, check_lease, keep_lease, try_lease, under_lease
from sublet.processes.model import Lease, LeaseLost
from sublet.processes.repeat import repeat
from sublet.secret import encode_secret_for_child

POLL_SECONDS = 5.0
TIMEOUT_SECONDS = 5.0
PAUSE_MIN_SECONDS = 10.0
PAUSE_MAX_SECONDS = 180.0
PAUSE_FACTOR = 5.0
"""The pause before the next check of a zone, in durations of the last check, limited by `PAUSE_MIN_SECONDS`
and `PAUSE_MAX_SECONDS`.
"""
CHECK_SECONDS_MAX = 900.0
RECHECK_AFTER = timedelta(hours=6)
"""After this time a zone is checked even if the serial is the same, because a person may edit a zone file and
keep the serial.
"""
SEEN_EVERY = timedelta(minutes=1)
log = structlog.get_logger()


class CheckFailed(Exception):  # noqa: N818 - named for what the caller sees
    """The child process of a check died, or took too long."""


class _Watched(msgspec.Struct):
    """The zone `zone` of a platform domain on `primary`, while this process has the lease.

    `next_check_at` is by the monotonic clock. `rebuilt_at` is the last rebuild that started a check. While
    `check_failed` is True, an answer with serial and fence doesn't clear the stored problem. `failures`
    counts failed queries and checks in a row.
    """

    platform_domain_id: int
    zone: str
    primary: str
    next_check_at: float = 0.0
    rebuilt_at: datetime | None = None
    check_failed: bool = False
    failures: int = 0


class DriftRepair:
    """Checks and repairs zones on primaries, under a lease of `holder` for each zone.

    `checks` counts whole checks ("done", "failed"). `drift` counts "missing" and "different" names and
    "orphaned" owners.
    """

    def __init__(self, db: Database, database_url: str, find_primary: FindPrimary, *, holder: str) -> None:
        self._db = db
        self._holder = holder
        self._database_url = database_url
        self._find_primary = find_primary
        self._watched: dict[int, _Watched] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._one_at_a_time = asyncio.Lock()
        self.checks: Counter[str] = Counter()
        self.drift: Counter[str] = Counter()

    async def run(self) -> None:
        """Check zones until cancelled."""
        try:
            await repeat(self._start_tasks, "drift_repair_fault")
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _start_tasks(self) -> float:
        for platform_domain_id, zone, primary in await self._db.read(zone_store.list_zones_on_primaries):
            if platform_domain_id not in self._tasks:
                task = asyncio.create_task(self._watch(platform_domain_id, zone, primary))
                self._tasks[platform_domain_id] = task
                task.add_done_callback(lambda _, of=platform_domain_id: self._tasks.pop(of, None))  # type: ignore[misc]
        return POLL_SECONDS

    async def _watch(self, platform_domain_id: int, zone: str, primary: str) -> None:
        """Query a zone's serial and fence, and check the zone if necessary, unless another worker has the
        lease.
        """
        try:
            lease = await try_lease(self._db, check_lease(platform_domain_id), self._holder, WATCH_FOR)
            if lease is None:
                self._watched.pop(platform_domain_id, None)
                return
            async with keep_lease(self._db, lease, WATCH_FOR):
                new = _Watched(platform_domain_id, zone, primary)
                watched = self._watched.setdefault(platform_domain_id, new)
                watched.primary = primary  # the zone may have moved
                await self._watch_under(lease, watched)
        except LeaseLost:
            log.warning("zone_taken_over", zone=zone)
        except Unavailable:
            pass
        except Exception:
            log.exception("drift_repair_fault", zone=zone)

    async def _watch_under(self, lease: Lease, watched: _Watched) -> None:
        try:
            if await self._poll(lease, watched):
                async with self._one_at_a_time:
                    await self._check(lease, watched)
            if not watched.check_failed:
                watched.failures = 0
        except PrimaryFault as fault:
            await self._note_problem(lease, watched, fault.cause, str(fault))
        except CheckFailed as failure:
            await self._note_problem(lease, watched, "check", str(failure))

    async def _poll(self, lease: Lease, watched: _Watched) -> bool:
        """Query a zone's serial and fence, and store that the server answered.

        Return True if the zone must be checked.
        """
        platform_domain_id, zone = watched.platform_domain_id, watched.zone
        before = await self._db.read(zone_store.find_zone_state, platform_domain_id)
        primary = self._find_primary(watched.primary)
        found = await read_fence(primary, zone, timeout_seconds=TIMEOUT_SECONDS)
        if found.value != before.fence:
            await store_fence(self._db, primary, zone, lease, platform_domain_id, before.fence, found)
        now, state = await self._db.read(
            lambda tx: (tx.now, zone_store.find_zone_state(tx, platform_domain_id))
        )
        is_solved = state.watch_problem is not None and not watched.check_failed
        if is_solved or state.seen_at is None or state.seen_at < now - SEEN_EVERY:
            await self._db.write(
                under_lease, lease, _note_seen, platform_domain_id, is_well=not watched.check_failed
            )
        if state.rebuilt_at is not None and state.rebuilt_at != watched.rebuilt_at:
            watched.rebuilt_at = state.rebuilt_at
            return True
        if time.monotonic() < watched.next_check_at:
            return False
        is_old = state.checked_at is None or state.checked_at < now - RECHECK_AFTER
        return found.serial != state.checked_serial or is_old or watched.check_failed

    async def _check(self, lease: Lease, watched: _Watched) -> None:
        started = time.monotonic()
        outcome = "failed"
        try:
            now = await self._db.read(lambda tx: tx.now)
            primary = self._find_primary(watched.primary)
            found = await self._run(
                CheckRequest(self._database_url, watched.platform_domain_id, primary, now)
            )
            await self._note_found(lease, watched, found)
            outcome = "done"
        except Conflict as conflict:
            log.info("zone_check_over", zone=watched.zone, reason=str(conflict))
        finally:
            self.checks[outcome] += 1
            watched.check_failed = outcome == "failed"
            took = time.monotonic() - started
            pause = min(max(PAUSE_MIN_SECONDS, PAUSE_FACTOR * took), PAUSE_MAX_SECONDS)
            watched.next_check_at = time.monotonic() + pause

    async def _run(self, request: CheckRequest) -> Outcome:
        """Run the check in a child process. A cancellation kills the process, even while the process starts.

        Raises:
            Conflict, PrimaryFault: the process reported one of these (`check_on_primary`).
            CheckFailed: the process died, or took too long.
        """
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "sublet.primaries.check_process", stdin=PIPE, stdout=PIPE
        )
        try:
            async with asyncio.timeout(CHECK_SECONDS_MAX):
                output, _ = await process.communicate(
                    msgspec.json.encode(request, enc_hook=encode_secret_for_child)
                )
        except TimeoutError:
            raise CheckFailed(f"the check did not end within {CHECK_SECONDS_MAX:g} s") from None
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if process.returncode != 0:
            raise CheckFailed(f"the check's process ended with the exit code {process.returncode}")
        found: Outcome | Failure = msgspec.json.decode(output, type=Outcome | Failure)
        if isinstance(found, Failure):
            if found.cause == MOVED:
                raise Conflict(found.detail)
            raise PrimaryFault(found.cause, found.detail)
        return found

    async def _note_found(self, lease: Lease, watched: _Watched, found: Outcome) -> None:
        platform_domain_id, zone, repairs = watched.platform_domain_id, watched.zone, found.repairs
        reason = await repair(self._db, SYSTEM, platform_domain_id, watched.primary, found, lease=lease)
        await self._db.write(under_lease, lease, _note_seen, platform_domain_id)
        drift = {
            "missing": repairs.missing,
            "different": repairs.different,
            "orphaned": len(repairs.orphaned),
        }
        self.drift.update(drift)
        log.info("zone_checked", zone=zone, serial=found.serial, foreign=repairs.foreign_records, **drift)
        if any(drift.values()):
            log.warning("zone_differs", zone=zone, **drift)
        if reason is not None:
            log.error("zone_repair_stopped", zone=zone, reason=reason)

    async def _note_problem(self, lease: Lease, watched: _Watched, cause: str, detail: str) -> None:
        platform_domain_id = watched.platform_domain_id
        watched.failures += 1
        is_lasting = watched.failures == FAILURES_BEFORE_NOTICE
        if await self._db.write(
            under_lease, lease, _note_problem, platform_domain_id, cause, detail, is_lasting=is_lasting
        ):
            log.warning("zone_not_checked", zone=watched.zone, cause=cause, detail=detail)


def _note_seen(tx: Tx, platform_domain_id: int, *, is_well: bool = True) -> None:
    no_problem = {"watch_problem": None, "watch_problem_detail": None} if is_well else {}
    zone_store.update_zone_state(tx, platform_domain_id, seen_at=tx.now, **no_problem)


def _note_problem(tx: Tx, platform_domain_id: int, cause: str, detail: str, *, is_lasting: bool) -> bool:
    """Store why a zone can't be checked, and notify the operator if the problem lasts.

    Return False if the cause was stored already.
    """
    if is_lasting:
        notify_of_zone_problem(tx, platform_domain_id, cause, detail)
    before = zone_store.find_zone_state(tx, platform_domain_id)
    if before.watch_problem == cause:
        return False
    values = {"watch_problem": cause, "watch_problem_detail": detail}
    zone_store.update_zone_state(tx, platform_domain_id, **values)
    return True
