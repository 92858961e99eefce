"""The worker's part that changes nameservers and glue after a health check, if the zone's CSYNC record
requests it.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence

from sublet.child_zones.decide_csync import decide_for_all_servers, has_csync, is_different, questions_about
from sublet.child_zones.follow_csync import (
    find_replay_guard,
    follow_csync,
    plan_change,
    plan_check,
    refuse_if_worse,
)
from sublet.child_zones.model import Change, CsyncDecision, Keep, Refuse, ReplayGuard, is_silence
from sublet.db import Database
from sublet.errors import Conflict
from sublet.health.checker import Checker, CheckResult
from sublet.health.model import DueCheck, Question


class CsyncFollower:
    """Follows CSYNC records. `decisions` counts the applied decisions by kind."""

    name = "csync"

    def __init__(self, db: Database, checker: Checker) -> None:
        self.decisions: Counter[str] = Counter()
        self._db = db
        self._checker = checker

    async def questions(self, due: DueCheck) -> Sequence[Question]:
        """Return the additional questions of a check. Empty if the name's CSYNC record isn't followed."""
        is_followed = await self._db.read(find_replay_guard, due.subdomain_id) is not None
        return [(due.target.fqdn, "CSYNC")] if is_followed else ()

    async def follow(
        self, due: DueCheck, result: CheckResult, *, counts_silence: bool = False
    ) -> CsyncDecision | None:
        """Decide from the result of a check, change the nameservers if necessary, and return the decision.

        If the zone has a CSYNC record and differs from the registry, a second check queries all its records,
        and a third one checks the new nameservers. Return None if the name isn't followed, if another check
        is asking the nameservers, or if a nameserver is silent while this host can't check (unless
        `counts_silence`).
        """
        guard = await self._db.read(find_replay_guard, due.subdomain_id)
        if guard is None:
            return None
        decision: CsyncDecision | None = Keep()
        if has_csync(due.target, result.seen) and is_different(each.code for each in result.found.findings):
            decision = await self._decide(due, result, guard)
        if decision is None or (is_silence(decision) and result.is_impaired and not counts_silence):
            return None
        done = await self._db.write(follow_csync, due.subdomain_id, due.generation, decision, guard)
        if done is not None:
            self.decisions[type(done).__name__.lower()] += 1
        return done

    async def check(self, identifier: str) -> tuple[str, CsyncDecision]:
        """Check a name now, follow its CSYNC record, and return the name with the decision (`sublet subdomain
        check-csync`).

        Raises, in this order:
            NotFound: the name doesn't exist.
            Conflict: the name's CSYNC record is not followed; its last change is not published yet; another
                check is asking its nameservers; or the name changed during the check.
        """
        due = await self._db.read(plan_check, identifier)
        result = await self._checker.check(due.target, waits=True, extra=await self.questions(due))
        decision = (
            None if result.busy_until is not None else await self.follow(due, result, counts_silence=True)
        )
        if decision is None:
            raise Conflict(
                f"{due.target.fqdn} changed during the check, or another check is asking its nameservers. "
                "Try again in a minute."
            )
        return due.target.fqdn, decision

    async def _decide(self, due: DueCheck, result: CheckResult, guard: ReplayGuard) -> CsyncDecision | None:
        questions = questions_about(due.target, result.seen)
        whole = await self._checker.check(due.target, waits=True, extra=questions)
        if whole.busy_until is not None:
            return None
        decision = await asyncio.to_thread(
            decide_for_all_servers, due.target, whole.seen, questions, guard, self._db.now()
        )
        if not isinstance(decision, Change):
            return decision
        planned = await self._db.read(plan_change, due.subdomain_id, decision)
        if isinstance(planned, Refuse):
            return planned
        after = await self._checker.check(planned, waits=True, always_asks=True)
        if after.busy_until is not None:
            return None
        return refuse_if_worse(result.found, after.found) or decision
