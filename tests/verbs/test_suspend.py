"""Suspending a name, or a user with all names; on both databases."""

import pytest

from sublet.accounts.users import suspend_user
from sublet.audit import Actor
from sublet.errors import (
    Conflict,
    NotFound,
    ValidationFailed,
)
from sublet.subdomains.delete import delete
from sublet.subdomains.lifecycle import derive_status
from sublet.subdomains.suspend import suspend, suspend_with_names, unsuspend, unsuspend_with_names
from sublet.subdomains.suspension_store import list_suspensions
from sublet.subdomains.view_zone import view_zones
from support.registry import OPERATOR, Registry
from support.shop import SHOP

ZONE = "example.test"
BARE, HELD, OLD, BENS = (f"{label}.{ZONE}" for label in ("bare", "held", "old", "bens"))
ANN = "ann@example.org"
WHY = Actor(kind="operator", name="olga", reason="phishing, complaint 17")


@pytest.fixture
def names(registry: Registry) -> dict[str, int]:
    """Return names of Ann (delegated, not delegated, suspended separately, in the
    trash), and a name of Ben.
    """
    delegated = ("ns1.example.org", "ns2.example.org")
    found = {
        SHOP: registry.register(SHOP, nameservers=delegated).id,
        BARE: registry.register(BARE).id,
        HELD: registry.register(HELD, registration_mode="plus", nameservers=delegated).id,
        OLD: registry.register(OLD, registration_mode="plus", nameservers=delegated).id,
        BENS: registry.register(BENS, "ben", nameservers=delegated).id,
    }
    registry.write(suspend, OPERATOR, HELD, "its own reason")
    registry.write(delete, registry.actor(), OLD)
    return found


def _statuses(registry: Registry, names: dict[str, int]) -> dict[str, str]:
    return {name: derive_status(registry.subdomain(of), registry.now) for name, of in names.items()}


def _in_zone(registry: Registry) -> set[str]:
    names = (SHOP, BARE, HELD, OLD, BENS)
    return {name for name, view in registry.read(view_zones, names).items() if name in view.records}


def test_all_names_leave_the_zone_and_exactly_these_return(registry: Registry, names: dict[str, int]) -> None:
    before = {name: registry.subdomain(of) for name, of in names.items()}
    statuses = _statuses(registry, names)
    registry.advance(hours=1)
    done = registry.write(suspend_with_names, WHY, ANN, "phishing")
    assert done.names == (SHOP, BARE, OLD)
    assert done.member.user.suspended_reason == "phishing"
    held = [registry.subdomain(names[name]) for name in (SHOP, BARE, OLD)]
    assert {each.suspended_at for each in held} == {registry.now}
    assert "phishing" not in {each.suspended_reason for each in held}  # only the operator sees the reason
    assert _in_zone(registry) == {BENS}

    registry.advance(hours=1)
    assert registry.write(unsuspend_with_names, OPERATOR, ANN).names == (SHOP, BARE, OLD)
    assert _in_zone(registry) == {BENS, SHOP}
    assert _statuses(registry, names) == statuses
    for name, of in names.items():
        assert registry.subdomain(of).delegation == before[name].delegation
    assert registry.subdomain(names[HELD]).suspended_reason == "its own reason"
    assert registry.doctor() == []


def test_many_names_are_suspended_and_unsuspended_in_parts(
    registry: Registry, names: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sublet.subdomains.suspend.NAMES_AT_ONCE", 2)
    first = registry.write(suspend_with_names, WHY, ANN)
    assert (first.names, first.more, registry.doctor()) == ((SHOP, BARE), True, [])
    last = registry.write(suspend_with_names, WHY, ANN)
    assert (last.names, last.more) == ((OLD,), False)
    first = registry.write(unsuspend_with_names, OPERATOR, ANN)
    assert (first.names, first.more, registry.doctor()) == ((SHOP, BARE), True, [])
    assert first.member.user.suspended_at is not None
    last = registry.write(unsuspend_with_names, OPERATOR, ANN)
    assert (last.names, last.more, last.member.user.suspended_at) == ((OLD,), False, None)


def test_the_audit_has_actor_reason_and_published_delegation(
    registry: Registry, names: dict[str, int]
) -> None:
    registry.write(suspend_with_names, WHY, ANN, "phishing")
    events = registry.read(list_suspensions, registry.users["ann"])
    assert [each.action for each in events] == ["subdomain.suspend", "user.suspend"] + 3 * [
        "subdomain.suspend"
    ]
    user, shop, bare, old = events[1:]
    assert {(each.actor_name, each.reason) for each in events[1:]} == {("olga", "phishing, complaint 17")}
    assert user.after is not None
    assert user.after["suspended_reason"] == "phishing"
    assert shop.before is not None
    assert shop.before["fqdn"] == SHOP
    assert shop.before["nameservers"] == ["ns1.example.org", "ns2.example.org"]
    assert (shop.before["status"], shop.before["provisioning_status"]) == ("active", "published")
    assert shop.before["published_at"] is not None
    assert [each.before["status"] for each in (bare, old) if each.before] == ["inactive", "trashed"]
    registry.write(unsuspend_with_names, OPERATOR, ANN)
    back = registry.read(list_suspensions, registry.users["ann"])[5:]
    assert [each.action for each in back] == ["user.unsuspend"] + 3 * ["subdomain.unsuspend"]
    assert registry.read(list_suspensions, registry.users["ben"]) == []


def test_the_names_can_stay_suspended_and_be_unsuspended_one_by_one(
    registry: Registry, names: dict[str, int]
) -> None:
    registry.write(suspend_with_names, WHY, ANN)
    assert registry.write(unsuspend_with_names, OPERATOR, ANN, keep_names=True).names == ()
    assert _in_zone(registry) == {BENS}
    registry.write(unsuspend, OPERATOR, SHOP)
    assert _in_zone(registry) == {SHOP, BENS}
    registry.write(suspend_with_names, WHY, ANN)  # with only the names that were unsuspended
    assert registry.write(unsuspend_with_names, OPERATOR, ANN).names == (SHOP,)
    assert registry.doctor() == []


def test_refusals_leave_no_trace(registry: Registry, names: dict[str, int]) -> None:
    before = registry.dump()
    with pytest.raises(NotFound):
        registry.write(suspend_with_names, WHY, "nobody@example.org")
    with pytest.raises(ValidationFailed):
        registry.write(suspend_with_names, WHY, ANN, "x" * 501)
    with pytest.raises(Conflict, match="not suspended"):
        registry.write(unsuspend_with_names, OPERATOR, ANN)
    assert registry.dump() == before
    registry.write(suspend_user, OPERATOR, ANN, "looked into")
    done = registry.write(suspend_with_names, WHY, ANN)
    assert (done.names, done.member.user.suspended_reason) == ((SHOP, BARE, OLD), "looked into")
    with pytest.raises(Conflict, match="so are all its names"):
        registry.write(suspend_with_names, WHY, ANN)
