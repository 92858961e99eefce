"""The API of the health of delegations, and the check of a delegation before it is stored."""

import time
from collections.abc import Callable
from typing import Annotated, Any, Concatenate, ParamSpec

from sublet.db import Tx
from sublet.dns.delegation import delegation_warnings
from sublet.errors import (
    AccountSuspended,
    Conflict,
    NameserverRequired,
    PlatformDomainNotFound,
    RateLimited,
    SubdomainNotFound,
    SubdomainSuspended,
    TokenRestricted,
    Unavailable,
    ValidationFailed,
)
from sublet.health.checker import Checker
from sublet.health.due_checks import record_check
from sublet.health.findings import CODES as FINDING_CODES
from sublet.health.findings import REFUSED_CODES
from sublet.health.model import STATES as HEALTH_STATES
from sublet.health.model import UNKNOWN, Finding, Level, Report, worst_first
from sublet.health.plan_delegation import NOT_CHECKED, Plan, PriorCheck, plan_delegation
from sublet.health.view_health import HealthView, plan_health_check, view_health
from sublet.operations import tags
from sublet.operations.call import Answer, Call
from sublet.operations.operation import API, Operations, not_sensitive
from sublet.operations.query_limit import counted_as_querying
from sublet.operations.shapes import NOW, HostName, Moment, NoBody, Shape, Success, one_of
from sublet.subdomains.sent import DelegationCheckBody, name_errors_as_sent, planned_registration
from sublet.subdomains.shapes import DS_EXAMPLE, FQDN

api = Operations(API, tags.SUBDOMAINS, fqdn=FQDN)

_FINDING = {
    "code": "lame",
    "level": "warning",
    "subject": "ns1.provider.example",
    "message": "Nameserver ns1.provider.example (8.8.8.8) answers REFUSED for blog.example.net.",
    "hint": "Set up the zone blog.example.net there, or remove the nameserver.",
}

_HEALTH = {
    "fqdn": "blog.example.net",
    "checks_enabled": True,
    "state": "degraded",
    "since": NOW,
    "checked_at": NOW,
    "next_check_at": "2026-11-22T09:30:00.000000Z",
    "unconfirmed_state": None,
    "leaves_at": None,
    "findings": [_FINDING],
    "history": [{"at": NOW, "state": "degraded", "findings": ["lame"]}],
}


class FindingShape(Shape):
    """A fault of a delegation.

    An error makes resolvers fail. A warning makes some resolvers fail now, or all later. A notice is advice.
    """

    code: Annotated[str, one_of((*FINDING_CODES, *REFUSED_CODES))]
    level: Annotated[str, one_of(tuple(each.value for each in Level))]
    subject: str
    message: str
    hint: str


class DelegationCheckShape(Shape):
    """The result of a check. `state` is `unknown` if the nameservers couldn't be queried."""

    fqdn: HostName
    state: Annotated[str, one_of(HEALTH_STATES)]
    checked_at: Moment
    findings: list[FindingShape]


class DelegationCheckAnswer(Success, kw_only=True):
    """The result of a check of a planned delegation."""

    check: DelegationCheckShape


class HealthChangeShape(Shape):
    """A change of a name's health, with the codes of its findings."""

    at: Moment
    state: Annotated[str, one_of(HEALTH_STATES)]
    findings: list[str]


class HealthShape(Shape):
    """The health of a name's delegation.

    `checks_enabled` is false if the registry checks no delegations: then the state is that of the last check,
    if there was one. `unconfirmed_state` is the result of one check, until a second check confirms it.
    `leaves_at` is when the name leaves the DNS if it stays broken; null if it isn't broken, or if its
    platform domain keeps broken names.
    """

    fqdn: HostName
    checks_enabled: bool
    state: Annotated[str, one_of(HEALTH_STATES)]
    since: Moment | None
    checked_at: Moment | None
    next_check_at: Moment | None
    unconfirmed_state: Annotated[str, one_of(HEALTH_STATES)] | None
    leaves_at: Moment | None
    findings: list[FindingShape]
    history: list[HealthChangeShape]


class HealthAnswer(Success, kw_only=True):
    """The health of a name's delegation."""

    health: HealthShape


P = ParamSpec("P")


CHECK_SHARE = 0.5
"""The share of `publish_wait_ms` that a check before a change may take. The publication gets the remaining
time.
"""


