"""The worker's part that follows what children ask for: after each look of the health keeper."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from sublet.automatic_ds.child import asks_for_ds, decide_together, questions_about
from sublet.automatic_ds.follow_child import find_rules, follow_child, plan_check
from sublet.automatic_ds.model import Decision, Proof
from sublet.automatic_ds.signalling import Signalling
from sublet.config import parse_listen
from sublet.db import Database
from sublet.errors import Conflict
from sublet.health.ask import Asker
from sublet.health.checker import Checker, Looked
from sublet.health.model import DueLook, Question, Target


class ChildFollower:
    """Follows children. `decisions` counts those that were followed."""

    name = "ds"

    def __init__(self, db: Database, health_resolver: str = "") -> None:
        self.decisions: Counter[str] = Counter()
        self._db = db
        self._signalling = (
            Signalling(Asker(), *parse_listen("health_resolver", health_resolver))
            if health_resolver
            else None
        )

    async def questions(self, due: DueLook) -> Sequence[Question]:
        """Return what to ask, nothing if the name is not followed."""
        is_followed = await self._db.read(find_rules, due.subdomain_id) is not None
        return questions_about(due.target.fqdn) if is_followed else ()

    async def follow(self, due: DueLook, looked: Looked) -> Decision | None:
        """Decide from a look, change the DS records if they are to change, and return the decision.

        None if no nameserver answered, or nothing may be followed now.
        """
        rules = await self._db.read(find_rules, due.subdomain_id)
        if rules is None or not _has_answers(looked):
            return None
        proof = None
        if not due.target.delegation.ds_records and asks_for_ds(due.target, looked.seen):
            proof = await self._look_up(due.target)
        decision = await asyncio.to_thread(
            decide_together, due.target, looked.seen, proof, rules, self._db.now()
        )
        done = await self._db.write(follow_child, due.subdomain_id, due.generation, decision, rules)
        if done is not None:
            self.decisions[type(done).__name__.lower()] += 1
        return done

    async def check(self, checker: Checker, identifier: str) -> tuple[str, Decision]:
        """Look at one name now, follow it, and return its name with the decision (`sublet subdomain check-ds`).

        Raises, in this order:
            NotFound: there is no such name.
            Conflict: its DS records are not followed; its last change is not published yet; its nameservers are being asked for
                another name; none answers; it changed meanwhile.
        """
        due = await self._db.read(plan_check, identifier)
        looked = await checker.look(due.target, waits=True, extra=questions_about(due.target.fqdn))
        fqdn = due.target.fqdn
        if looked.busy_until is not None:
            raise Conflict(
                f"The nameservers of {fqdn} are being asked for another name. Try again in a minute."
            )
        if not _has_answers(looked):
            raise Conflict(f"No nameserver of {fqdn} answered. See `sublet health` for what is wrong.")
        decision = await self.follow(due, looked)
        if decision is None:
            raise Conflict(f"{fqdn} changed during the check. Check it again.")
        return fqdn, decision

    async def _look_up(self, target: Target) -> Proof:
        if self._signalling is None:
            return Proof(
                problem="This registry has no validating resolver to look them up. Ask its operator to set health_resolver."
            )
        return await self._signalling.look_up(target)


def _has_answers(looked: Looked) -> bool:
    return any(reply.message for server in looked.seen.servers for reply in server.extra.values())
