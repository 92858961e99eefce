"""Ask the name servers of a zone once, from the command line: does each answer, with which serial, is the fence as it was left?"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sublet.dns.primary import Fence, PrimaryFault, read_fence
from sublet.dns.serial import SerialUnknown, ask_serial, standing_of
from sublet.dns.types import Primary, Secondary
from sublet.platform_domains.model import PlatformDomain

TIMEOUT_SECONDS = 3.0
"""How long a server may take for an answer."""
FOLLOW_SECONDS = 5.0
"""How long a secondary that is behind may take to follow to what the primary had at first: a transfer may be under way."""
FOLLOW_PAUSE_SECONDS = 0.25
QUESTIONS_MAX = 50
"""How many servers are asked at once."""

FindPrimary = Callable[[str], Primary]


@dataclass(frozen=True, slots=True)
class ServerProbe:
    """What a server answered: its serial, or why that isn't known. Address and port are empty and 0 where the settings lack it.

    `standing` is "answers", "away", or of a secondary "equal", "behind", "ahead" or "unjudged" (its primary is away).
    """

    server: str
    address: str
    port: int
    standing: str
    serial: int | None = None
    cause: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class ZoneProbe:
    """What the servers of a zone answered. `fence` is what the primary said signed; None: it didn't, by `cause` and `detail`."""

    primary: ServerProbe
    fence: Fence | None
    cause: str | None
    detail: str | None
    secondaries: tuple[ServerProbe, ...]


async def probe_zones(zones: Sequence[PlatformDomain], find_primary: FindPrimary) -> dict[int, ZoneProbe]:
    """Ask all servers of zones on primaries at the same time; by platform domain.

    It takes at most thrice `TIMEOUT_SECONDS` and `FOLLOW_SECONDS`, for each `QUESTIONS_MAX` servers.
    """
    questions = asyncio.Semaphore(QUESTIONS_MAX)
    found = await asyncio.gather(*(_probe(zone, find_primary, questions) for zone in zones))
    return {zone.id: probe for zone, probe in zip(zones, found, strict=True)}


async def _probe(zone: PlatformDomain, find_primary: FindPrimary, questions: asyncio.Semaphore) -> ZoneProbe:
    try:
        primary = find_primary(zone.primary)
    except PrimaryFault as fault:
        first = ServerProbe(zone.primary, "", 0, "away", None, fault.cause, str(fault))
        asked = await asyncio.gather(*(_ask_secondary(zone, each, questions) for each in zone.secondaries))
        return ZoneProbe(first, None, fault.cause, str(fault), tuple(_judge(each, None) for each in asked))
    unasked = ServerProbe(zone.primary, primary.address, primary.port, "answers")
    fence_asked = asyncio.create_task(_ask_fence(primary, zone.domain, questions))
    first, *asked = await asyncio.gather(
        _ask(unasked, zone.domain, questions),
        *(_ask_secondary(zone, each, questions) for each in zone.secondaries),
    )
    fence, cause, detail = await fence_asked
    latest = first.serial
    if latest is not None and any(_judge(each, latest).standing == "ahead" for each in asked):
        # The zone may have changed between the answers: only a later one judges.
        latest = (await _ask(first, zone.domain, questions)).serial
    followed = await asyncio.gather(*(_follow(zone.domain, each, latest, questions) for each in asked))
    return ZoneProbe(first, fence, cause, detail, tuple(followed))


async def _ask_fence(
    primary: Primary, zone: str, questions: asyncio.Semaphore
) -> tuple[Fence | None, str | None, str | None]:
    async with questions:
        try:
            return await read_fence(primary, zone, timeout_seconds=TIMEOUT_SECONDS), None, None
        except PrimaryFault as fault:
            return None, fault.cause, str(fault)


async def _ask_secondary(
    zone: PlatformDomain, secondary: Secondary, questions: asyncio.Semaphore
) -> ServerProbe:
    server = ServerProbe(secondary.host, secondary.address, secondary.port, "answers")
    return await _ask(server, zone.domain, questions)


async def _ask(server: ServerProbe, zone: str, questions: asyncio.Semaphore) -> ServerProbe:
    async with questions:
        try:
            serial = await ask_serial((server.address, server.port), zone, timeout_seconds=TIMEOUT_SECONDS)
        except SerialUnknown as unknown:
            return replace(server, standing="away", serial=None, cause=unknown.cause, detail=str(unknown))
    return replace(server, standing="answers", serial=serial, cause=None, detail=None)


async def _follow(
    zone: str, server: ServerProbe, primary_serial: int | None, questions: asyncio.Semaphore
) -> ServerProbe:
    """Judge a secondary; one that is behind is asked again for a while. It need not have more than the primary had at first."""
    ends = asyncio.get_running_loop().time() + FOLLOW_SECONDS
    judged = _judge(server, primary_serial)
    while judged.standing == "behind" and asyncio.get_running_loop().time() < ends:
        await asyncio.sleep(FOLLOW_PAUSE_SECONDS)
        again = _judge(await _ask(server, zone, questions), primary_serial)
        # It has followed to a newer serial than the one the primary was asked for: the zone goes on changing.
        judged = replace(again, standing="equal", detail=None) if again.standing == "ahead" else again
    return judged


def _judge(server: ServerProbe, primary_serial: int | None) -> ServerProbe:
    if server.serial is None:
        return server
    if primary_serial is None:
        return replace(server, standing="unjudged")
    standing = standing_of(server.serial, primary_serial)
    detail = None if standing == "equal" else f"the primary has {primary_serial}"
    return replace(server, standing=standing, detail=detail)
