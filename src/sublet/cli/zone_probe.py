"""Query the name servers of zones for `sublet zone status`: their serials, and the fence on the primary."""

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from sublet.dns.serial import went_back
from sublet.platform_domains.model import PlatformDomain
from sublet.primaries.primary import Fence, PrimaryFault, read_fence
from sublet.primaries.primary_zone import FindPrimary
from sublet.primaries.serial_watch import SerialAnswer, SerialQueries
from sublet.structs import replace

TIMEOUT_SECONDS = 3.0
"""The timeout of a query."""
FOLLOW_SECONDS = 5.0
"""The maximum time for a secondary to reach the primary's first serial, because a transfer may be in
progress.
"""
FOLLOW_PAUSE_SECONDS = 0.25


class ServerProbe(Struct, frozen=True):
    """A server's answer.

    After a failure `serial` is None and `cause` is set. `detail` explains a failure or a standing.

    `address` and `port` are "" and 0 if the settings don't have them. `standing` is as in
    `serial_watch.Standing`, except that a secondary is "behind" after `FOLLOW_SECONDS` of this module.
    """

    server: str
    address: str
    port: int
    standing: str
    serial: int | None = None
    cause: str | None = None
    detail: str | None = None


class ZoneProbe(Struct, frozen=True):
    """The answers of a zone's servers.

    `fence` is from the primary's signed answer. If it is None, `cause` and `detail` say why.
    """

    primary: ServerProbe
    fence: Fence | None
    cause: str | None
    detail: str | None
    secondaries: tuple[ServerProbe, ...]


async def probe_zones(zones: Sequence[PlatformDomain], find_primary: FindPrimary) -> dict[int, ZoneProbe]:
    """Query all servers of zones on primaries concurrently, and return their answers by platform domain.

    For each `serial_watch.QUERIES_MAX` servers this takes at most three times `TIMEOUT_SECONDS`, plus
    `FOLLOW_SECONDS`.
    """
    questions = SerialQueries(TIMEOUT_SECONDS)
    found = await asyncio.gather(*(_probe(zone, find_primary, questions) for zone in zones))
    return {zone.id: probe for zone, probe in zip(zones, found, strict=True)}


async def _probe(zone: PlatformDomain, find_primary: FindPrimary, questions: SerialQueries) -> ZoneProbe:
    (first, answers), (fence, cause, detail) = await asyncio.gather(
        questions.query_servers(zone, find_primary), _ask_fence(zone, find_primary, questions)
    )
    followed = await asyncio.gather(
        *(
            _follow(_probe_of(secondary.host, answer), zone.domain, first.serial, questions)
            for secondary, answer in zip(zone.secondaries, answers, strict=True)
        )
    )
    return ZoneProbe(_probe_of(zone.primary, first), fence, cause, detail, tuple(followed))


async def _ask_fence(
    zone: PlatformDomain, find_primary: FindPrimary, questions: SerialQueries
) -> tuple[Fence | None, str | None, str | None]:
    async with questions.slots:
        try:
            primary = find_primary(zone.primary)
            return await read_fence(primary, zone.domain, timeout_seconds=TIMEOUT_SECONDS), None, None
        except PrimaryFault as fault:
            return None, fault.cause, str(fault)


def _probe_of(server: str, answer: SerialAnswer) -> ServerProbe:
    """Return a server's answer, not yet compared with the primary's."""
    address, port = answer.address or ("", 0)
    standing = "away" if answer.serial is None else "current"
    return ServerProbe(server, address, port, standing, answer.serial, answer.cause, answer.detail)


async def _follow(
    server: ServerProbe, zone: str, primary_serial: int | None, questions: SerialQueries
) -> ServerProbe:
    """Compare a secondary with the primary's first serial.

    While the secondary is behind, query it again for `FOLLOW_SECONDS`.
    """
    ends = asyncio.get_running_loop().time() + FOLLOW_SECONDS
    compared = _compare_with_primary(server, primary_serial)
    while compared.standing == "behind" and asyncio.get_running_loop().time() < ends:
        await asyncio.sleep(FOLLOW_PAUSE_SECONDS)
        answer = await questions.query((server.address, server.port), zone)
        again = _compare_with_primary(_probe_of(server.server, answer), primary_serial)
        # "ahead" of the first serial means that the zone has changed meanwhile, and the secondary has caught
        # up.
        compared = replace(again, standing="current", detail=None) if again.standing == "ahead" else again
    return compared


def _compare_with_primary(server: ServerProbe, primary_serial: int | None) -> ServerProbe:
    if server.serial is None:
        return server
    if primary_serial is None:
        return replace(server, standing="unjudged")
    if server.serial == primary_serial:
        return server
    standing = "ahead" if went_back(primary_serial, before=server.serial) else "behind"
    return replace(server, standing=standing, detail=f"the primary has {primary_serial}")
