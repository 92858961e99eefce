"""The watch over the zones: what waits in each and what is known of it, read now and then, so that a scrape costs nothing."""

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime

import structlog

from sublet.db import Database, Tx
from sublet.errors import Unavailable
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_state_store
from sublet.platform_domains.zone_state_store import ZoneState
from sublet.primaries import store as publish_store
from sublet.primaries.store import Waiting

POLL_SECONDS = 5.0
FAULT_PAUSE_SECONDS = 5.0
SHARE_MAX = 0.02
"""Which share of the time the looks may take: with very many names that wait they get rarer."""
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ZoneSeen:
    """A zone at the instant of a look: what waits in it, and for one on a primary what is known of it."""

    zone: str
    waiting: Waiting
    state: ZoneState | None
    seen_at: datetime

    @property
    def oldest_seconds(self) -> float:
        """For how long the change that waits longest has waited; 0 when none waits."""
        return seconds_since(self.waiting.oldest_at, self.seen_at) or 0.0

    @property
    def checked_seconds(self) -> float | None:
        """How long ago the zone was last checked as a whole; None: never."""
        return None if self.state is None else seconds_since(self.state.checked_at, self.seen_at)


class ZoneWatch:
    """Looks for ever; `zones` has what the last look found."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.zones: tuple[ZoneSeen, ...] = ()

    async def run(self) -> None:
        """Look for ever; a fault is logged and waited out, it never ends the loop."""
        while True:
            try:
                began = time.monotonic()
                await self.look()
                took_seconds = time.monotonic() - began
                await asyncio.sleep(max(POLL_SECONDS, took_seconds / SHARE_MAX))
            except Unavailable:
                await asyncio.sleep(FAULT_PAUSE_SECONDS)
            except Exception:
                log.exception("zone_watch_fault")
                await asyncio.sleep(FAULT_PAUSE_SECONDS)

    async def look(self) -> None:
        """Read what there is to know of all zones."""
        self.zones = await self._db.read(see_zones)


def see_zones(tx: Tx) -> tuple[ZoneSeen, ...]:
    """Return every zone as it is in the database now, in the order of the platform domains' names."""
    states = zone_state_store.list_zone_states(tx)
    waiting = publish_store.count_waiting(tx)
    return tuple(
        ZoneSeen(
            each.domain,
            waiting.get(each.id, Waiting()),
            states.get(each.id, ZoneState(each.id)) if each.primary else None,
            tx.now,
        )
        for each in sorted(platform_domain_store.list_platform_domains(tx), key=lambda each: each.domain)
    )


def seconds_since(at: datetime | None, now: datetime) -> float | None:
    """Return how long ago an instant was, at least 0; None for none."""
    return None if at is None else max(0.0, (now - at).total_seconds())
