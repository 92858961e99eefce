"""Viewing the health of a name as its user, and checking a delegation before it is
stored; on both databases.
"""

from datetime import UTC, datetime

import pytest

from sublet.accounts.find import find_user
from sublet.accounts.model import User
from sublet.db import Tx
from sublet.errors import (
    AccountSuspended,
    Conflict,
    DelegationBroken,
    NameserverRequired,
    SubdomainNotFound,
    SubdomainSuspended,
    ValidationFailed,
)
from sublet.health.due_checks import record_check
from sublet.health.model import BROKEN, HEALTHY, UNKNOWN, Finding, Level, Report
from sublet.health.plan_delegation import PriorCheck, plan_change, plan_delegation, plan_registration
from sublet.health.view_health import plan_health_check, view_health
from sublet.platform_domains.platform_domain import edit_platform_domain
from sublet.subdomains.list_store import list_own
from sublet.subdomains.model import Register, SubdomainFilter, UpdateNameservers
from sublet.subdomains.register import register
from sublet.subdomains.suspend import suspend, suspend_with_names
from support.registry import FREE_QUOTA, OPERATOR, Registry

SHOP = "shop.example.test"
HOSTS = ("ns1.example.org", "ns2.example.org")
LAME = Finding("lame", Level.ERROR, "ns1.example.org", "It is lame.", "Mend it.")
SLOW = Finding("single_point", Level.NOTICE, "ns1.example.org", "It is alone.", "Add one.")


def user_of(registry: Registry, name: str = "ann") -> User:
    return registry.read(find_user, str(registry.users[name]))


def report(state: str, *findings: Finding) -> Report:
    return Report(state, findings, datetime.now(UTC))


def test_only_the_user_sees_the_health_of_a_name(registry: Registry) -> None:
    held = registry.register(SHOP, nameservers=HOSTS)
    assert registry.read(view_health, registry.actor(), SHOP).health is None
    registry.write(record_check, held.id, 1, report(BROKEN, LAME))
    view = registry.read(view_health, registry.actor(), str(held.id))
    assert view.health is not None
    assert (view.health.state, view.health.findings, len(view.changes)) == (BROKEN, (LAME,), 1)
    with registry.refuses(SubdomainNotFound):
        registry.read(view_health, registry.actor("ben"), SHOP)
    found = {
        state: [
            each.fqdn
            for each in registry.read(list_own, registry.actor(), SubdomainFilter(health=state), 10, None)
        ]
        for state in (BROKEN, HEALTHY, UNKNOWN)
    }
    assert found == {BROKEN: [SHOP], HEALTHY: [], UNKNOWN: []}


def test_a_check_now_needs_a_published_delegation(registry: Registry) -> None:
    def plan(name: str = "ann") -> object:
        return registry.read(plan_health_check, registry.actor(name), user_of(registry, name), SHOP)

    registry.move()
    held = registry.register(SHOP)
    with registry.refuses(SubdomainNotFound):
        plan("ben")
    with registry.refuses(NameserverRequired):
        plan()
    registry.register("other.example.test", nameservers=HOSTS)
    with registry.refuses(Conflict):
        registry.read(plan_health_check, registry.actor(), user_of(registry), "other.example.test")
    registry.write(suspend, OPERATOR, SHOP, "abuse")
    with registry.refuses(SubdomainSuspended):
        plan()
    assert registry.subdomain(held.id).suspended_at is not None
    registry.write(suspend_with_names, OPERATOR, "ann@example.org", "abuse")
    with registry.refuses(AccountSuspended):
        plan()


def test_a_planned_delegation_is_read_like_a_registration(registry: Registry) -> None:
    command = Register(fqdn="Shop.Example.Test.", nameservers=("NS1.Example.org",))
    plan = registry.read(plan_delegation, registry.actor(), user_of(registry), command)
    assert (plan.target.fqdn, plan.target.delegation.nameservers, plan.mode) == (
        SHOP,
        ("ns1.example.org",),
        "off",
    )
    with registry.refuses(ValidationFailed):
        registry.read(
            plan_delegation, registry.actor(), user_of(registry), Register(fqdn=SHOP, nameservers=("-",))
        )


@pytest.mark.parametrize("mode", ["off", "warn", "require"])
def test_a_platform_domain_decides_which_changes_are_checked_first(registry: Registry, mode: str) -> None:
    edit(registry, mode)
    command = Register(fqdn=SHOP, nameservers=HOSTS)
    plan = registry.read(plan_registration, registry.actor(), user_of(registry), command)
    assert (plan.mode if plan else "off") == mode
    assert registry.read(plan_registration, registry.actor(), user_of(registry), Register(fqdn=SHOP)) is None
    if plan is None:
        return
    broken, unseen = PriorCheck(plan, report(BROKEN, SLOW, LAME)), PriorCheck(plan, report(UNKNOWN))
    assert broken.warnings == ("It is lame. Mend it.",)
    assert [SHOP in each for each in unseen.warnings] == [True]
    guarded = broken.guard(register)
    if mode == "require":
        registry.refused(DelegationBroken, guarded, registry.actor(), command, free_quota=FREE_QUOTA)
    for accepted in (guarded if mode == "warn" else register, unseen.guard(register)):
        assert accepted is register
    registry.register(SHOP, nameservers=HOSTS)
    same, other = UpdateNameservers(nameservers=HOSTS), UpdateNameservers(nameservers=HOSTS[:1])
    assert registry.read(plan_change, registry.actor(), SHOP, same) is None
    change = registry.read(plan_change, registry.actor(), SHOP, other)
    assert change is not None
    assert change.target.delegation.nameservers == HOSTS[:1]
    assert registry.read(plan_change, registry.actor("ben"), SHOP, other) is None


def edit(registry: Registry, mode: str) -> None:
    def change(tx: Tx) -> None:
        edit_platform_domain(tx, OPERATOR, "example.test", {"delegation_check": mode})

    registry.write(change)
