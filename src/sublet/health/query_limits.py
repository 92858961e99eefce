"""Limit which addresses checks query, and how often.

Registrants choose the addresses, and could abuse the registry for an attack.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from sublet.config import split_list
from sublet.dns.addresses import not_public_reason
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
