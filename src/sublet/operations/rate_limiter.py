"""Rate limits: the requests of a key in a minute. `choose_policies` lists them. Their numbers are the
settings `rate_limit_*` in config.py. That of user codes is in limits.py, with the limits of an hour or a day.

- **Token or session**: the requests of each class.
- **Address**, **network**: all requests, even those answered with 404 or 405, in each process separately.
- **Failed authentications** of an address and of a network. A valid token counts against neither.
- **User codes** that people enter to sign in a program, right or wrong, for an address and for a network.

A window is fixed: it lasts a minute and begins with a key's first request. A process **reserves** requests of
a window, then counts them in memory. On SQLite, where one process serves, it reserves the whole window. On
PostgreSQL the processes reserve parts of a window that is in the database (`rate_limit_store.py`), so their
sum never exceeds the limit. The headers are those of draft-ietf-httpapi-ratelimit-headers.
"""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from msgspec import Struct, field

from sublet.config import Settings
from sublet.counted import counted
from sublet.db import Database, sqlite_path
from sublet.errors import RateLimited
from sublet.limits import USER_CODES_PER_MINUTE
from sublet.operations.rate_limit_store import WINDOW_SECONDS, Reservation, delete_ended, reserve

WINDOWS_MAX = 100_000
"""The maximum number of windows in memory, about 40 MB. Beyond it the oldest window is dropped."""
FIRST_PART = 64
"""A process first reserves `1/FIRST_PART` of a window, then as much as it has counted. Small reservations
leave little unused.
"""
RESERVATIONS_BETWEEN_DELETIONS = 64
DELETED_MAX = 128
"""The maximum number of ended windows in one deletion: twice as many as can have begun since the last
deletion.
"""
READ, WRITE, TICKET, DYNDNS = "read", "write", "ticket", "dyndns"
ADDRESS, NETWORK = "address", "network"
FAILED_AUTHENTICATION, FAILED_OF_NETWORK = "failed-authentication", "failed-authentication-network"
USER_CODE = "user-code"
Reserve = Callable[[str, str, int, int], Awaitable[Reservation]]
"""Reserves requests in the window of a policy and a key, given its limit and the wanted number; may reserve
fewer.
"""


class Policy(NamedTuple):
    """A rate limit. `excess` is the first sentence of its refusal.

    A process counts a policy that `is_per_process` without the database, which a flood of requests without
    tokens must not reach. It reserves requests of a policy that `is_reserved_singly` one at a time, so that
    it leaves none unused.
    """

    name: str
    limit: int
    excess: str
    is_per_process: bool = False
    is_reserved_singly: bool = False


_FLOOD = "More than {limit} calls came from this {name} in a minute"
_READS = "You read more than {limit} times in a minute"
_WRITES = "You changed something more than {limit} times in a minute"
_TICKETS = "You opened or answered tickets more than {limit} times in a minute"
_NAMES = "You looked up names more than {limit} times in a minute"
_ADDRESSES = "You updated addresses more than {limit} times in a minute"
_QUERIES = "You had nameservers asked more than {limit} times in a minute"
_CODES = "Your address or network entered more than {limit} codes in a minute"
_FAILED = "Too many authentications from this address or network failed. A valid token is accepted at once"


def choose_policies(settings: Settings) -> dict[str, Policy]:
    """Return all policies by name.

    `Operation.rate_class` names one of the first six, for requests with a credential.
    """
    failed = settings.rate_limit_failed_auth_per_minute
    failed_of_network = settings.rate_limit_failed_auth_network_per_minute
    found = (
        Policy(READ, settings.rate_limit_read_per_minute, _READS),
        Policy(WRITE, settings.rate_limit_write_per_minute, _WRITES),
        Policy(TICKET, settings.rate_limit_ticket_per_minute, _TICKETS),
        Policy("availability", settings.rate_limit_availability_per_minute, _NAMES),
        Policy("health", settings.rate_limit_health_per_minute, _QUERIES),
        Policy(DYNDNS, settings.rate_limit_dyndns_per_minute, _ADDRESSES),
        Policy(ADDRESS, settings.rate_limit_address_per_minute, _FLOOD, is_per_process=True),
        Policy(NETWORK, settings.rate_limit_network_per_minute, _FLOOD, is_per_process=True),
        Policy(USER_CODE, USER_CODES_PER_MINUTE, _CODES),
        Policy(FAILED_AUTHENTICATION, failed, _FAILED, is_reserved_singly=True),
        Policy(FAILED_OF_NETWORK, failed_of_network, _FAILED, is_reserved_singly=True),
    )
    return {each.name: each for each in found}


