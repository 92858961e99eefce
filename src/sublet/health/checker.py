"""Check delegations with the resolver of the settings.

All processes together send a nameserver a limited number of queries.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial

from msgspec import Struct

from sublet.config import Settings, parse_listen, split_list
from sublet.db import Database
from sublet.errors import Unavailable
from sublet.health.aliases import Alias, check_aliases
from sublet.health.control import Control, impaired_report
from sublet.health.dns_client import DnsClient
from sublet.health.findings import report
from sublet.health.model import HEALTHY, IMPAIRED, UNKNOWN, Observation, Question, Report, Target
from sublet.health.observe import Claim, observe
from sublet.health.query_limits import CHECK_SECONDS, claim_addresses, parse_networks, release_addresses
from sublet.health.resolve import (
    CachingResolver,
    ForwardingResolver,
    IteratingResolver,
    Resolver,
    is_special_use,
)
from sublet.structs import replace

CLAIM_PAUSE_SECONDS = 0.2
CONTROL_SECONDS = 10.0
"""The maximum time for the control after a check."""


class CheckResult(Struct, frozen=True):
    """The report of a check, and the observations that it is based on.

    `found` is the report that the observations alone give. It equals `report` if the control group worked.
    """

    report: Report
    seen: Observation
    found: Report

    @property
    def busy_until(self) -> datetime | None:
        """The time at which the nameservers are free, if another check was asking them; None if this check
        could ask them.
        """
        return self.seen.busy_until

    @property
    def is_impaired(self) -> bool:
        """True if this host can't check delegations at the moment, so that a silent
        nameserver says nothing.
        """
        return any(each.code == IMPAIRED for each in self.report.findings)


class Checker:
    """Checks delegations. A process needs only one `Checker`, which limits the process's queries."""

    def __init__(
        self, settings: Settings, db: Database, monotonic: Callable[[], float] | None = None
    ) -> None:
        """`monotonic` is a clock that doesn't jump, to find jumps of the wall clock."""
        self._db = db
        self._client = DnsClient()
        self._allowed = parse_networks(settings.health_allowed_networks)
        hints = tuple(split_list(settings.health_root_hints))
        self._forwarding = forwarding_resolver(settings.health_resolver, self._client)
        self.control = Control(self._client, hints, self._forwarding, db.now, monotonic)
        self._resolver = CachingResolver(self._forwarding or self._iterating())

    async def check(
        self,
        target: Target,
        *,
        seconds: float = CHECK_SECONDS,
        waits: bool = False,
        extra: Sequence[Question] = (),
        always_asks: bool = False,
    ) -> CheckResult:
        """Check a delegation, or aliases, for at most `seconds`, and return the result.

        If the control group fails, the state is `unknown`.

        If the control group fails, nameservers are only asked with `always_asks`, or if there are `extra`
        questions. If another check is asking the same nameservers: with `waits`, retry for half of `seconds`;
        without, book a time for a later check.

        Raises:
            Unavailable: the database can't be reached.
        """
        ends = asyncio.get_running_loop().time() + seconds
        if target.aliases:
            return await self._check_aliases(target.aliases, ends)
        if all(is_special_use(each) for each in target.delegation.nameservers):
            # The result needs no query.
            seen = await observe(target, self._client, self._resolver, self._claimed)
            found = report(target, seen, self._db.now())
            return CheckResult(found, seen, found)
        problem = await self._in_time(self._find_problem(), ends)
        if problem is not None and not extra and not always_asks:
            impaired = impaired_report(problem, self._db.now())
            return CheckResult(impaired, Observation(), impaired)
        claim = partial(self._claimed, wait_seconds=seconds / 2 if waits else None)
        result = await self._check(target, self._resolver, claim, ends, extra)
        return result if problem is None else replace(result, report=impaired_report(problem, self._db.now()))

    async def _check_aliases(self, aliases: Sequence[Alias], ends: float) -> CheckResult:
        clock = asyncio.get_running_loop().time
        problem = await self._in_time(self._find_problem(), ends)
        found = Report(UNKNOWN, (), self._db.now())
        if problem is None:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(ends):
                    found = await check_aliases(aliases, self._resolver, self._db.now())
            if found.state != HEALTHY:
                problem = await self._in_time(
                    self.control.find_problem(after=clock()), clock() + CONTROL_SECONDS
                )
        believed = found if problem is None else impaired_report(problem, self._db.now())
        return CheckResult(believed, Observation(), found)

    async def check_without_cache(self, target: Target) -> CheckResult:
        """Check a delegation without any cached answer: follow referrals from the root, even if the settings
        name a resolver.

        Raises:
            Unavailable: the database can't be reached.
        """
        ends = asyncio.get_running_loop().time() + CHECK_SECONDS
        claim = partial(self._claimed, wait_seconds=CHECK_SECONDS / 2)
        return await self._check(target, self._iterating(), claim, ends, ())

    async def _check(
        self, target: Target, resolver: Resolver, claim: Claim, ends: float, extra: Sequence[Question]
    ) -> CheckResult:
        clock = asyncio.get_running_loop().time
        seen = await observe(
            target,
            self._client,
            resolver,
            claim,
            allowed=self._allowed,
            seconds=ends - clock(),
            extra=extra,
            forwarding=self._forwarding if resolver is self._resolver else None,
        )
        # On a thread, because validating signatures would block the event loop for too long.
        found = await asyncio.to_thread(report, target, seen, self._db.now())
        if found.state != HEALTHY and seen.busy_until is None:
            # A fault counts only if this host could still ask all nameservers after it was found.
            problem = await self._in_time(self.control.find_problem(after=clock()), clock() + CONTROL_SECONDS)
            if problem is not None:
                return CheckResult(impaired_report(problem, self._db.now()), seen, found)
        if seen.busy_until is None:
            self.control.remember(target.fqdn, seen.servers, is_healthy=found.state == HEALTHY)
        return CheckResult(found, seen, found)

    async def _find_problem(self) -> str | None:
        problem = await self.control.find_problem()
        if problem is None and self._forwarding is not None and self._forwarding.without_cache is None:
            self._forwarding.without_cache = self._iterating()
        return problem

    async def _in_time(self, problem: Awaitable[str | None], ends: float) -> str | None:
        try:
            async with asyncio.timeout_at(ends):
                return await problem
        except TimeoutError:
            return "The root servers or the resolver answer too slowly."

    @asynccontextmanager
    async def _claimed(
        self, addresses: Sequence[str], *, wait_seconds: float | None = None
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
            return  # The claim expires soon (`query_limits.CLAIM_DURATION`).

    def _iterating(self) -> IteratingResolver:
        """Return a new resolver without cached answers."""
        return IteratingResolver(self._client, self.control.root_servers, self._allowed)


def forwarding_resolver(health_resolver: str, client: DnsClient) -> ForwardingResolver | None:
    """Return the resolver of the setting `health_resolver`, or None if it is empty."""
    if not health_resolver:
        return None
    return ForwardingResolver(client, *parse_listen("health_resolver", health_resolver))