async def check_first(
    call: Call[Any, Any],
    plan: Callable[Concatenate[Tx, P], Plan | None],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> PriorCheck:
    """Check a planned delegation, if its platform domain demands a check.

    The check takes at most `CHECK_SHARE` of `publish_wait_ms`.
    """
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


@api.get(
    "/subdomains/{fqdn}/health",
    "subdomains:read",
    (SubdomainNotFound,),
    example={"health": _HEALTH},
)
def get_health(tx: Tx, call: Call[None, None]) -> HealthAnswer:
    """Get the health of a subdomain.

    Returns the result of the last check: whether resolvers find the name at its nameservers, since when, and
    the findings. The delegation is checked minutes after each change, then daily, and more often while the
    name is broken. Of a name with records, the hosts of its CNAME records are checked.
    """
    view = view_health(tx, call.actor(), call.path["fqdn"])
    return answer_of(view, checks_enabled=call.context.checker is not None)


@api.write(
    "POST",
    "/subdomains/{fqdn}/health",
    "subdomains:write",
    (
        AccountSuspended,
        SubdomainNotFound,
        SubdomainSuspended,
        NameserverRequired,
        Conflict,
        RateLimited,
        Unavailable,
    ),
    rate_class="health",
    changes=False,
    gate=not_sensitive("changes nothing"),
    example_body={},
    example={"health": _HEALTH},
)
async def check_health(call: Call[NoBody, None]) -> Answer[HealthAnswer]:
    """Check a subdomain now.

    Queries the nameservers, or looks up the hosts of the CNAME records, once and stores the result. A new
    state takes effect when a second check confirms it ten minutes later. After a change of the delegation, it
    takes effect at once. The answer takes up to ten seconds.
    """
    db = call.context.db
    due = await db.read(plan_health_check, call.actor(), call.registrant.holder, call.path["fqdn"])
    checker = _checker(call)
    with counted_as_querying(call):
        result = await checker.check(due.target, waits=True)
    if result.busy_until is not None:
        raise Conflict("Checks of other names are querying these nameservers. Try again in a minute.")
    await db.write(record_check, due.subdomain_id, due.generation, result.report)
    return Answer(answer_of(await db.read(view_health, call.actor(), call.path["fqdn"]), checks_enabled=True))


def _checker(call: Call[Any, Any], **details: Any) -> Checker:
    if call.context.checker is None:
        raise Conflict(
            "This registry doesn't check delegations. Ask its operator to turn `health_checks` on.",
            details=details,
        )
    return call.context.checker


def answer_of(view: HealthView, *, checks_enabled: bool) -> HealthAnswer:
    """Return the answer that shows the health of a name."""
    health = view.health
    return HealthAnswer(
        health=HealthShape(
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
                HealthChangeShape(at=each.at, state=each.state, findings=list(each.codes))
                for each in view.changes
            ],
        )
    )


def _findings(found: tuple[Finding, ...]) -> list[FindingShape]:
    return [FindingShape.of(each) for each in worst_first(found)]


@api.write(
    "POST",
    "/delegation-checks",
    "subdomains:write",
    (
        AccountSuspended,
        PlatformDomainNotFound,
        TokenRestricted,
        ValidationFailed,
        Conflict,
        RateLimited,
        Unavailable,
    ),
    rate_class="health",
    changes=False,
    gate=not_sensitive("changes nothing"),
    example_body={
        "fqdn": "blog.example.net",
        "nameservers": ["ns1.provider.example"],
        "ds_records": [DS_EXAMPLE],
    },
    example={
        "check": {
            "fqdn": "blog.example.net",
            "state": "degraded",
            "checked_at": NOW,
            "findings": [_FINDING],
        }
    },
)
async def check_delegation_(
    call: Call[DelegationCheckBody, None],
) -> Answer[DelegationCheckAnswer]:
    """Check a planned delegation.

    Queries the nameservers as resolvers would if the name had this delegation, and stores nothing. The name
    may be free or registered. The answer takes up to ten seconds.
    """
    body = call.body
    command = planned_registration(body)
    with name_errors_as_sent(body):
        plan = await call.context.db.read(plan_delegation, call.actor(), call.registrant.holder, command)
    checker = _checker(call, warnings=list(delegation_warnings(plan.target.delegation)))
    with counted_as_querying(call):
        report = (await checker.check(plan.target, waits=True)).report
    check = DelegationCheckShape(
        fqdn=plan.target.fqdn,
        state=report.state,
        checked_at=report.checked_at,
        findings=_findings(report.findings),
    )
    return Answer(DelegationCheckAnswer(check=check))
