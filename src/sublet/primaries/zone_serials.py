"""Ask name servers for the serials of zones, several concurrently."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from sublet.dns.serial import SerialUnknown, ask_serial, is_newer
from sublet.platform_domains.model import PlatformDomain
from sublet.primaries.primary import PrimaryFault
from sublet.primaries.primary_zone import FindPrimary

QUESTIONS_MAX = 50
"""The maximum number of concurrent queries."""


@dataclass(frozen=True, slots=True)
class SerialAnswer:
    """A server's serial. If it is None, `cause` (one of `primaries.primary.CAUSES`) and `detail` say why.

    `address` is the server's IP address and port; None if the settings don't have it.
    """

    address: tuple[str, int] | None
    serial: int | None = None
    cause: str | None = None
    detail: str | None = None


class SerialQuestions:
    """Asks name servers without a key, with a timeout for each query. `slots` limits concurrent queries."""

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self.slots = asyncio.Semaphore(QUESTIONS_MAX)

    async def ask_servers(
        self, zone: PlatformDomain, find_primary: FindPrimary
    ) -> tuple[SerialAnswer, Sequence[SerialAnswer]]:
        """Return the answers of a zone's primary, and of its secondaries in the zone's order."""
        primary, *secondaries = await asyncio.gather(
            self._ask_primary(zone, find_primary),
            *(self.ask((each.address, each.port), zone.domain) for each in zone.secondaries),
        )
        serials = [each.serial for each in secondaries if each.serial is not None]
        if primary.serial is not None and any(is_newer(each, primary.serial) for each in serials):
            # The zone may have changed after the primary's answer and before the secondary's.
            primary = await self._ask_primary(zone, find_primary)
        return primary, secondaries

    async def ask(self, address: tuple[str, int], zone: str) -> SerialAnswer:
        """Return the answer of the server at an IP address and port."""
        async with self.slots:
            try:
                serial = await ask_serial(address, zone, timeout_seconds=self._timeout_seconds)
            except SerialUnknown as unknown:
                return SerialAnswer(address, None, unknown.cause, str(unknown))
        return SerialAnswer(address, serial)

    async def _ask_primary(self, zone: PlatformDomain, find_primary: FindPrimary) -> SerialAnswer:
        try:
            primary = find_primary(zone.primary)
        except PrimaryFault as fault:
            return SerialAnswer(None, None, fault.cause, str(fault))
        return await self.ask((primary.address, primary.port), zone.domain)
