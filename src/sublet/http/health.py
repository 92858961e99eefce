"""Handlers of the health endpoints, and the check of a delegation before it is stored."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.dns.delegation import delegation_warnings
from sublet.errors import Conflict, RateLimited, Unavailable
from sublet.health.checker import Checker
from sublet.health.due_checks import record_check
from sublet.health.findings import worst_first
from sublet.health.model import UNKNOWN, Finding, Report
from sublet.health.plan_delegation import Plan, check_warnings, plan_delegation, refuse_if_broken
from sublet.health.view_health import HealthView, plan_health_check, view_health
from sublet.http import response_structs
from sublet.http.endpoints import Answer, Call
from sublet.http.query_limit import counted_as_querying
from sublet.http.request_structs import (
    DelegationCheckBody,
    NoBody,
    name_errors_as_sent,
    planned_registration,
)

P = ParamSpec("P")
OutcomeT = TypeVar("OutcomeT", bound=Outcome)
CHECK_SHARE = 0.5
"""The share of `publish_wait_ms` that a check before a change may take. The publication gets the remaining time."""


@dataclass(frozen=True, slots=True)
class PriorCheck:
    """The result of checking a delegation before storing it. `plan` and `report` are None if it wasn't checked."""

    plan: Plan | None = None
    report: Report | None = None
    took_seconds: float = 0.0

    def guard(self, verb: Callable[Concatenate[Tx, P], OutcomeT]) -> Callable[Concatenate[Tx, P], OutcomeT]:
        """Return a verb that, after its own checks, refuses a broken delegation if the platform domain demands a working one."""
        return refuse_if_broken(verb, self.plan, self.report)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The findings as sentences, for `provisioning.warnings`."""
        return check_warnings(self.plan, self.report)


NOT_CHECKED = PriorCheck()


async def check_first(
    call: Call[Any, Any],
    plan: Callable[Concatenate[Tx, P], Plan | None],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> PriorCheck:
    """Check a planned delegation, if its platform domain demands a check. The check takes at most `CHECK_SHARE` of `publish_wait_ms`."""
    checker = call.context.checker
    if checker is None:
        return NOT_CHECKED
    began = time.monotonic()
    planned = await call.context.db.read(plan, *args, **kwargs)
    if planned is None:
        return NOT_CHECKED
    seconds = call.context.settings.publish_wait_ms / 1000 * CHECK_SHARE
    try:
        with counted_as_querying(call):
            report = (await checker.check(planned.target, seconds=seconds, waits=True)).report
    except (RateLimited, Unavailable):  # too many checks are running; the worker checks later
        report = Report(UNKNOWN, (), call.context.db.now())
    return PriorCheck(planned, report, time.monotonic() - began)


async def check_delegation_(
    call: Call[DelegationCheckBody, None],
) -> Answer[response_structs.DelegationCheckAnswer]:
    """Check a planned delegation.

    Queries the nameservers as resolvers would if the name had this delegation, and stores nothing. The name may be free or registered.
    The answer takes up to ten seconds.
    """
    body = call.body
    command = planned_registration(body)
    with name_errors_as_sent(body):
        plan = await call.context.db.read(plan_delegation, call.actor(), call.registrant.holder, command)
    if call.context.checker is None:
        raise _checks_off_refusal({"warnings": list(delegation_warnings(plan.target.delegation))})
    with counted_as_querying(call):
        result = await call.context.checker.check(plan.target, waits=True)
    report = result.report
    check = response_structs.DelegationCheckShape(
        fqdn=plan.target.fqdn,
        state=report.state,
        checked_at=report.checked_at,
        findings=_findings(report.findings),
    )
    return Answer(response_structs.DelegationCheckAnswer(check=check))


async def get_health(call: Call[None, None]) -> Answer[response_structs.HealthAnswer]:
    """Get the health of a subdomain's delegation.

    Returns the result of the last check: whether resolvers find the name at its nameservers, since when, and the findings. The delegation is
    checked minutes after each change, then daily, and more often while the name is broken.
    """
    view = await call.context.db.read(view_health, call.actor(), call.path["fqdn"])
    return Answer(_answer(view, checks_enabled=call.context.checker is not None))


async def check_health(call: Call[NoBody, None]) -> Answer[response_structs.HealthAnswer]:
    """Check a subdomain's delegation now.

    Queries the nameservers once and stores the result. A new state takes effect when a second check confirms it ten minutes later. After a
    change of the delegation, it takes effect at once. The answer takes up to ten seconds.
    """
    db = call.context.db
    due = await db.read(plan_health_check, call.actor(), call.registrant.holder, call.path["fqdn"])
    checker = _checker(call)
    with counted_as_querying(call):
        result = await checker.check(due.target, waits=True)
    if result.busy_until is not None:
        raise Conflict("Checks of other names are querying these nameservers. Try again in a minute.")
    await db.write(record_check, due.subdomain_id, due.generation, result.report)
    return Answer(_answer(await db.read(view_health, call.actor(), call.path["fqdn"]), checks_enabled=True))


def _checker(call: Call[Any, Any]) -> Checker:
    if call.context.checker is None:
        raise _checks_off_refusal({})
    return call.context.checker


def _checks_off_refusal(details: dict[str, Any]) -> Conflict:
    return Conflict(
        "This registry doesn't check delegations. Ask its operator to turn `health_checks` on.",
        details=details,
    )


def _answer(view: HealthView, *, checks_enabled: bool) -> response_structs.HealthAnswer:
    health = view.health
    return response_structs.HealthAnswer(
        health=response_structs.HealthShape(
            fqdn=view.subdomain.fqdn,
            checks_enabled=checks_enabled,
            state=UNKNOWN if health is None else health.state,
            since=None if health is None or health.checked_at is None else health.since,
            checked_at=None if health is None else health.checked_at,
            next_check_at=None if health is None else health.due_at,
            unconfirmed_state=None if health is None else health.next_state,
            leaves_at=view.leaves_at,
            findings=_findings((*(() if health is None else health.findings), *view.refused)),
            history=[
                response_structs.HealthChangeShape(at=each.at, state=each.state, findings=list(each.codes))
                for each in view.changes
            ],
        )
    )


def _findings(found: tuple[Finding, ...]) -> list[response_structs.FindingShape]:
    return [
        response_structs.FindingShape(
            code=each.code, level=each.level.value, subject=each.subject, message=each.message, hint=each.hint
        )
        for each in worst_first(found)
    ]
