"""Which addresses may be asked, and how much: registrants choose where the packets of this registry go."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from sublet.dns.addresses import not_public_reason

QUERIES_MAX = 40
"""The most queries of one look, resolving the nameservers included."""
EXTRA_QUERIES_MAX = 240
"""The most queries of one look for what some names need besides: DS records 3 for each address, CSYNC records more."""
LOOK_SECONDS = 10.0
"""The timeout of one look."""
QUERIES_PER_SECOND = 5
"""The most queries to one address in a second."""
ADDRESSES_MAX = 16
"""The most addresses of one name that are asked."""
PACED_MAX = 20_000
"""The most addresses whose last queries are remembered."""

Network = IPv4Network | IPv6Network


def parse_networks(text: str) -> tuple[Network, ...]:
    """Return the networks of a setting, separated by commas. Raises ValueError."""
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())


def may_ask(address: str, allowed: Sequence[Network] = ()) -> bool:
    """True if a query may go to this canonical address: it is public like glue, or the operator allows its network."""
    parsed = ip_address(address)
    return not_public_reason(address) is None or any(
        parsed.version == network.version and parsed in network for network in allowed
    )


class Budget:
    """The queries that one look has left."""

    def __init__(self, queries: int = QUERIES_MAX) -> None:
        self._left = queries

    def spend(self) -> bool:
        """Count a query; False if none is left."""
        if self._left <= 0:
            return False
        self._left -= 1
        return True


class Pace:
    """Spreads this process's queries to one address: at most `QUERIES_PER_SECOND` in any second."""

    def __init__(self) -> None:
        self._recent: OrderedDict[str, deque[float]] = OrderedDict()

    async def wait(self, address: str) -> None:
        """Wait until a query may go to this address, and count it."""
        clock = asyncio.get_running_loop().time
        recent = self._recent.setdefault(address, deque(maxlen=QUERIES_PER_SECOND))
        self._recent.move_to_end(address)
        while len(self._recent) > PACED_MAX:
            self._recent.popitem(last=False)
        # Compared again after each pause, which may have been longer than asked for.
        while len(recent) == QUERIES_PER_SECOND and (pause := recent[0] + 1.0 - clock()) > 0:  # noqa: ASYNC110 - no event, a time
            await asyncio.sleep(pause)
        recent.append(clock())
