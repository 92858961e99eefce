"""Rate limits of tokens, addresses and networks: requests in a minute, and failed authentications.

A window is fixed: it lasts a minute and begins with a key's first request. A process **reserves** requests of a window, then counts
them in memory. On SQLite, where one process serves, it reserves the whole window. On PostgreSQL the processes reserve parts of a
window that is in the database (`rate_limit_store.py`), so their sum never exceeds the limit. The limits of addresses and networks apply to
each process separately, and to all its requests, even those answered with 404 or 405. Only failed authentications count, so a valid token
always passes.
The headers are those of draft-ietf-httpapi-ratelimit-headers.
"""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from sublet.config import Settings
from sublet.db import Database
from sublet.http.rate_limit_store import WINDOW_SECONDS, Reservation, delete_ended, reserve
from sublet.sqlite_file import sqlite_path

WINDOWS_MAX = 100_000
"""The maximum number of windows in memory, about 40 MB. Beyond it the oldest window is dropped."""
FIRST_PART = 64
"""A process first reserves `1/FIRST_PART` of a window, then as much as it has counted. Small reservations leave little unused."""
RESERVATIONS_BETWEEN_DELETIONS = 64
DELETED_MAX = 128
"""The maximum number of ended windows in one deletion: twice as many as can have begun since the last deletion."""
READ, WRITE, TICKET, AVAILABILITY, HEALTH = "read", "write", "ticket", "availability", "health"
"""The policies of requests with a credential; `Endpoint.rate_class` names one of them."""
ADDRESS, NETWORK = "address", "network"
COUNTED_PER_PROCESS = (ADDRESS, NETWORK)
"""The policies that a process counts without the database, which a flood of requests without tokens must not reach."""
FAILED_AUTHENTICATION, FAILED_OF_NETWORK = "failed-authentication", "failed-authentication-network"
USER_CODE = "user-code"
"""The policy of user codes that people enter to sign in a program, right or wrong, for an address and for a network."""
USER_CODES_PER_MINUTE = 10
Reserve = Callable[[str, str, int, int], Awaitable[Reservation]]
"""Reserves requests in the window of a policy and a key, given its limit and the wanted number; may reserve fewer."""


class Allowance(NamedTuple):
    """The result for one request: whether it is `allowed`, and the `remaining` requests of its window, which ends in `reset_seconds`.

    With several processes `remaining` is what this process has reserved, plus what was unreserved at its last reservation.
    """

    policy: str
    limit: int
    remaining: int
    reset_seconds: int
    allowed: bool


@dataclass(slots=True)
class _Window:
    """This process's part of a window.

    `ends_at` is by this process's clock, and never later than the real end. `left` is reserved and not counted yet. `unreserved` is
    what no process had reserved at this process's last reservation. `counted` are the requests that this process counted.
    """

    ends_at: float = -math.inf
    left: int = 0
    unreserved: int = 0
    counted: int = 0
    reserving: asyncio.Lock = field(default_factory=asyncio.Lock)


async def reserve_whole(_policy: str, _key: str, limit: int, _wanted: int) -> Reservation:
    """Return a reservation of a whole new window, for the only process of a registry."""
    return Reservation(count=limit, unreserved=0, seconds_left=WINDOW_SECONDS)


def choose_reserve(settings: Settings, db: Database) -> Reserve:
    """Return the function that reserves: of whole windows on SQLite, of windows in the database on PostgreSQL."""
    if sqlite_path(settings.database_url) is not None:
        return reserve_whole
    reservations = 0

    async def reserve_in_database(policy: str, key: str, limit: int, wanted: int) -> Reservation:
        nonlocal reservations
        reservations += 1
        if reservations % RESERVATIONS_BETWEEN_DELETIONS == 0:
            await delete_ended(db, DELETED_MAX)
        return await reserve(db, policy, key, limit, wanted)

    return reserve_in_database


