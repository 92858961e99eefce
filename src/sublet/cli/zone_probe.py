"""Ask the name servers of a zone once, from the command line: does each answer, with which serial, is the fence as it was left?"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sublet.dns.serial import standing_of
from sublet.platform_domains.model import PlatformDomain
from sublet.primaries.primary import Fence, PrimaryFault, read_fence
from sublet.primaries.primary_zone import FindPrimary
from sublet.primaries.zone_serials import SerialAnswer, SerialQuestions

TIMEOUT_SECONDS = 3.0
"""How long a server may take for an answer."""
FOLLOW_SECONDS = 5.0
"""How long a secondary that is behind may take to follow to what the primary had at first: a transfer may be under way."""
FOLLOW_PAUSE_SECONDS = 0.25


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

    It takes at most thrice `TIMEOUT_SECONDS` and `FOLLOW_SECONDS`, for each `zone_serials.QUESTIONS_MAX` servers.
    """
    questions = SerialQuestions(find_primary, TIMEOUT_SECONDS)
    found = await asyncio.gather(*(_probe(zone, find_primary, questions) for zone in zones))
    return {zone.id: probe for zone, probe in zip(zones, found, strict=True)}


async def _probe(zone: PlatformDomain, find_primary: FindPrimary, questions: SerialQuestions) -> ZoneProbe:
    (first, answers), (fence, cause, detail) = await asyncio.gather(
        questions.ask_servers(zone), _ask_fence(zone, find_primary, questions)
    )
    followed = await asyncio.gather(
        *(
            _follow(_told(secondary.host, answer), zone.domain, first.serial, questions)
            for secondary, answer in zip(zone.secondaries, answers, strict=True)
        )
    )
    return ZoneProbe(_told(zone.primary, first), fence, cause, detail, tuple(followed))


async def _ask_fence(
    zone: PlatformDomain, find_primary: FindPrimary, questions: SerialQuestions
) -> tuple[Fence | None, str | None, str | None]:
    async with questions.slots:
        try:
            primary = find_primary(zone.primary)
            return await read_fence(primary, zone.domain, timeout_seconds=TIMEOUT_SECONDS), None, None
        except PrimaryFault as fault:
            return None, fault.cause, str(fault)


def _told(server: str, answer: SerialAnswer) -> ServerProbe:
    """Return what a server answered, not judged yet."""
    address, port = answer.address or ("", 0)
    standing = "away" if answer.serial is None else "answers"
    return ServerProbe(server, address, port, standing, answer.serial, answer.cause, answer.detail)


async def _follow(
    server: ServerProbe, zone: str, primary_serial: int | None, questions: SerialQuestions
) -> ServerProbe:
    """Judge a secondary; one that is behind is asked again for a while. It need not have more than the primary had at first."""
    ends = asyncio.get_running_loop().time() + FOLLOW_SECONDS
    judged = _judge(server, primary_serial)
    while judged.standing == "behind" and asyncio.get_running_loop().time() < ends:
        await asyncio.sleep(FOLLOW_PAUSE_SECONDS)
        answer = await questions.ask((server.address, server.port), zone)
        again = _judge(_told(server.server, answer), primary_serial)
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
