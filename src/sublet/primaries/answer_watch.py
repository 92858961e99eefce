"""Check the answers of all zones every few minutes, for the metrics, the log and mails to the operator."""

import asyncio
from collections import Counter

import structlog

from sublet.db import Database, Tx
from sublet.platform_domains import store as platform_domain_store
from sublet.primaries.answer_check import AnswerCheck, Place
from sublet.primaries.zone_answers import AnswerProblem
from sublet.primaries.zone_notices import FAILURES_BEFORE_NOTICE, notify_of_zone_problem
from sublet.processes.repeat import repeat

POLL_SECONDS = 300.0
log = structlog.get_logger()


class AnswerWatch:
    """Checks the answers of zones. `problems` has the last results, as pairs of a zone and a problem.

    A problem that `FAILURES_BEFORE_NOTICE` checks in a row find is mailed to the operator, once a day for a zone and a cause, even if several
    workers find it.
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