class RateLimiter:
    """Counts requests against the rate limits of one process. `clock` returns seconds that never decrease."""

    def __init__(
        self,
        settings: Settings,
        reserve: Reserve = reserve_whole,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on = settings.rate_limits
        self._limits = {
            READ: settings.rate_limit_read_per_minute,
            WRITE: settings.rate_limit_write_per_minute,
            TICKET: settings.rate_limit_ticket_per_minute,
            AVAILABILITY: settings.rate_limit_availability_per_minute,
            HEALTH: settings.rate_limit_health_per_minute,
            ADDRESS: settings.rate_limit_address_per_minute,
            NETWORK: settings.rate_limit_network_per_minute,
            USER_CODE: USER_CODES_PER_MINUTE,
            FAILED_AUTHENTICATION: settings.rate_limit_failed_auth_per_minute,
            FAILED_OF_NETWORK: settings.rate_limit_failed_auth_network_per_minute,
        }
        self._reserve = reserve
        self._clock = clock
        # In the order of their start, which is nearly the order of their end, because all windows last a minute.
        self._windows: OrderedDict[tuple[str, str], _Window] = OrderedDict()

    async def take(self, policy: str, key: str) -> Allowance | None:
        """Count one request of a key against a policy; return None if rate limits are off.

        Raises:
            Unavailable: the database can't be reached.
        """
        if not self._on:
            return None
        now = self._clock()
        window = self._windows.get((policy, key))
        if window is None:
            window = self._windows[policy, key] = _Window()
        if not window.left or now >= window.ends_at:
            # The lock makes concurrent requests use the first one's reservation.
            async with window.reserving:
                now = self._clock()
                if now >= window.ends_at or (not window.left and window.unreserved):
                    await self._refill(window, policy, key, now)
                allowed = window.left > 0
        else:
            allowed = True
        if allowed:
            window.left -= 1
            window.counted += 1
        return self._allowance(policy, window, now, allowed=allowed)

    def release(self, taken: Allowance, key: str) -> Allowance:
        """Subtract a request that `take` counted, unless its window has ended. Return the allowance afterwards."""
        window = self._windows.get((taken.policy, key))
        # A window that ends later than `take` said is a new window, which didn't count that request.
        now = self._clock()
        if window is None or not 0 < window.ends_at - now <= taken.reset_seconds:
            return taken
        window.left += 1
        window.counted -= 1
        return self._allowance(taken.policy, window, now, allowed=True)

    async def _refill(self, window: _Window, policy: str, key: str, now: float) -> None:
        """Reserve as much as was counted, and at least `1/FIRST_PART` of the limit. An ended window loses what is left of it.

        The request that needs the reservation may use it even if its window has ended in the meantime.
        """
        if now >= window.ends_at:
            window.left = window.counted = 0
        limit = self._limits[policy]
        is_of_failures = policy in (FAILED_AUTHENTICATION, FAILED_OF_NETWORK)
        wanted = 1 if is_of_failures else max(1, limit // FIRST_PART, window.counted)
        reserve = reserve_whole if policy in COUNTED_PER_PROCESS else self._reserve
        reservation = await reserve(policy, key, limit, wanted)
        window.left, window.unreserved = reservation.count, reservation.unreserved
        begins = window.counted == 0
        # `now` is from before the query, so this end is never later than the real one.
        window.ends_at = now + reservation.seconds_left
        if begins:
            self._windows[policy, key] = window
            self._windows.move_to_end((policy, key))
            self._drop_ended(now)

    def _allowance(self, policy: str, window: _Window, now: float, *, allowed: bool) -> Allowance:
        return Allowance(
            policy=policy,
            limit=self._limits[policy],
            remaining=window.left + window.unreserved,
            reset_seconds=max(1, math.ceil(window.ends_at - now)),
            allowed=allowed,
        )

    def _drop_ended(self, now: float) -> None:
        while self._windows:
            oldest = next(iter(self._windows.values()))
            if oldest.reserving.locked() and len(self._windows) <= WINDOWS_MAX:
                return
            if oldest.ends_at > now and len(self._windows) <= WINDOWS_MAX:
                return
            self._windows.popitem(last=False)


def limit_headers(allowance: Allowance) -> dict[str, str]:
    """Return the headers `RateLimit` (r requests remaining, t seconds) and `RateLimit-Policy` (quota q, window of w seconds)."""
    return {
        "ratelimit": f'"{allowance.policy}";r={allowance.remaining};t={allowance.reset_seconds}',
        "ratelimit-policy": f'"{allowance.policy}";q={allowance.limit};w={WINDOW_SECONDS}',
    }
