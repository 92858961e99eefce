"""Plan the check of a delegation before it is stored.

For POST /delegation-checks, and for platform domains whose setting `delegation_check` requires it.
"""

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from msgspec import Struct

from sublet.accounts.find import refuse_suspended
from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.dns.delegation import check_delegation
from sublet.dns.types import Delegation
from sublet.errors import DelegationBroken, Refusal, validation_failed
from sublet.health.findings import warning_sentences
from sublet.health.model import BROKEN, UNKNOWN, Level, Report, Target, worst_first
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.store import find_platform_domain
from sublet.platform_domains.zone_store import is_zone_signed
from sublet.subdomains.find import find_in_account
from sublet.subdomains.model import Register, UpdateNameservers
from sublet.subdomains.nameservers import find_enclosed_nameservers, platform_domains_above
from sublet.subdomains.naming import find_named_platform_domains, resolve_name
from sublet.subdomains.update_nameservers import changed_delegation

P = ParamSpec("P")
OutcomeT = TypeVar("OutcomeT", bound=Outcome)
NOT_CHECKED_IN_TIME = (
    "The nameservers were not checked in time. Look at the health of {fqdn} in a few minutes."
)


class Plan(Struct, frozen=True):
    """A delegation to check before it is stored.

    `mode` is the platform domain's `delegation_check`: off, warn or require.
    """

    target: Target
    mode: str


def plan_delegation(tx: Tx, actor: Actor, user: User, command: Register) -> Plan:
    """Return the delegation that a registration would have. Not checked: that the name is available.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        PlatformDomainNotFound: the platform domain doesn't exist, or is hidden from the user or the token.
        TokenRestricted: the token is restricted to other names.
        ValidationFailed: all invalid fields.
    """
    refuse_suspended(user)
    found = find_named_platform_domains(tx, command)
    platform_domain, label, errors = resolve_name(tx, actor, user, command, found)
    owner = f"{label}.{platform_domain.domain}" if label and platform_domain else "unknown.invalid"
    delegation, delegation_errors = check_delegation(
        owner,
        command.nameservers,
        command.glue if label else (),
        command.ds_records,
        nameservers_min=1,
        nameservers_max=13,
    )
    if errors or delegation_errors or platform_domain is None:
        raise validation_failed([*errors, *delegation_errors])
    return _plan(tx, owner, delegation, platform_domain)


def plan_registration(tx: Tx, actor: Actor, user: User, command: Register) -> Plan | None:
    """Return the delegation to check before a registration; None if the platform domain requires no check, or
    the verb will refuse.
    """
    try:
        plan = plan_delegation(tx, actor, user, command)
    except Refusal:  # The verb will raise the refusal that comes first in its own order of checks.
        return None
    return plan if plan.mode != "off" and plan.target.delegation.nameservers else None


def plan_change(tx: Tx, actor: Actor, identifier: str, command: UpdateNameservers) -> Plan | None:
    """Return the delegation to check before a change; None if no check is required, the verb will refuse, or
    the delegation stays the same.
    """
    try:
        subdomain = find_in_account(tx, actor, identifier)
    except Refusal:
        return None
    platform_domain = find_platform_domain(tx, subdomain.platform_domain_id)
    if platform_domain is None or platform_domain.delegation_check == "off":
        return None
    delegation, errors = changed_delegation(subdomain, command)
    if errors or not delegation.nameservers or delegation == subdomain.delegation:
        return None
    return _plan(tx, subdomain.fqdn, delegation, platform_domain)


def _plan(tx: Tx, owner: str, delegation: Delegation, platform_domain: PlatformDomain) -> Plan:
    above = platform_domains_above(tx, owner, delegation.nameservers)
    enclosed = find_enclosed_nameservers(tx, owner, delegation.nameservers, above)
    unheld = tuple(each.host for each in enclosed if not each.is_held or each.is_in_trash)
    signed = is_zone_signed(tx, platform_domain.id) is not False
    target = Target(owner, platform_domain.domain, delegation, signed, unheld)
    return Plan(target, platform_domain.delegation_check)


class PriorCheck(Struct, frozen=True):
    """The result of checking a delegation before storing it.

    `plan` and `report` are None if it wasn't checked.
    """

    plan: Plan | None = None
    report: Report | None = None
    took_seconds: float = 0.0

    def guard(self, verb: Callable[Concatenate[Tx, P], OutcomeT]) -> Callable[Concatenate[Tx, P], OutcomeT]:
        """Return `verb`; if the platform domain requires a working delegation and the check found it broken,
        return a verb that always refuses.

        The refusing verb raises, in this order:
            Refusal: `verb` raises it.
            DelegationBroken: resolvers would fail.
        """
        plan, report = self.plan, self.report
        if plan is None or report is None or plan.mode != "require" or report.state != BROKEN:
            return verb
        errors = [each for each in worst_first(report.findings) if each.level == Level.ERROR]
        sentences = " ".join(f"{each.message} {each.hint}" for each in errors)

        def refused(tx: Tx, /, *args: P.args, **kwargs: P.kwargs) -> OutcomeT:
            verb(tx, *args, **kwargs)
            raise DelegationBroken(
                f"Resolvers could not find the name with this delegation. Change it: {sentences}",
                details={"findings": [each.code for each in errors]},
            )

        return refused

    @property
    def warnings(self) -> tuple[str, ...]:
        """The errors and warnings as `provisioning.warnings` shows them."""
        if self.plan is None or self.report is None:
            return ()
        sentences = warning_sentences(self.report.findings)
        if self.report.state == UNKNOWN:
            return (NOT_CHECKED_IN_TIME.format(fqdn=self.plan.target.fqdn), *sentences)
        return sentences


NOT_CHECKED = PriorCheck()
