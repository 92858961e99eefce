"""Limit equal responses over UDP, because source addresses may be forged (docs/decisions/0016)."""

from socket import AF_INET6, inet_pton

from sublet.limits import RESPONSES_PER_SECOND

_SLOT_COUNT = 65536
"""The number of counters. A hash of network, rcode and name selects the counter, so different responses may
share a limit.
"""


class ResponseLimit:
    """Counts the responses of each second by network, rcode and name
    (`Response.about`), in constant memory.
    """

    def __init__(self) -> None:
        self._second = 0
        self._counts: dict[int, int] = {}

    def count_response(self, host: str, rcode: int, about: str, at_seconds: float) -> bool:
        """Count a response to an IP address, and return True if its network has exceeded the limit of this
        second.

        Loopback addresses have no limit, because other hosts can't forge them.
        """
        if host.startswith("127.") or host == "::1":
            return False
        if self._second != int(at_seconds):
            self._second = int(at_seconds)
            self._counts.clear()
        slot = hash((network_of(host), rcode, about)) % _SLOT_COUNT
        count = self._counts[slot] = self._counts.get(slot, 0) + 1
        return count > RESPONSES_PER_SECOND


def network_of(host: str) -> str | bytes:
    """Return the network of an IP address: 24 bits of an IPv4 address, 56 bits of an IPv6 address."""
    if ":" not in host:
        return host.rpartition(".")[0]
    return inet_pton(AF_INET6, host.partition("%")[0])[:7]
