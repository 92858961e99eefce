"""Check delegations with the resolver of the settings. All processes together send a nameserver a limited number of queries."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from sublet.config import Settings, parse_listen, split_list
from sublet.db import Database
from sublet.errors import Unavailable
from sublet.health.claims import claim_addresses, release_addresses
from sublet.health.dns_client import DnsClient
from sublet.health.findings import report
from sublet.health.model import Observation, Question, Report, Target
from sublet.health.observe import observe
from sublet.health.query_limits import CHECK_SECONDS, Network, parse_networks
from sublet.health.resolve import (
    ROOT_SERVERS,
    CachingResolver,
    ForwardingResolver,
    IteratingResolver,
    Resolver,
)

CLAIM_PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The report of a check, and the observations that it is based on."""

    report: Report
    seen: Observation

    @property
    def busy_until(self) -> datetime | None:
        """The time at which the nameservers are free, if another check was asking them; None if this check could ask them."""
        return self.seen.busy_until


class Checker:
    """Checks delegations. A process needs only one `Checker`, which limits the process's queries."""

    def __init__(self, settings: Settings, db: Database) -> None:
        self._db = db
        self._client = DnsClient()
        self._allowed = parse_networks(settings.health_allowed_networks)
        self._resolver = CachingResolver(_resolver(settings, self._client, self._allowed))

    async def check(
        self,
        target: Target,
        *,
        seconds: float = CHECK_SECONDS,
        waits: bool = False,
        extra: Sequence[Question] = (),
    ) -> CheckResult:
        """Check a delegation for at most `seconds`, and return the result.

        If another check is asking the same nameservers: with `waits`, retry for half of `seconds`; without, book a time for a later check.

        Raises:
            Unavailable: the database can't be reached.
        """
        claim = partial(self._claimed, wait_seconds=seconds / 2 if waits else None)
        seen = await observe(
            target, self._client, self._resolver, claim, allowed=self._allowed, seconds=seconds, extra=extra
        )
        # On a thread, because validating signatures would block the event loop for too long.
        found = await asyncio.to_thread(report, target, seen, self._db.now())
        return CheckResult(found, seen)

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
            return  # The claim expires soon (`claims.CLAIM_DURATION`).


def _resolver(settings: Settings, client: DnsClient, allowed: Sequence[Network]) -> Resolver:
    if settings.health_resolver:
        return ForwardingResolver(client, *parse_listen("health_resolver", settings.health_resolver))
    return IteratingResolver(client, split_list(settings.health_root_hints) or ROOT_SERVERS, allowed)
