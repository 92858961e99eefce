"""Check the answers of zones: with the resolver, at their parents, and of their name servers, whose records
are compared with the registry's.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog
from msgspec import Struct

from sublet.config import Settings, parse_listen
from sublet.db import Database, Tx
from sublet.dns.difference import matches
from sublet.dns.parent_servers import ParentServer
from sublet.dns.read_back import ReadBackFailed, read_back
from sublet.dns.serial import SerialUnknown, is_newer, query_serial
from sublet.health.dns_client import DnsClient
from sublet.health.query_limits import parse_networks
from sublet.health.resolve import ForwardingResolver
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains.model import PlatformDomain, name_servers
from sublet.primaries import store as publish_store
from sublet.primaries.zone_answers import AnswerProblem, AskedZone, ZoneQueries, content_problem
from sublet.primaries.zone_notices import FAILURES_BEFORE_NOTICE, notify_of_zone_problem
from sublet.processes.repeat import repeat
from sublet.subdomains import store
from sublet.subdomains.lifecycle import desired_records, is_delegated, is_published
from sublet.subdomains.model import Subdomain

NEWEST_NAMES = 100
"""The number of names with the newest changes that each check compares."""
FURTHER_NAMES = 400
"""The number of further names that a check compares. With a check each five minutes, these are 115,200 names
a day.
"""
ANSWER_SECONDS = 5.0
"""The timeout of reading the compared names back from a secondary."""
CONFIRM_SECONDS = 5.0
"""The time until names are compared again, because a change may reach a secondary between two queries."""
CHECKS_AT_ONCE_MAX = 5

Place = tuple[datetime, int]
"""The time of the last change and the id of a name, to continue after it."""


class CheckedZone(Struct, frozen=True):
    """The problems of a zone's answers, worst first, and the name after which the next check continues; None
    to begin again.
    """

    zone: PlatformDomain
    problems: tuple[AnswerProblem, ...]
    next_place: Place | None


class AnswerCheck:
    """Checks the answers of zones.

    A process needs only one, because it limits the queries to the parents' servers.
    """

    def __init__(self, settings: Settings, db: Database) -> None:
        self._db = db
        self._primaries = settings.primaries
        self._client = DnsClient()
        self._allowed = parse_networks(settings.health_allowed_networks)
        self._resolver = None
        if settings.health_resolver:
            address = parse_listen("health_resolver", settings.health_resolver)
            self._resolver = ForwardingResolver(self._client, *address)
        self._slots = asyncio.Semaphore(CHECKS_AT_ONCE_MAX)

    async def check(self, zone: PlatformDomain, after: Place | None = None) -> CheckedZone:
        """Check a zone, and compare its newest names and the names after a place.

        Names are compared on secondaries only.

        Raises:
            Unavailable: the database can't be reached.
        """
        async with self._slots:
            now, names, next_place = await self._db.read(_read_names, zone.id, after)
            # The built-in name server answers from the settings, so it isn't asked.
            servers = [each for each in name_servers(zone, (), self._primaries) if each.address is not None]
            asked = AskedZone(
                zone.domain,
                servers=tuple(servers),
                built_in_nameservers=() if zone.primary else zone.apex_nameservers,
                delegated=_find_seen_name(zone, names, now),
                signed=zone.dnssec_signed,
            )
            queries = ZoneQueries(asked, self._client, self._resolver, self._allowed)
            problems = await queries.find_problems(now)
            contents = await asyncio.gather(
                *(self._compare(zone, each, names) for each in servers if each.role == "secondary")
            )
            problems += [each for each in contents if each is not None]
            return CheckedZone(zone, tuple(problems), next_place)

    async def _compare(
        self, zone: PlatformDomain, server: ParentServer, names: Sequence[Subdomain]
    ) -> AnswerProblem | None:
        """Return a problem if a secondary has other records of names although its serial includes their
        changes.

        A secondary that doesn't answer, or is behind, is reported by the watch of serials.
        """
        try:
            wrong = await _find_wrong(zone, server, names)
            if not wrong:
                return None
            await asyncio.sleep(CONFIRM_SECONDS)
            again = await self._db.read(store.list_subdomains, [each.id for each in wrong])
            generations = {each.id: each.generation for each in wrong}
            same = [each for each in again if is_published(each) and generations[each.id] == each.generation]
            assert server.address is not None  # noqa: S101 - each secondary has one
            serial = await query_serial(server.address, zone.domain, timeout_seconds=ANSWER_SECONDS)
            included = [each for each in same if not is_newer(each.published_serial or serial, than=serial)]
            wrong = await _find_wrong(zone, server, included)
        except (ReadBackFailed, SerialUnknown):
            return None
        return content_problem(server, serial, [each.fqdn for each in wrong]) if wrong else None


async def _find_wrong(
    zone: PlatformDomain, server: ParentServer, names: Sequence[Subdomain]
) -> list[Subdomain]:
    """Return the names of which a server has other records than the registry."""
    if not names:
        return []
    assert server.address is not None  # noqa: S101 - each secondary has one
    desired = {each.fqdn: desired_records(each, zone.delegation_ttl_seconds) for each in names}
    served = await read_back(server.address, zone.domain, desired, timeout_seconds=ANSWER_SECONDS)
    return [each for each in names if not matches(desired[each.fqdn], served[each.fqdn])]


def _read_names(
    tx: Tx, platform_domain_id: int, after: Place | None
) -> tuple[datetime, list[Subdomain], Place | None]:
    newest = publish_store.list_newest_changes(tx, platform_domain_id, NEWEST_NAMES)
    further = publish_store.list_changes_after(tx, platform_domain_id, after, FURTHER_NAMES)
    last = further[-1] if len(further) == FURTHER_NAMES else None
    by_id = {each.id: each for each in (*newest, *further) if is_published(each)}
    next_place = None if last is None else (last.generation_at, last.id)
    return tx.now, list(by_id.values()), next_place


def _find_seen_name(zone: PlatformDomain, names: Sequence[Subdomain], now: datetime) -> str | None:
    """Return a delegated name that no resolver may still have in its cache as missing, or None."""
    before = now - timedelta(seconds=zone.negative_ttl_seconds)
    return next(
        (
            each.fqdn
            for each in names
            if is_delegated(each) and each.published_at is not None and each.published_at < before
        ),
        None,
    )


POLL_SECONDS = 300.0
log = structlog.get_logger()


class AnswerWatch:
    """Checks the answers of zones. `problems` has the last results, as pairs of a zone and a problem.

    A problem that `FAILURES_BEFORE_NOTICE` checks in a row find is mailed to the operator, once a day for a
    zone and a cause, even if several workers find it.
    """

    def __init__(self, db: Database, check: AnswerCheck) -> None:
        self._db = db
        self._check = check
        self._places: dict[int, Place | None] = {}
        self._found: Counter[tuple[str, str]] = Counter()
        self.problems: tuple[tuple[str, AnswerProblem], ...] = ()

    async def run(self) -> None:
        """Check until cancelled."""
        await repeat(self.poll, "answer_watch_fault")

    async def poll(self) -> float:
        """Check all zones once. Return the seconds until the next checks."""
        zones = await self._db.read(platform_domain_store.list_platform_domains)
        checked = await asyncio.gather(
            *(self._check.check(each, self._places.get(each.id)) for each in zones)
        )
        self._places = {each.zone.id: each.next_place for each in checked}
        self.problems = tuple((each.zone.domain, problem) for each in checked for problem in each.problems)
        causes = {(each.zone.domain, problem.cause): problem for each in checked for problem in each.problems}
        self._found = Counter({key: self._found[key] + 1 for key in causes})
        for (zone, cause), problem in causes.items():
            if self._found[zone, cause] == 1:
                log.warning("zone_answers_wrong", zone=zone, cause=cause, detail=problem.detail)
            if self._found[zone, cause] >= FAILURES_BEFORE_NOTICE:
                await self._db.write(_notify, zone, problem)
        return POLL_SECONDS


def _notify(tx: Tx, zone: str, problem: AnswerProblem) -> None:
    found = platform_domain_store.find_platform_domain_by_name(tx, zone)
    if found is not None:  # the platform domain may have been removed since
        notify_of_zone_problem(tx, found.id, problem.cause, problem.sentence)
