"""Limit which addresses checks query, and how often.

Registrants choose the addresses, and could abuse the registry for an attack. At most one check of all
processes asks an address at a time. A check that finds an address claimed books the next free time of the
address, and is postponed to it. So the checks of a thousand names on one nameserver run one after the other,
and each is postponed only once.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from sublet.config import split_list
from sublet.db import Tx
from sublet.dns.addresses import not_public_reason
from sublet.health import store
from sublet.limits import QUERIES_PER_SECOND

QUERIES_MAX = 120
"""The maximum number of queries of a check. A server gets about eight."""
EXTRA_QUERIES_MAX = 240
"""The maximum number of queries of a check for `extra` questions. DS records need 3 for each address, CSYNC
records more.
"""
CHECK_SECONDS = 10.0
"""The timeout of a check."""
ADDRESSES_MAX = 16
"""The maximum number of a name's addresses that are asked."""
TRACKED_ADDRESSES_MAX = 20_000
"""The maximum number of addresses whose last queries are tracked."""

Network = IPv4Network | IPv6Network


CLAIM_DURATION = timedelta(seconds=CHECK_SECONDS + 5)
"""The maximum duration of a claim. It is longer than a check, and ends the claims of processes that died."""
CLAIM_DURATION_MAX = 2 * CLAIM_DURATION
"""A claim that lasts longer is ignored, because a wrong clock made it. Twice `CLAIM_DURATION` allows for
small differences of clocks.
"""
PAUSE = timedelta(seconds=1)
"""The pause between two checks of an address, so that together they don't exceed `QUERIES_PER_SECOND`."""
BOOKING_DURATION = timedelta(seconds=3)
"""The duration of a booking."""
BOOKED_AHEAD_MAX = timedelta(hours=12)
IDLE_AFTER = timedelta(hours=1)


def parse_networks(text: str) -> tuple[Network, ...]:
    """Return the networks in a comma-separated text.

    Raises:
        ValueError: a part isn't a network.
    """
    return tuple(ip_network(part) for part in split_list(text))


def may_ask(address: str, allowed: Sequence[Network] = ()) -> bool:
    """True if a query may go to this canonical address: it is public, or the operator allows its network
    (`health_allowed_networks`).
    """
    parsed = ip_address(address)
    return not_public_reason(address) is None or any(
        parsed.version == network.version and parsed in network for network in allowed
    )


class Budget:
    """The number of queries that a check may still send."""

    def __init__(self, queries: int = QUERIES_MAX) -> None:
        self._left = queries

    @property
    def is_spent(self) -> bool:
        """True if the check may send no more queries."""
        return self._left <= 0

    def spend(self) -> bool:
        """Count a query. Return False if the check may send no more queries."""
        if self._left <= 0:
            return False
        self._left -= 1
        return True


class QueryRateLimit:
    """Limits this process's queries to an address: at most `QUERIES_PER_SECOND` in any second."""

    def __init__(self) -> None:
        self._recent: OrderedDict[str, deque[float]] = OrderedDict()

    async def wait(self, address: str) -> None:
        """Wait until a query may be sent to this address, and count the query."""
        clock = asyncio.get_running_loop().time
        recent = self._recent.setdefault(address, deque(maxlen=QUERIES_PER_SECOND))
        self._recent.move_to_end(address)
        while len(self._recent) > TRACKED_ADDRESSES_MAX:
            self._recent.popitem(last=False)
        # Compare again after each pause, because other tasks may have sent queries meanwhile.
        while len(recent) == QUERIES_PER_SECOND and (pause := recent[0] + 1.0 - clock()) > 0:  # noqa: ASYNC110 - it waits for a time, not for an event
            await asyncio.sleep(pause)
        recent.append(clock())


def claim_addresses(tx: Tx, addresses: Sequence[str], *, books: bool) -> datetime | None:
    """Claim these addresses for one check, and return None.

    If one is claimed already, return when to try again.

    With `books`, the returned time is booked for the caller. Not audited, because a claim changes no name.
    """
    if not addresses:
        return None
    found = store.lock_addresses(tx, addresses)
    claimed = [
        each for each, (held_until, _) in found.items() if tx.now < held_until <= tx.now + CLAIM_DURATION_MAX
    ]
    if not claimed:
        store.update_addresses(tx, addresses, held_until=tx.now + CLAIM_DURATION)
        return None
    booked = max(min(found[each][1], tx.now + BOOKED_AHEAD_MAX) for each in claimed)
    at = max(booked, tx.now + BOOKING_DURATION)
    if books:
        store.update_addresses(tx, claimed, booked_until=at + BOOKING_DURATION)
    return at


def release_addresses(tx: Tx, addresses: Sequence[str]) -> None:
    """End the claims of a check, after a pause."""
    if addresses:
        store.update_addresses(tx, addresses, held_until=tx.now + PAUSE)


def delete_idle_addresses(tx: Tx) -> None:
    """Delete addresses that no check has used for an hour, at most 1,000 of them at a time."""
    store.delete_idle_addresses(tx, tx.now - IDLE_AFTER, 1000)
