"""The worker's part that follows CSYNC records: after a look of the health keeper that found a difference."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from sublet.csync.decide import decide_together, has_csync, is_different, questions_about
from sublet.csync.follow_csync import find_rules, follow_csync, plan_change, plan_check, refuse_if_worse
from sublet.csync.model import Change, Decision, Keep, Refuse, Rules
from sublet.db import Database
from sublet.errors import Conflict
from sublet.health.checker import Checker, Looked
from sublet.health.model import DueLook, Question, Target


class CsyncFollower:
    """Follows CSYNC records. `decisions` counts those that were followed."""

    name = "csync"

    def __init__(self, db: Database, checker: Checker) -> None:
        self.decisions: Counter[str] = Counter()
        self._db = db
        self._checker = checker

    async def questions(self, due: DueLook) -> Sequence[Question]:
        """Return what to ask, nothing if the name is not followed."""
        is_followed = await self._db.read(find_rules, due.subdomain_id) is not None
        return [(due.target.fqdn, "CSYNC")] if is_followed else ()

    async def follow(self, due: DueLook, looked: Looked) -> Decision | None:
        """Decide from a look, change the nameservers if they are to change, and return the decision.

        If the zone has a CSYNC record and differs from the registry, its nameservers are asked for all of it; then those that it would get
        are looked at. None if the name may not be followed now, or nameservers are being asked for another name.
        """
        rules = await self._db.read(find_rules, due.subdomain_id)
        if rules is None:
            return None
        decision: Decision | None = Keep()
        if has_csync(due.target, looked.seen) and is_different(each.code for each in looked.report.findings):
            decision = await self._decide(due, looked, rules)
        if decision is None:
            return None
        done = await self._db.write(follow_csync, due.subdomain_id, due.generation, decision, rules)
        if done is not None:
            self.decisions[type(done).__name__.lower()] += 1
        return done

    async def check(self, identifier: str) -> tuple[str, Decision]:
        """Look at one name now, follow it, and return its name with the decision (`sublet subdomain check-csync`).

        Raises, in this order:
            NotFound: there is no such name.
            Conflict: its CSYNC record is not followed; its last change is not published yet; nameservers are being asked for another name; it
                changed meanwhile.
        """
        due = await self._db.read(plan_check, identifier)
        looked = await self._checker.look(due.target, waits=True, extra=await self.questions(due))
        decision = None if looked.busy_until is not None else await self.follow(due, looked)
        if decision is None:
            raise Conflict(
                f"{due.target.fqdn} changed during the check, or its nameservers are being asked for another name. Try again in a minute."
            )
        return due.target.fqdn, decision

    async def _decide(self, due: DueLook, looked: Looked, rules: Rules) -> Decision | None:
        questions = questions_about(due.target, looked.seen)
        whole = await self._checker.look(due.target, waits=True, extra=questions)
        if whole.busy_until is not None:
            return None
        decision = await asyncio.to_thread(
            decide_together, due.target, whole.seen, questions, rules, self._db.now()
        )
        if not isinstance(decision, Change):
            return decision
        planned = await self._db.read(plan_change, due.subdomain_id, decision)
        if isinstance(planned, Refuse):
            return planned
        return await self._unless_worse(planned, looked, decision)

    async def _unless_worse(self, planned: Target, looked: Looked, change: Change) -> Decision | None:
        after = await self._checker.look(planned, waits=True)
        if after.busy_until is not None:
            return None
        return refuse_if_worse(looked.report, after.report) or change
