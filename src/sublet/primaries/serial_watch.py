"""Query the name servers of zones on primaries for serials every few seconds, and compute since when a
secondary is behind.

Queries need no key (`dns.serial`). The results stay in memory, for the metrics and the log. The operator gets
a mail about a secondary that stays away, behind or ahead. Zones on the built-in name server have no
secondaries, because this server allows no transfers.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import reduce

import structlog
from msgspec import Struct, field

from sublet.db import Database, Tx
from sublet.dns.serial import SerialUnknown, is_newer, lacks_since, next_serial, query_serial, went_back
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains.model import PlatformDomain
from sublet.primaries.primary import PrimaryFault
from sublet.primaries.primary_zone import FindPrimary, raise_serial_best_effort
from sublet.primaries.zone_notices import notify_of_zone_problem
from sublet.processes.repeat import repeat
from sublet.subdomains.sweep.runner import Monotonic, monotonic_seconds

POLL_SECONDS = 5.0
TIMEOUT_SECONDS = 2.0
"""The timeout of a query for a serial."""
QUERIES_MAX = 50
"""The maximum number of concurrent queries."""
FOLLOW_SECONDS = 10.0
"""How long a secondary may be behind and still count as current."""
NOTICE_SECONDS = 300.0
"""How long a secondary must be away, behind or ahead before the operator gets a mail.
A restart is shorter.
"""
HISTORY_MAX = 1000
"""The maximum number of serials in a primary's history. A longer history loses every second serial."""

PRIMARY, SECONDARY = "primary", "secondary"
HEALTHY = frozenset({"current", "unjudged"})
log = structlog.get_logger()


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


class Standing(Struct, frozen=True):
    """The state of one server of a zone.

    `server` is the name of a primary in the settings, or the host name of a secondary.

    `standing` is one of:

    - "current": the server answers. A secondary has the primary's serial, or has been behind for at most
      `FOLLOW_SECONDS`.
    - "behind": a secondary has been behind for more than `FOLLOW_SECONDS`.
    - "ahead": a secondary has a newer serial than the primary. The watch raises the primary's serial, so that
      the secondary transfers again.
    - "away": the server gives no serial; `cause` and `detail` say why.
    - "unjudged": a secondary answers, but the primary is away.

    `lag_seconds` is how long a secondary has been behind, or ahead; None if unknown.
    """

    zone: str
    role: str
    server: str
    standing: str
    serial: int | None = None
    lag_seconds: float | None = None
    cause: str | None = None
    detail: str | None = None


class _Watched(Struct):
    """What the watch stores of a zone between two polls. Times are by the monotonic clock."""

    primary: str
    history: list[tuple[int, float]] = field(default_factory=list)
    """The primary's serials that a secondary may lack, each with the time at which it was first seen."""
    last_serials: dict[str, int] = field(default_factory=dict)
    """The serial in the last answer of each secondary."""
    ahead_since: dict[str, float] = field(default_factory=dict)


