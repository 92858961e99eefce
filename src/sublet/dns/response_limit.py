"""The limit on equal responses over UDP, where a source address may be forged (decision 16)."""

from socket import AF_INET6, inet_pton

RESPONSES_PER_SECOND = 50
"""How many equal responses one network gets in full in one second: an IPv4 network of 24 bits, or an IPv6 network of 56 bits."""

_SLOT_COUNT = 65536
"""Counters, chosen by hash. Two keys in one slot share their limit, which matters only if one of them is near it."""


class ResponseLimit:
    """Counts responses by network, response code and the name that they are about, in whole seconds. Its memory is constant."""

    def __init__(self) -> None:
        self._second = 0
        self._counts: dict[int, int] = {}

    def is_exceeded(self, host: str, rcode: int, about: str, at_seconds: float) -> bool:
        """Count a response to this IP address, and return True if its network has had its full ones in this second.

        A loopback address is never limited, because it can't be forged from outside.
        """
        if host.startswith("127.") or host == "::1":
            return False
        if self._second != int(at_seconds):
            self._second = int(at_seconds)
            self._counts.clear()
        slot = hash((_network_of(host), rcode, about)) % _SLOT_COUNT
        count = self._counts[slot] = self._counts.get(slot, 0) + 1
        return count > RESPONSES_PER_SECOND


def _network_of(host: str) -> str | bytes:
    if ":" not in host:
        return host.rpartition(".")[0]
    return inet_pton(AF_INET6, host.partition("%")[0])[:7]
