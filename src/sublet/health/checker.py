"""Look at delegations from a process: with its settings, and the limits that all processes share."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from sublet.config import Settings, parse_listen
from sublet.db import Database
from sublet.errors import Unavailable
from sublet.health.ask import Asker
from sublet.health.claims import claim_addresses, release_addresses
from sublet.health.findings import report
from sublet.health.model import Observation, Question, Report, Target
from sublet.health.observe import Observer
from sublet.health.resolve import (
    ROOT_SERVERS,
    ForwardingResolver,
    IteratingResolver,
    RememberingResolver,
    Resolver,
)
from sublet.health.targets import LOOK_SECONDS, parse_networks

CLAIM_PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Looked:
    """The result of a look, and what it saw. `busy_until` is when to come again if the nameservers are being asked for another name."""

    report: Report
    seen: Observation

    @property
    def busy_until(self) -> datetime | None:
        """When the nameservers are free; None if they were asked."""
        return self.seen.busy_until


class Checker:
    """Looks at delegations, one for each process."""

    def __init__(self, settings: Settings, db: Database) -> None:
        self._db = db
        self._asker = Asker()
        self._allowed = parse_networks(settings.health_allowed_networks)
        self._resolver = _resolver(settings, self._asker)

    async def look(
        self,
        target: Target,
        *,
        seconds: float = LOOK_SECONDS,
        waits: bool = False,
        extra: Sequence[Question] = (),
    ) -> Looked:
        """Look at a delegation once, for at most `seconds`.

        If its nameservers are being asked for another name: with `waits`, try again for half of the time; else book a later look.

        Raises:
            Unavailable: the database, which shares the limits, can't be reached.
        """
        claim = partial(self._claimed, wait_seconds=seconds / 2 if waits else None)
        observer = Observer(self._asker, self._resolver, claim, self._allowed)
        seen = await observer.observe(target, seconds=seconds, extra=extra)
        # Signatures take time to validate, more than the event loop may be held up.
        found = await asyncio.to_thread(report, target, seen, self._db.now())
        return Looked(found, seen)

    @asynccontextmanager
    async def _claimed(
        self, addresses: Sequence[str], *, wait_seconds: float | None
    ) -> AsyncIterator[datetime | None]:
        clock = asyncio.get_running_loop().time
        until = clock() + (wait_seconds or 0.0)
        while True:
            busy_until = await self._db.write(claim_addresses, addresses, books=wait_seconds is None)
            if busy_until is None or clock() >= until:
                break
            await asyncio.sleep(CLAIM_PAUSE_SECONDS)
        try:
            yield busy_until
        finally:
            if busy_until is None:
                await asyncio.shield(self._release(addresses))

    async def _release(self, addresses: Sequence[str]) -> None:
        try:
            await self._db.write(release_addresses, addresses)
        except Unavailable:
            return  # they are free by themselves soon


def _resolver(settings: Settings, asker: Asker) -> Resolver:
    allowed = parse_networks(settings.health_allowed_networks)
    if settings.health_resolver:
        return RememberingResolver(
            ForwardingResolver(asker, *parse_listen("health_resolver", settings.health_resolver))
        )
    roots = [each.strip() for each in settings.health_root_hints.split(",") if each.strip()]
    return RememberingResolver(IteratingResolver(asker, roots or ROOT_SERVERS, allowed))
