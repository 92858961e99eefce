"""What the name servers of a zone answer for its serial: all asked at the same time, while the zone may change."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from sublet.dns.serial import SerialUnknown, ask_serial, is_newer
from sublet.platform_domains.model import PlatformDomain
from sublet.primaries.primary import PrimaryFault
from sublet.primaries.primary_zone import FindPrimary

QUESTIONS_MAX = 50
"""How many servers are asked at once."""


@dataclass(frozen=True, slots=True)
class SerialAnswer:
    """The serial that a server told; None: it did not, by `cause`, one of `primaries.primary.CAUSES`, and `detail`.

    `address` is where it was asked, IP address and port; None: the settings don't have it.
    """

    address: tuple[str, int] | None
    serial: int | None = None
    cause: str | None = None
    detail: str | None = None


class SerialQuestions:
    """Questions to name servers as anybody may ask them, each given `timeout_seconds`; `slots` bounds how many are under way."""

    def __init__(self, find_primary: FindPrimary, timeout_seconds: float) -> None:
        self._find_primary = find_primary
        self._timeout_seconds = timeout_seconds
        self.slots = asyncio.Semaphore(QUESTIONS_MAX)

    async def ask_servers(self, zone: PlatformDomain) -> tuple[SerialAnswer, Sequence[SerialAnswer]]:
        """Return what the primary of a zone says, and its secondaries, in the order that the zone has them."""
        primary, *secondaries = await asyncio.gather(
            self._ask_primary(zone),
            *(self.ask((each.address, each.port), zone.domain) for each in zone.secondaries),
        )
        serials = [each.serial for each in secondaries if each.serial is not None]
        if primary.serial is not None and any(is_newer(each, primary.serial) for each in serials):
            # The primary may have changed, and a secondary followed, between the two answers: only a later one judges.
            primary = await self._ask_primary(zone)
        return primary, secondaries

    async def ask(self, address: tuple[str, int], zone: str) -> SerialAnswer:
        """Return what the server at an IP address and port says."""
        async with self.slots:
            try:
                serial = await ask_serial(address, zone, timeout_seconds=self._timeout_seconds)
            except SerialUnknown as unknown:
                return SerialAnswer(address, None, unknown.cause, str(unknown))
        return SerialAnswer(address, serial)

    async def _ask_primary(self, zone: PlatformDomain) -> SerialAnswer:
        try:
            primary = self._find_primary(zone.primary)
        except PrimaryFault as fault:
            return SerialAnswer(None, None, fault.cause, str(fault))
        return await self.ask((primary.address, primary.port), zone.domain)
