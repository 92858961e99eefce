"""The worker's part that follows what children ask for: after each look of the health keeper."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from sublet.automatic_ds.child import TYPES, asks_for_ds, decide_together
from sublet.automatic_ds.follow_child import find_rules, follow_child
from sublet.automatic_ds.model import Decision, Proof, Refuse
from sublet.automatic_ds.signalling import Signalling
from sublet.config import parse_listen
from sublet.db import Database
from sublet.health.ask import Asker
from sublet.health.checker import Looked
from sublet.health.model import DueLook, Target


class ChildFollower:
    """Follows children. The metrics show `decisions` by kind."""

    def __init__(self, db: Database, health_resolver: str = "") -> None:
        self._db = db
        self._signalling = (
            Signalling(Asker(), *parse_listen("health_resolver", health_resolver))
            if health_resolver
            else None
        )
        self.decisions: Counter[str] = Counter()

    async def extra_types(self, due: DueLook) -> Sequence[str]:
        """Return the types to ask for, none if the name is not followed."""
        return TYPES if await self._db.read(find_rules, due.subdomain_id) is not None else ()

    async def follow(self, due: DueLook, looked: Looked) -> Decision | None:
        """Decide from a look, change the DS records if they are to change, and return the decision; None if nothing may be followed now."""
        rules = await self._db.read(find_rules, due.subdomain_id)
        if rules is None:
            return None
        proof = None
        if not due.target.delegation.ds_records and asks_for_ds(due.target, looked.seen):
            proof = await self._look_up(due.target)
        decision = await asyncio.to_thread(
            decide_together, due.target, looked.seen, proof, rules, self._db.now()
        )
        done = await self._db.write(follow_child, due.subdomain_id, due.generation, decision, rules)
        kind = decision.code if isinstance(decision, Refuse) else type(decision).__name__.lower()
        self.decisions[kind] += 1
        return done

    async def _look_up(self, target: Target) -> Proof:
        if self._signalling is None:
            return Proof(
                problem="This registry has no validating resolver to look them up. Ask its operator to set health_resolver."
            )
        return await self._signalling.look_up(target)
