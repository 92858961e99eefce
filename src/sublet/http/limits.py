"""Rate limits: how many requests a token may send in a minute, and how often an address may fail to authenticate.

Fixed windows of a minute that begin with a key's first request, in memory of a bounded size, for each process on its own:
with several API processes a client gets up to that many times the rate. The headers are those of
draft-ietf-httpapi-ratelimit-headers.
"""

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from sublet.config import Settings

WINDOW_SECONDS = 60
KEYS_MAX = 100_000
"""Most keys remembered: about 20 MB; beyond it the oldest window is forgotten."""
FAILED_AUTHENTICATION = "failed-authentication"


@dataclass(frozen=True, slots=True)
class Allowance:
    """What is left of a window: `remaining` requests until it ends in `reset_seconds`. `allowed` is about this request."""

    policy: str
    limit: int
    remaining: int
    reset_seconds: int
    allowed: bool


class Limits:
    """The windows of one process. `clock` gives seconds that never go back."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._on = settings.rate_limits == "on"
        self._limits = {
            "read": settings.rate_limit_read_per_minute,
            "write": settings.rate_limit_write_per_minute,
            "ticket": settings.rate_limit_ticket_per_minute,
            FAILED_AUTHENTICATION: settings.rate_limit_failed_auth_per_minute,
        }
        self._clock = clock
        # Both the order of insertion and that of the windows' ends, since all windows are of one length.
        self._windows: OrderedDict[tuple[str, str], list[float]] = OrderedDict()

    def take(self, policy: str, key: str) -> Allowance | None:
        """Count one request of a key against a policy; None when limits are off."""
        return self._look(policy, key, cost=1) if self._on else None

    def look(self, policy: str, key: str) -> Allowance | None:
        """Tell what is left without counting anything; None when limits are off."""
        return self._look(policy, key, cost=0) if self._on else None

    def _look(self, policy: str, key: str, cost: int) -> Allowance:
        now = self._clock()
        limit = self._limits[policy]
        window = self._windows.get((policy, key))
        if window is None or now >= window[0]:
            window = [now + WINDOW_SECONDS, 0]
            if cost:
                self._windows.pop((policy, key), None)
                self._windows[policy, key] = window
                self._forget(now)
        used = window[1] + cost
        allowed = used <= limit if cost else used < limit
        if allowed:
            window[1] = used
        return Allowance(
            policy=policy,
            limit=limit,
            remaining=max(0, int(limit - window[1])),
            reset_seconds=max(1, math.ceil(window[0] - now)),
            allowed=allowed,
        )

    def _forget(self, now: float) -> None:
        while self._windows and (
            len(self._windows) > KEYS_MAX or next(iter(self._windows.values()))[0] <= now
        ):
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