class Allowance(NamedTuple):
    """The result for one request: whether it is `allowed`, and the `remaining` requests of its window, which
    ends in `reset_seconds`.

    With several processes `remaining` is what this process has reserved, plus what was unreserved at its last
    reservation.
    """

    policy: Policy
    remaining: int
    reset_seconds: int
    allowed: bool


class _Window(Struct):
    """This process's part of a window.

    `ends_at` is by this process's clock, and never later than the real end. `left` is reserved and not
    counted yet. `unreserved` is what no process had reserved at this process's last reservation. `counted`
    are the requests that this process counted.
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
    """Return the function that reserves: of whole windows on SQLite, of windows in the database on
    PostgreSQL.
    """
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
        self._policies = choose_policies(settings)
        self._reserve = reserve
        self._clock = clock
        # In the order of their start, which is nearly the order of their end, because all windows last a
        # minute.
        self._windows: OrderedDict[tuple[str, str], _Window] = OrderedDict()

    async def count(
        self, policy_name: str, key: str, headers: dict[str, str] | None = None
    ) -> Allowance | None:
        """Count one request of a key against a policy; return None if rate limits are off.

        A refusal adds `limit_headers` to `headers`.

        Raises:
            RateLimited: the limit is exceeded.
            Unavailable: the database can't be reached.
        """
        allowance = await self.take(policy_name, key)
        if allowance is None or allowance.allowed:
            return allowance
        if headers is not None:
            headers |= limit_headers(allowance)
        policy = allowance.policy
        raise RateLimited(
            f"{policy.excess.format(limit=policy.limit, name=policy.name)}. Try again "
            f"in {counted(allowance.reset_seconds, 'second')}.",
            retry_after_seconds=allowance.reset_seconds,
        )

    async def take(self, policy_name: str, key: str) -> Allowance | None:
        """Do the same as `count`, but return an allowance that is not `allowed` instead of raising
        `RateLimited`.
        """
        if not self._on:
            return None
        policy = self._policies[policy_name]
        now = self._clock()
        window = self._windows.get((policy_name, key))
        if window is None:
            window = self._windows[policy_name, key] = _Window()
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
        """Subtract a request that `take` counted, unless its window has ended.

        Return the allowance afterwards.
        """
        window = self._windows.get((taken.policy.name, key))
        # A window that ends later than `take` said is a new window, which didn't count that request.
        now = self._clock()
        if window is None or not 0 < window.ends_at - now <= taken.reset_seconds:
            return taken
        window.left += 1
        window.counted -= 1
        return self._allowance(taken.policy, window, now, allowed=True)

    async def _refill(self, window: _Window, policy: Policy, key: str, now: float) -> None:
        """Reserve as much as was counted, and at least `1/FIRST_PART` of the limit.

        An ended window loses what is left of it.

        The request that needs the reservation may use it even if its window has ended in the meantime.
        """
        if now >= window.ends_at:
            window.left = window.counted = 0
        wanted = 1 if policy.is_reserved_singly else max(1, policy.limit // FIRST_PART, window.counted)
        reserve = reserve_whole if policy.is_per_process else self._reserve
        reservation = await reserve(policy.name, key, policy.limit, wanted)
        window.left, window.unreserved = reservation.count, reservation.unreserved
        begins = window.counted == 0
        # `now` is from before the query, so this end is never later than the real one.
        window.ends_at = now + reservation.seconds_left
        if begins:
            self._windows[policy.name, key] = window
            self._windows.move_to_end((policy.name, key))
            self._drop_ended(now)

    def _allowance(self, policy: Policy, window: _Window, now: float, *, allowed: bool) -> Allowance:
        return Allowance(
            policy=policy,
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
    """Return the headers `RateLimit` (r requests remaining, t seconds) and `RateLimit-Policy` (quota q,
    window of w seconds).
    """
    policy = allowance.policy
    return {
        "ratelimit": f'"{policy.name}";r={allowance.remaining};t={allowance.reset_seconds}',
        "ratelimit-policy": f'"{policy.name}";q={policy.limit};w={WINDOW_SECONDS}',
    }
