"""Following a child's CSYNC record: changes, refusals, audit and mails; on both databases."""

from datetime import timedelta

import pytest

from sublet import audit
from sublet.accounts.set_reminders import set_reminders
from sublet.child_zones.automatic_ds import schedule_check, set_automatic_ds, view_automatic_ds
from sublet.child_zones.follow_csync import (
    REFUSED,
    find_replay_guard,
    follow_csync,
    plan_change,
    plan_check,
    refuse_if_worse,
)
from sublet.child_zones.follow_ds import RECHECK_AFTER
from sublet.child_zones.model import Change, CsyncDecision, Keep, Refuse, ReplayGuard
from sublet.dns.types import Delegation, GlueEntry
from sublet.errors import Conflict
from sublet.health import store as health_store
from sublet.health.due_checks import claim_due
from sublet.health.model import Finding, Level, Report, Target
from sublet.mail.store import list_mails
from sublet.structs import replace
from sublet.subdomains.child_state_store import CsyncState, find_csync_state
from sublet.subdomains.delegation_changes import CSYNC
from sublet.subdomains.edit_zone_settings import edit_zone_settings
from sublet.subdomains.model import Subdomain, UpdateNameservers
from sublet.subdomains.update_nameservers import CHANGE, update_nameservers
from support.registry import OPERATOR, Registry

SHOP = "shop.example.test"
HOSTS = ("ns1.example.org", "ns2.example.org")
DS = f"1 13 2 {'ab' * 32}"
OWN = f"ns.{SHOP}"


def shop_of(registry: Registry, *ds_records: str) -> Subdomain:
    """Register the shop, under a platform domain that follows CSYNC records."""
    registry.write(edit_zone_settings, OPERATOR, "example.test", {"csync": True})
    return registry.register(SHOP, nameservers=HOSTS, ds_records=ds_records or (DS,))


def change_of(registry: Registry, *hosts: str, glue: tuple[GlueEntry, ...] = (), serial: int = 7) -> Change:
    """Return a change to these nameservers."""
    return Change(hosts, glue, serial, registry.now - timedelta(hours=1))


def follow(registry: Registry, shop: Subdomain, decision: CsyncDecision) -> CsyncDecision | None:
    """Apply a decision from checks of the present generation."""
    guard = registry.read(find_replay_guard, shop.id)
    assert guard is not None
    return registry.write(follow_csync, shop.id, registry.subdomain(shop.id).generation, decision, guard)


def known(registry: Registry, shop: Subdomain) -> CsyncState:
    """Return the shop's stored CSYNC state."""
    return registry.read(find_csync_state, shop.id)


def test_nameservers_and_glue_change_with_audit_and_mail(registry: Registry) -> None:
    shop = shop_of(registry)
    registry.write(set_reminders, registry.actor(), enabled=False)
    change = change_of(registry, HOSTS[1], OWN, glue=(GlueEntry(OWN, "9.9.9.9", None),))
    assert follow(registry, shop, change) == change
    changed = registry.subdomain(shop.id)
    ds_records = shop.delegation.ds_records
    assert changed.delegation == Delegation((HOSTS[1], OWN), (GlueEntry(OWN, "9.9.9.9"),), ds_records)
    assert changed.generation == 2
    assert known(registry, shop) == CsyncState(shop.id, 7, change.signed_at)
    assert registry.read(find_replay_guard, shop.id) == ReplayGuard(7, change.signed_at)
    (event,) = registry.read(audit.list_events, "subdomain", [shop.id], [CSYNC])
    assert event.actor_kind == "system"
    (mail,) = registry.read(list_mails, waiting=True, user_id=registry.users["ann"], limit=10)
    assert mail.subject == f"The nameservers of {SHOP} have changed"
    assert f"+ {OWN} 9.9.9.9\n- {HOSTS[0]}\n" in mail.text
    assert registry.doctor() == []


