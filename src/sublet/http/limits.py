"""Rate limits of tokens, addresses and networks: requests in a minute, and failed authentications.

Fixed windows of a minute that begin with a key's first request. A process spends what it has **borrowed** of a window. On SQLite,
where one process serves, it borrows the whole window from itself, in memory of a bounded size. On PostgreSQL the window is the
database's (`rate_store.py`), and processes borrow shares of it: the sum over them is never above the limit. What all tokens of an
address or network may send together each process counts for itself, answers of 404 and 405 included. Of failed attempts to
authenticate only the failures are limited: the token is looked up first, so a valid one always passes. The headers are those of
draft-ietf-httpapi-ratelimit-headers.
"""

import asyncio
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from sublet.config import Settings
from sublet.db import Database
from sublet.http.rate_store import WINDOW_SECONDS, Loan, forget_ended, lend
from sublet.sqlite_file import sqlite_path

KEYS_MAX = 100_000
"""Most keys remembered: about 40 MB; beyond it the oldest window is forgotten."""
KEYS_OF_ADDRESSES = 4096
"""The size of the cache of parsed addresses."""
FIRST_SHARE = 64
"""A process first borrows this part of a window, and later as much as it spent. Small loans leave little unused elsewhere."""
LOANS_BETWEEN_FORGETTING = 64
ENDED_MAX = 128
"""Most ended windows that are deleted at once: twice as many as can have begun since the last time."""
READ, WRITE, TICKET, AVAILABILITY, HEALTH = "read", "write", "ticket", "availability", "health"
"""The classes of requests of a token; `Endpoint.rate_class` is one of them."""
ADDRESS, NETWORK = "address", "network"
COUNTED_HERE = (ADDRESS, NETWORK)
"""Policies that each process counts for itself. They come before the token, and a flood must not reach the database."""
FAILED_AUTHENTICATION, FAILED_OF_NETWORK = "failed-authentication", "failed-authentication-network"
USER_CODE = "user-code"
"""The policy of codes that people type on the page of programs, right or wrong, of an address or a network."""
USER_CODES_PER_MINUTE = 10
NETWORK_BITS = {4: 24, 6: 48}
"""The prefix length of one network; RFC 6177 gives IPv6 sites a /48 to a /64."""
Borrow = Callable[[str, str, int, int], Awaitable[Loan]]
"""Borrows of the window of a policy and key with a limit, as many as are wanted or fewer."""


class Allowance(NamedTuple):
    """The rest of a window: `remaining` requests until it ends in `reset_seconds`. `allowed` is about this request.

    With several processes `remaining` is what this one has borrowed and what no process had borrowed when it last asked.
    """

    policy: str
    limit: int
    remaining: int
    reset_seconds: int
    allowed: bool


@dataclass(slots=True)
class _Window:
    """A window as this process knows it, and its share.

    `ends_at` is never later than the real end, by this process's clock. `left` is borrowed and not spent, `not_lent` what no
    process had borrowed when this one last asked.
    """

    ends_at: float = -math.inf
    left: int = 0
    not_lent: int = 0
    spent: int = 0
    borrowing: asyncio.Lock = field(default_factory=asyncio.Lock)


async def borrow_whole(_policy: str, _key: str, limit: int, _wanted: int) -> Loan:
    """Lend a whole new window: for a process that serves alone."""
    return Loan(count=limit, not_lent=0, seconds_left=WINDOW_SECONDS)


def borrow_from(settings: Settings, db: Database) -> Borrow:
    """Return where the processes of a registry borrow: on SQLite, which one process serves, from itself."""
    if sqlite_path(settings.database_url) is not None:
        return borrow_whole
    loans = 0

    async def borrow(policy: str, key: str, limit: int, wanted: int) -> Loan:
        nonlocal loans
        loans += 1
        if loans % LOANS_BETWEEN_FORGETTING == 0:
            await forget_ended(db, ENDED_MAX)
        return await lend(db, policy, key, limit, wanted)

    return borrow


