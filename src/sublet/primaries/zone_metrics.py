"""Read the waiting names and the state of each zone from the database every few seconds, for the metrics."""

import time
from datetime import datetime

from msgspec import Struct

from sublet.db import Database, Tx
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_store
from sublet.platform_domains.zone_store import ZoneState
from sublet.primaries import store as publish_store
from sublet.primaries.store import Waiting
from sublet.processes.repeat import repeat

POLL_SECONDS = 5.0
SHARE_MAX = 0.02
"""The maximum share of the time that the queries take. With very many waiting names the
queries become rarer.
"""


class ZoneSnapshot(Struct, frozen=True):
    """A zone's waiting names and stored state at `seen_at`.

    `state` is None for a zone on the built-in name server.
    """

    zone: str
    waiting: Waiting
    state: ZoneState | None
    seen_at: datetime

    @property
    def oldest_seconds(self) -> float:
        """The age of the oldest waiting change; 0 if no change waits."""
        return seconds_since(self.waiting.oldest_at, self.seen_at) or 0.0

    @property
    def checked_seconds(self) -> float | None:
        """The age of the last complete check; None if there was no check."""
        return None if self.state is None else seconds_since(self.state.checked_at, self.seen_at)


class ZoneMetrics:
    """Reads the state of all zones; `zones` has the last result."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.zones: tuple[ZoneSnapshot, ...] = ()

    async def run(self) -> None:
        """Read until cancelled."""
        await repeat(self.poll, "zone_metrics_fault")

    async def poll(self) -> float:
        """Read the state of all zones. Return the seconds until the next poll."""
        began = time.monotonic()
        self.zones = await self._db.read(list_zone_snapshots)
        return max(POLL_SECONDS, (time.monotonic() - began) / SHARE_MAX)


def list_zone_snapshots(tx: Tx) -> tuple[ZoneSnapshot, ...]:
    """Return the current snapshot of every zone, sorted by domain."""
    states = zone_store.list_zone_states(tx)
    waiting = publish_store.count_waiting(tx)
    return tuple(
        ZoneSnapshot(
            each.domain,
            waiting.get(each.id, Waiting()),
            states.get(each.id, ZoneState(each.id)) if each.primary else None,
            tx.now,
        )
        for each in sorted(platform_domain_store.list_platform_domains(tx), key=lambda each: each.domain)
    )


def seconds_since(at: datetime | None, now: datetime) -> float | None:
    """Return how many seconds ago an instant was, at least 0; None for None."""
    return None if at is None else max(0.0, (now - at).total_seconds())
