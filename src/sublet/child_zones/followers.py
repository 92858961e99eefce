"""The worker's parts that change names after a health check, if the child zone requests it: DS records by CDS
and CDNSKEY records, and nameservers with glue by a CSYNC record.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence

from sublet.child_zones import cds_answers, decide_csync, follow_csync, follow_ds
from sublet.child_zones.model import (
    Change,
    CsyncDecision,
    Decision,
    Keep,
    Proof,
    Refuse,
    ReplayGuard,
    is_silence,
)
from sublet.child_zones.signalling import find_proof
from sublet.db import Database
from sublet.errors import Conflict
from sublet.health.checker import Checker, CheckResult, forwarding_resolver
from sublet.health.dns_client import DnsClient
from sublet.health.model import DueCheck, Question, Target


class DsFollower:
    """Follows the CDS and CDNSKEY records of children. `decisions` counts the applied decisions by kind."""

    name = "ds"

    def __init__(self, db: Database, health_resolver: str = "") -> None:
        self.decisions: Counter[str] = Counter()
        self._db = db
        self._resolver = forwarding_resolver(health_resolver, DnsClient())

    async def questions(self, due: DueCheck) -> Sequence[Question]:
        """Return the additional questions of a check. Empty if the name's DS records aren't followed."""
        is_followed = await self._db.read(follow_ds.find_rules, due.subdomain_id) is not None
        return cds_answers.questions_about(due.target.fqdn) if is_followed else ()

    async def follow(
        self, due: DueCheck, result: CheckResult, *, counts_silence: bool = False
    ) -> Decision | None:
        """Decide from the result of a check, change the DS records if necessary, and return the decision.

        Return None if no nameserver answered, if one is silent while this host can't check (unless
        `counts_silence`), or if the name's DS records aren't followed.
        """
        rules = await self._db.read(follow_ds.find_rules, due.subdomain_id)
        if rules is None or not _has_answers(result):
            return None
        proof = None
        if not due.target.delegation.ds_records and cds_answers.requests_ds(due.target, result.seen):
            proof = await self._find_proof(due.target)
        decision = await asyncio.to_thread(
            cds_answers.decide_for_all_servers, due.target, result.seen, proof, rules, self._db.now()
        )
        if is_silence(decision) and result.is_impaired and not counts_silence:
            return None
        done = await self._db.write(follow_ds.follow_child, due.subdomain_id, due.generation, decision, rules)
        if done is not None:
            self.decisions[type(done).__name__.lower()] += 1
        return done

    async def check(self, checker: Checker, identifier: str) -> tuple[str, Decision]:
        """Check a name now, follow its request, and return the name with the decision (`sublet subdomain
        check-ds`).

        Raises, in this order:
            NotFound: the name doesn't exist.
            Conflict: the name's DS records are not followed; its last change is not published yet; another
                check is asking its nameservers; no nameserver answers; or the name changed during the check.
        """
        due = await self._db.read(follow_ds.plan_check, identifier)
        result = await checker.check(
            due.target, waits=True, extra=cds_answers.questions_about(due.target.fqdn)
        )
        fqdn = due.target.fqdn
        if result.busy_until is not None:
            raise Conflict(f"Another check is asking the nameservers of {fqdn}. Try again in a minute.")
        if not _has_answers(result):
            raise Conflict(f"No nameserver of {fqdn} answered. See `sublet health` for the reason.")
        decision = await self.follow(due, result, counts_silence=True)
        if decision is None:
            raise Conflict(f"{fqdn} changed during the check. Check it again.")
        return fqdn, decision

    async def _find_proof(self, target: Target) -> Proof:
        if self._resolver is None:
            return Proof(
                problem="This registry has no validating resolver to query these names. Ask the operator to "
                "set health_resolver."
            )
        return await find_proof(target, self._resolver)


class CsyncFollower:
    """Follows CSYNC records. `decisions` counts the applied decisions by kind."""

    name = "csync"

    def __init__(self, db: Database, checker: Checker) -> None:
        self.decisions: Counter[str] = Counter()
        self._db = db
        self._checker = checker

    async def questions(self, due: DueCheck) -> Sequence[Question]:
        """Return the additional questions of a check. Empty if the name's CSYNC record isn't followed."""
        is_followed = await self._db.read(follow_csync.find_replay_guard, due.subdomain_id) is not None
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
        guard = await self._db.read(follow_csync.find_replay_guard, due.subdomain_id)
        if guard is None:
            return None
        decision: CsyncDecision | None = Keep()
        if decide_csync.has_csync(due.target, result.seen) and decide_csync.is_different(
            each.code for each in result.found.findings
        ):
            decision = await self._decide(due, result, guard)
        if decision is None or (is_silence(decision) and result.is_impaired and not counts_silence):
            return None
        done = await self._db.write(
            follow_csync.follow_csync, due.subdomain_id, due.generation, decision, guard
        )
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
        due = await self._db.read(follow_csync.plan_check, identifier)
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
        questions = decide_csync.questions_about(due.target, result.seen)
        whole = await self._checker.check(due.target, waits=True, extra=questions)
        if whole.busy_until is not None:
            return None
        decision = await asyncio.to_thread(
            decide_csync.decide_for_all_servers, due.target, whole.seen, questions, guard, self._db.now()
        )
        if not isinstance(decision, Change):
            return decision
        planned = await self._db.read(follow_csync.plan_change, due.subdomain_id, decision)
        if isinstance(planned, Refuse):
            return planned
        after = await self._checker.check(planned, waits=True, always_asks=True)
        if after.busy_until is not None:
            return None
        return follow_csync.refuse_if_worse(result.found, after.found) or decision


def _has_answers(result: CheckResult) -> bool:
    return any(reply.message for server in result.seen.servers for reply in server.extra.values())