def test_a_change_by_hand_forgets_the_serial_but_not_the_signature(registry: Registry) -> None:
    shop = shop_of(registry)
    change = change_of(registry, HOSTS[1])
    follow(registry, shop, change)
    registry.write(update_nameservers, registry.actor(), SHOP, UpdateNameservers(nameservers=HOSTS))
    assert registry.read(find_replay_guard, shop.id) == ReplayGuard(None, change.signed_at)
    assert len(registry.read(audit.list_events, "subdomain", [shop.id], [CHANGE])) == 1


@pytest.mark.parametrize(
    ("hosts", "glue"),
    [
        ((), ()),
        ((OWN,), (GlueEntry(OWN, "10.0.0.1", None),)),
        (("ns.free.example.test",), ()),
    ],
)
def test_the_rules_of_a_change_by_the_user_apply(
    hosts: tuple[str, ...], glue: tuple[GlueEntry, ...], registry: Registry
) -> None:
    shop = shop_of(registry)
    change = change_of(registry, *hosts, glue=glue)
    planned = registry.read(plan_change, shop.id, change)
    decision = follow(registry, shop, change)
    for each in (planned, decision):
        assert isinstance(each, Refuse), each
        assert each.code == "not_accepted"
    assert registry.subdomain(shop.id).delegation == shop.delegation
    assert known(registry, shop).refusal == "not_accepted"
    assert registry.doctor() == []


def test_a_refusal_is_stored_audited_once_and_checked_again(registry: Registry) -> None:
    shop = shop_of(registry)
    registry.write(schedule_check, SHOP)
    registry.write(claim_due, 1)
    refusal = Refuse("servers_differ", "They differ. Wait.")
    for _ in range(2):
        follow(registry, shop, refusal)
    view = registry.read(view_automatic_ds, registry.actor(), SHOP)
    states = view.states
    assert (states.follows_csync, states.csync.refusal, states.csync.message) == (
        True,
        refusal.code,
        refusal.message,
    )
    assert len(registry.read(audit.list_events, "csync", [shop.id], [REFUSED])) == 1
    health = registry.read(health_store.find_health, shop.id)
    assert health is not None
    assert health.due_at == registry.now + RECHECK_AFTER
    follow(registry, shop, Keep())
    assert known(registry, shop) == CsyncState(shop.id)


def test_nothing_changes_if_the_name_or_the_rules_changed_meanwhile(registry: Registry) -> None:
    shop = shop_of(registry)
    change = change_of(registry, HOSTS[0])
    assert registry.write(follow_csync, shop.id, 7, change, ReplayGuard()) is None
    registry.write(set_automatic_ds, registry.actor(), SHOP, enabled=False, bootstrap=None)
    assert registry.write(follow_csync, shop.id, 1, change, ReplayGuard()) is None
    with pytest.raises(Conflict, match="--csync"):
        registry.read(plan_check, SHOP)
    registry.write(set_automatic_ds, registry.actor(), SHOP, enabled=True, bootstrap=None)
    assert registry.read(plan_check, SHOP).subdomain_id == shop.id
    registry.write(update_nameservers, registry.actor(), SHOP, UpdateNameservers(ds_records=()))
    assert registry.read(find_replay_guard, shop.id) is None
    registry.write(edit_zone_settings, OPERATOR, "example.test", {"csync": False})
    assert registry.write(schedule_check, SHOP) is False


def test_the_new_nameservers_are_checked_first(registry: Registry) -> None:
    shop = shop_of(registry)
    planned = registry.read(plan_change, shop.id, change_of(registry, HOSTS[1]))
    assert isinstance(planned, Target)
    assert planned.delegation == replace(shop.delegation, nameservers=HOSTS[1:])
    lame = Finding("lame", Level.WARNING, HOSTS[1], "It is lame.", "Set it up.")
    notice = replace(lame, level=Level.NOTICE, code="single_point")

    def verdict(before: list[Finding], after: list[Finding], state: str = "healthy") -> str | None:
        now = registry.now
        refusal = refuse_if_worse(Report("degraded", tuple(before), now), Report(state, tuple(after), now))
        return None if refusal is None else refusal.code

    assert verdict([lame], [lame, notice]) is None
    assert verdict([notice], [lame]) == "would_break"
    assert verdict([replace(lame, subject=HOSTS[0])], [lame]) == "would_break"
    assert verdict([], [], "unknown") == "would_break"