class Limits:
    """The windows of one process. `clock` gives seconds that never go back."""

    def __init__(
        self,
        settings: Settings,
        borrow: Borrow = borrow_whole,
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
        self._borrow = borrow
        self._clock = clock
        # In the order of their start in this process: nearly the order of their end, because all windows last a minute.
        self._windows: OrderedDict[tuple[str, str], _Window] = OrderedDict()

    async def take(self, policy: str, key: str) -> Allowance | None:
        """Count one request of a key against a policy; None when limits are off.

        Raises:
            Unavailable: the database, which knows the window, can't be reached.
        """
        if not self._on:
            return None
        now = self._clock()
        window = self._windows.get((policy, key))
        if window is None:
            window = self._windows[policy, key] = _Window()
        if not window.left or now >= window.ends_at:
            # One at a time: the others then spend what the first one borrowed.
            async with window.borrowing:
                now = self._clock()
                if now >= window.ends_at or (not window.left and window.not_lent):
                    await self._refill(window, policy, key, now)
                allowed = window.left > 0
        else:
            allowed = True
        if allowed:
            window.left -= 1
            window.spent += 1
        return self._allowance(policy, window, now, allowed=allowed)

    def give_back(self, taken: Allowance, key: str) -> Allowance:
        """Take back one request that `take` allowed, unless its window is over; return what is left then."""
        window = self._windows.get((taken.policy, key))
        # A window that ends later than `take` said is a new one, in which that request was not counted.
        now = self._clock()
        if window is None or not 0 < window.ends_at - now <= taken.reset_seconds:
            return taken
        window.left += 1
        window.spent -= 1
        return self._allowance(taken.policy, window, now, allowed=True)

    async def _refill(self, window: _Window, policy: str, key: str, now: float) -> None:
        """Borrow: as much again as was spent, and the `FIRST_SHARE`th part at least. What was left of a window that is over is gone.

        A loan is good for the request that it was borrowed for even if its window has ended on the way here.
        """
        if now >= window.ends_at:
            window.left = window.spent = 0
        limit = self._limits[policy]
        is_of_failures = policy in (FAILED_AUTHENTICATION, FAILED_OF_NETWORK)
        wanted = 1 if is_of_failures else max(1, limit // FIRST_SHARE, window.spent)
        borrow = borrow_whole if policy in COUNTED_HERE else self._borrow
        loan = await borrow(policy, key, limit, wanted)
        window.left, window.not_lent = loan.count, loan.not_lent
        begins = window.spent == 0
        window.ends_at = now + loan.seconds_left  # from before it was asked
        if begins:
            self._windows[policy, key] = window
            self._windows.move_to_end((policy, key))
            self._forget(now)

    def _allowance(self, policy: str, window: _Window, now: float, *, allowed: bool) -> Allowance:
        return Allowance(
            policy=policy,
            limit=self._limits[policy],
            remaining=window.left + window.not_lent,
            reset_seconds=max(1, math.ceil(window.ends_at - now)),
            allowed=allowed,
        )

    def _forget(self, now: float) -> None:
        while self._windows:
            oldest = next(iter(self._windows.values()))
            if oldest.borrowing.locked() and len(self._windows) <= KEYS_MAX:
                return
            if oldest.ends_at > now and len(self._windows) <= KEYS_MAX:
                return
            self._windows.popitem(last=False)


def limit_headers(allowance: Allowance) -> dict[str, str]:
    """Return `RateLimit` and `RateLimit-Policy` (structured fields: quota q, window w, remaining r, seconds t)."""
    return {
        "ratelimit": f'"{allowance.policy}";r={allowance.remaining};t={allowance.reset_seconds}',
        "ratelimit-policy": f'"{allowance.policy}";q={allowance.limit};w={WINDOW_SECONDS}',
    }


def client_address(peer: str, forwarded_for: list[str], trusted: frozenset[str]) -> str:
    """Return the address that a request comes from.

    `X-Forwarded-For` is believed only where the peer is a trusted proxy; then the last address in it that is not one of
    them counts, since whatever stands before may be invented.
    """
    if peer not in trusted:
        return peer
    hops = [hop.strip() for line in forwarded_for for hop in line.split(",")]
    for hop in reversed(hops):
        try:
            address = str(ipaddress.ip_address(hop))
        except ValueError:
            return peer
        if address not in trusted:
            return address
        peer = address
    return peer


def trusted_addresses(text: str) -> frozenset[str]:
    """Return the addresses of the setting `trusted_proxies`, in canonical form."""
    return frozenset(str(ipaddress.ip_address(part.strip())) for part in text.split(",") if part.strip())


@lru_cache(KEYS_OF_ADDRESSES)
def address_key(address: str) -> str:
    """Return the key an address is counted under: itself, or the /64 of an IPv6 address, which one customer has whole."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


@lru_cache(KEYS_OF_ADDRESSES)
def network_key(address: str) -> str | None:
    """Return the key of the network that an address is in; None for loopback, and for a text that isn't an address."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    if parsed.is_loopback:
        return None
    return str(ipaddress.ip_network((parsed, NETWORK_BITS[parsed.version]), strict=False))
