"""Run the sweep by the wall clock, and compare the wall clock with the database's and the monotonic clock.

The runner is level-triggered, like the publisher: once a second it queries whether anything is due, and then
sweeps in bounded batches. Of several workers only the holder of the lease sweeps, and only its clocks are
compared.
"""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta

import structlog

from sublet.audit import SYSTEM
from sublet.db import Database, Tx
from sublet.errors import Conflict
from sublet.processes.leases import SWEEP, SWEEP_FOR, try_lease, under_lease
from sublet.processes.model import Lease, LeaseLost
from sublet.processes.repeat import repeat
from sublet.subdomains.sweep import store as sweep_store
from sublet.subdomains.sweep.brake import apart_reason, jump_reason, stop_sweep
from sublet.subdomains.sweep.sweep import BATCH_MAX, Swept, is_sweep_due, sweep

POLL_SECONDS = 1.0
REST_FACTOR = 3
"""The pause after a full batch, as a multiple of the batch's duration. The pauses leave time for requests."""
REST_SECONDS_MIN = 0.25
"""The minimum pause after a batch that isn't full, so that more names become due and share a batch."""
LOG_AGAIN_SECONDS = 3600.0
"""The interval at which the log repeats that the sweep is stopped."""
log = structlog.get_logger()
Monotonic = Callable[[], float]


def monotonic_seconds() -> float:
    """Return the seconds of a monotonic clock. On Linux the clock also counts while the machine sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class SweepRunner:
    """Runs the sweep as `holder` of the lease.

    `clock_ahead` returns how far this host's clock is ahead of the database's.

    The metrics show `done`, the number of names by milestone, and `stopped`. While another worker holds the
    lease, `stopped` is False.
    """

    def __init__(
        self, db: Database, monotonic: Monotonic, *, holder: str, clock_ahead: Callable[[], timedelta]
    ) -> None:
        self._db = db
        self._monotonic = monotonic
        self._holder = holder
        self._clock_ahead = clock_ahead
        self._anchor: tuple[datetime, float] | None = None
        self._logged_at: float | None = None
        self.done: Counter[str] = Counter()
        self.stopped = False

    async def run(self) -> None:
        """Sweep until cancelled."""

        async def step() -> float:
            began = time.monotonic()
            swept = await self.tick()
            return rest_after(swept, time.monotonic() - began)

        await repeat(step, "sweep_fault")

    async def tick(self) -> Swept | None:
        """Compare the clocks, and sweep one batch if anything is due.

        Return its result, or None if nothing is due or another worker sweeps.
        """
        lease = await try_lease(self._db, SWEEP, self._holder, SWEEP_FOR)
        try:
            if lease is not None:
                return await self._sweep(lease)
        except LeaseLost:
            log.warning("sweep_taken_over")
        # Without the lease the stored readings become stale. Start again with the next lease.
        self._anchor, self.stopped, self._logged_at = None, False, None
        return None

    async def _sweep(self, lease: Lease) -> Swept | None:
        due, reason = await self._db.read(_read_sweep)
        clock_read_at = await self._compare_clocks(lease)
        if reason is not None:
            self._log_stopped(reason)
        elif self.stopped:
            self.stopped, self._logged_at = False, None
            log.info("sweep_resumed")
        if not due:
            return None
        swept = await self._db.write(under_lease, lease, sweep, clock_read_at)
        self.done.update(swept.done)
        for subdomain_id, error in swept.faults:
            log.error("sweep_fault", subdomain_id=subdomain_id, exc_info=error)
        if swept.done:
            log.info("swept", **swept.done)
        return swept

    async def _compare_clocks(self, lease: Lease) -> datetime:
        """Return the time of the wall clock. Stop the sweep if the wall clock is wrong.

        The first comparison is with the database's clock. Later ones are with the monotonic clock, since the
        first one or since the last stop.
        """
        # Nothing is awaited between the two readings, because a slow database would look like a jump.
        now, monotonic = self._db.now(), self._monotonic()
        if self._anchor is None:
            reason = apart_reason(self._clock_ahead())
        else:
            reason = jump_reason(now - self._anchor[0], timedelta(seconds=monotonic - self._anchor[1]))
        if reason is not None:
            with suppress(Conflict):  # the sweep is stopped already
                await self._db.write(under_lease, lease, stop_sweep, SYSTEM, reason)
        if reason is not None or self._anchor is None:
            self._anchor = (now, monotonic)
        return now

    def _log_stopped(self, reason: str) -> None:
        self.stopped = True
        if self._logged_at is None or self._monotonic() - self._logged_at >= LOG_AGAIN_SECONDS:
            self._logged_at = self._monotonic()
            log.error("sweep_stopped", reason=reason, what_to_do="sublet sweep status")


def rest_after(swept: Swept | None, took_seconds: float) -> float:
    """Return the seconds to pause after a batch that took `took_seconds`."""
    if swept is None or not swept.more:
        return POLL_SECONDS
    return REST_FACTOR * took_seconds if swept.names >= BATCH_MAX else max(took_seconds, REST_SECONDS_MIN)


def _read_sweep(tx: Tx) -> tuple[bool, str | None]:
    state = sweep_store.find_sweep_state(tx)
    stopped = state.stopped_at is not None and not state.resumed
    return is_sweep_due(tx), state.stopped_reason if stopped else None