class SerialWatch:
    """Queries each name server of a zone on a primary for the serial.

    `standings` has the last results, for each zone the primary, then its secondaries.
    """

    def __init__(
        self, db: Database, find_primary: FindPrimary, monotonic: Monotonic = monotonic_seconds
    ) -> None:
        self._db = db
        self._find_primary = find_primary
        self._queries = SerialQueries(TIMEOUT_SECONDS)
        self._monotonic = monotonic
        self._watched: dict[str, _Watched] = {}
        self._logged: dict[tuple[str, str, str], str] = {}
        self._faulty_since: dict[tuple[str, str, str], float] = {}
        """Since when a secondary has a standing that isn't healthy, or the time of the last notice, by zone,
        server and standing.
        """
        self.standings: tuple[Standing, ...] = ()

    async def run(self) -> None:
        """Query until cancelled."""
        await repeat(self.poll, "serial_watch_fault")

    async def poll(self) -> float:
        """Query all servers of all zones on primaries once, concurrently.

        Return the seconds until the next queries.
        """
        zones = await self._db.read(_list_zones)
        found = await asyncio.gather(*(self._poll_zone(zone) for zone in zones))
        self.standings = tuple(standing for of_zone in found for standing in of_zone)
        here = {zone.domain for zone in zones}
        self._watched = {zone: watched for zone, watched in self._watched.items() if zone in here}
        self._log_changes(self.standings)
        await self._notify(self.standings)
        return POLL_SECONDS

    async def _poll_zone(self, zone: PlatformDomain) -> list[Standing]:
        primary, answers = await self._queries.query_servers(zone, self._find_primary)
        now = self._monotonic()
        watched = self._watched.setdefault(zone.domain, _Watched(zone.primary))
        if watched.primary != zone.primary:
            watched = self._watched[zone.domain] = _Watched(zone.primary)
        if primary.serial is not None:
            answered = {
                each.host: answer.serial for each, answer in zip(zone.secondaries, answers, strict=True)
            }
            watched.last_serials = {
                host: watched.last_serials.get(host, primary.serial) if serial is None else serial
                for host, serial in answered.items()
            }
            _add_serial(watched, primary.serial, now)
        standing = "away" if primary.serial is None else "current"
        first = Standing(
            zone.domain,
            PRIMARY,
            zone.primary,
            standing,
            primary.serial,
            cause=primary.cause,
            detail=primary.detail,
        )
        rest = (
            _judge(watched, zone.domain, each.host, answer, primary.serial, now)
            for each, answer in zip(zone.secondaries, answers, strict=True)
        )
        standings = [first, *rest]
        await self._overtake(zone, standings)
        return standings

    async def _overtake(self, zone: PlatformDomain, standings: Sequence[Standing]) -> None:
        """Raise the primary's serial above that of a secondary that is ahead, because it transfers nothing
        until then.
        """
        ahead = [each.serial for each in standings if each.standing == "ahead" and each.serial is not None]
        if ahead:
            newest = reduce(lambda one, other: other if is_newer(other, one) else one, ahead)
            with suppress(PrimaryFault):  # it is in the standing of the primary
                await raise_serial_best_effort(
                    self._find_primary(zone.primary), zone.domain, next_serial(newest)
                )

    async def _notify(self, standings: Iterable[Standing]) -> None:
        """Add a notice about the secondaries that have had the same fault for `NOTICE_SECONDS`."""
        now, before = self._monotonic(), self._faulty_since
        faulty = {
            (each.zone, each.server, each.standing): each
            for each in standings
            if each.role == SECONDARY and each.standing not in HEALTHY
        }
        self._faulty_since = {key: before.get(key, now) for key in faulty}
        lasting = [key for key, since in self._faulty_since.items() if now - since >= NOTICE_SECONDS]
        if lasting:
            await self._db.write(_notify_of_secondaries, [faulty[key] for key in lasting])
            self._faulty_since |= dict.fromkeys(lasting, now)

    def _log_changes(self, standings: Iterable[Standing]) -> None:
        """Log changed standings. A new server counts as current before its first answer."""
        logged = {}
        for each in standings:
            key = (each.zone, each.role, each.server)
            before = self._logged.get(key, "current")
            # "unjudged" isn't logged, because the log has the state of the primary.
            logged[key] = before if each.standing == "unjudged" and before != "away" else each.standing
            if logged[key] != before:
                write = log.info if each.standing in HEALTHY else log.warning
                write(
                    "name_server_standing",
                    zone=each.zone,
                    server=each.server,
                    role=each.role,
                    standing=each.standing,
                    before=before,
                    detail=each.detail,
                )
        self._logged = logged


def _list_zones(tx: Tx) -> list[PlatformDomain]:
    return [each for each in platform_domain_store.list_platform_domains(tx) if each.primary]


def _notify_of_secondaries(tx: Tx, faulty: Sequence[Standing]) -> None:
    for zone, standing in sorted({(each.zone, each.standing) for each in faulty}):
        found = platform_domain_store.find_platform_domain_by_name(tx, zone)
        if found is not None:  # the platform domain may have been removed since
            sentences = [
                f"the secondary {each.server} is {standing} ({each.detail})"
                for each in faulty
                if (each.zone, each.standing) == (zone, standing)
            ]
            notify_of_zone_problem(tx, found.id, f"secondary_{standing}", "; ".join(sentences))


def _add_serial(watched: _Watched, serial: int, now: float) -> None:
    """Append a new serial of the primary to the history, and drop serials that all secondaries have."""
    history = watched.history
    if history and went_back(serial, before=history[-1][0]):
        history.clear()  # the primary was rebuilt from an older zone
    if not history or history[-1][0] != serial:
        history.append((serial, now))
    while len(history) > 1 and not any(is_newer(history[0][0], has) for has in watched.last_serials.values()):
        del history[0]
    if len(history) > HISTORY_MAX:
        watched.history = [*history[:-1:2], history[-1]]


def _judge(
    watched: _Watched, zone: str, host: str, answer: SerialAnswer, primary_serial: int | None, now: float
) -> Standing:
    """Return the state of a secondary from its answer, the primary's serial and the primary's history."""
    if answer.serial is None:
        return Standing(zone, SECONDARY, host, "away", cause=answer.cause, detail=answer.detail)
    if primary_serial is None:
        return Standing(zone, SECONDARY, host, "unjudged", answer.serial)
    if went_back(primary_serial, before=answer.serial):
        since = watched.ahead_since.setdefault(host, now)
        detail = f"it has the serial {answer.serial}, the primary has {primary_serial}"
        return Standing(zone, SECONDARY, host, "ahead", answer.serial, now - since, detail=detail)
    watched.ahead_since.pop(host, None)
    lacks = lacks_since(watched.history, answer.serial)
    lag_seconds = 0.0 if lacks is None else now - lacks
    if lag_seconds <= FOLLOW_SECONDS:
        return Standing(zone, SECONDARY, host, "current", answer.serial, lag_seconds)
    detail = f"it has lacked changes for {lag_seconds:.0f} s"
    return Standing(zone, SECONDARY, host, "behind", answer.serial, lag_seconds, detail=detail)
