"""Query name servers for the serials of zones concurrently."""

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from sublet.dns.serial import SerialUnknown, is_newer, query_serial
from sublet.platform_domains.model import PlatformDomain
from sublet.primaries.primary import PrimaryFault
from sublet.primaries.primary_zone import FindPrimary

QUERIES_MAX = 50
"""The maximum number of concurrent queries."""


class SerialAnswer(Struct, frozen=True):
    """The answer of a server: a serial, or the `cause` (one of `primaries.primary.CAUSES`) and `detail` of a
    failure.

    `address` is the server's IP address and port; None if the settings don't have it.
    """

    address: tuple[str, int] | None
    serial: int | None = None
    cause: str | None = None
    detail: str | None = None


class SerialQueries:
    """Queries name servers without a key, with a timeout for each query.

    `slots` limits the concurrent queries.
    """

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self.slots = asyncio.Semaphore(QUERIES_MAX)

    async def query_servers(
        self, zone: PlatformDomain, find_primary: FindPrimary
    ) -> tuple[SerialAnswer, Sequence[SerialAnswer]]:
        """Return the answer of a zone's primary, and the answers of the secondaries in the zone's order."""
        primary, *secondaries = await asyncio.gather(
            self._query_primary(zone, find_primary),
            *(self.query((each.address, each.port), zone.domain) for each in zone.secondaries),
        )
        serials = [each.serial for each in secondaries if each.serial is not None]
        if primary.serial is not None and any(is_newer(each, primary.serial) for each in serials):
            # The zone may have changed after the primary's answer and before the secondary's.
            primary = await self._query_primary(zone, find_primary)
        return primary, secondaries

    async def query(self, address: tuple[str, int], zone: str) -> SerialAnswer:
        """Return the answer of a server by its IP address and port."""
        async with self.slots:
            try:
                serial = await query_serial(address, zone, timeout_seconds=self._timeout_seconds)
            except SerialUnknown as unknown:
                return SerialAnswer(address, None, unknown.cause, str(unknown))
        return SerialAnswer(address, serial)

    async def _query_primary(self, zone: PlatformDomain, find_primary: FindPrimary) -> SerialAnswer:
        try:
            primary = find_primary(zone.primary)
        except PrimaryFault as fault:
            return SerialAnswer(None, None, fault.cause, str(fault))
        return await self.query((primary.address, primary.port), zone.domain)
