"""Following a child's request for DS records: changes, refusals, audit and mails; on both databases."""

from datetime import timedelta
from typing import Any

import dns.flags
import dns.message
import dns.rrset
import pytest
from sqlalchemy import select

from sublet import audit
from sublet.accounts.set_reminders import set_reminders
from sublet.child_zones.automatic_ds import NOTIFY_PAUSE, schedule_check, set_automatic_ds, view_automatic_ds
from sublet.child_zones.follow_ds import REFUSED, WAITING, find_rules, follow_child, plan_check
from sublet.child_zones.followers import DsFollower
from sublet.child_zones.model import Awaited, Decision, Keep, Refuse, Remove, Replace, Rules, Wait
from sublet.dns.types import Delegation, DsRecord
from sublet.errors import Conflict, SubdomainNotFound, SubdomainSuspended
from sublet.health import store as health_store
from sublet.health.checker import CheckResult
from sublet.health.control import impaired_report
from sublet.health.due_checks import claim_due
from sublet.health.model import DueCheck, Observation, Reply, Report, Server
from sublet.mail.store import list_mails, mails
from sublet.structs import replace
from sublet.subdomains.child_state_store import AutomaticDs, find_automatic_ds
from sublet.subdomains.delegation_changes import FOLLOWED
from sublet.subdomains.delete import delete
from sublet.subdomains.edit_zone_settings import edit_zone_settings
from sublet.subdomains.model import Subdomain, UpdateNameservers
from sublet.subdomains.suspend import suspend
from sublet.subdomains.update_nameservers import update_nameservers
from support.registry import OPERATOR, Registry

SHOP = "shop.example.test"
HOSTS = ("ns1.example.org", "ns2.example.org")
OLD = DsRecord(1, 13, 2, "ab" * 32)
NEW = DsRecord(2, 13, 2, "cd" * 32)
DIFFER = Refuse("servers_differ", "They differ. Wait.")


def shop_with(registry: Registry, *ds_records: DsRecord, policy: str = "all") -> Subdomain:
    """Register the shop with DS records, under a platform domain with this policy."""
    registry.write(edit_zone_settings, OPERATOR, "example.test", {"automatic_ds": policy})
    texts = [f"{each.key_tag} {each.algorithm} {each.digest_type} {each.digest}" for each in ds_records]
    return registry.register(SHOP, nameservers=HOSTS, ds_records=texts)


def follow(registry: Registry, shop: Subdomain, decision: Decision) -> Decision | None:
    """Apply a decision from a check of the present generation."""
    rules = registry.read(find_rules, shop.id)
    assert rules is not None
    generation = registry.subdomain(shop.id).generation
    return registry.write(follow_child, shop.id, generation, decision, rules)


def known(registry: Registry, shop: Subdomain) -> AutomaticDs:
    """Return the shop's stored automatic DS."""
    return registry.read(find_automatic_ds, shop.id)


def actions(registry: Registry, shop: Subdomain, action: str) -> list[audit.AuditEvent]:
    """Return the audit events of an action."""
    return registry.read(audit.list_events, action.partition(".")[0], [shop.id], [action])


def test_ds_records_are_replaced_and_removed_with_audit_mail_and_source(registry: Registry) -> None:
    shop = shop_with(registry, OLD)
    registry.write(set_reminders, registry.actor(), enabled=False)
    signed_at = registry.now - timedelta(hours=1)
    assert follow(registry, shop, Replace((NEW,), signed_at)) is not None
    changed = registry.subdomain(shop.id)
    assert (changed.delegation, changed.generation) == (Delegation(HOSTS, (), (NEW,)), 2)
    assert known(registry, shop).signed_at == signed_at
    (sourced,) = registry.read(view_automatic_ds, registry.actor(), SHOP).ds_records
    assert (sourced.record, sourced.source, sourced.since) == (NEW, "cds", registry.now)
    registry.advance(hours=1)
    follow(registry, shop, Remove(registry.now))
    assert registry.subdomain(shop.id).delegation.ds_records == ()
    assert known(registry, shop).bootstrap is True
    assert [each.actor_kind for each in actions(registry, shop, FOLLOWED)] == ["system", "system"]
    mails = registry.read(list_mails, waiting=True, user_id=registry.users["ann"], limit=10)
    assert [each.subject for each in mails] == [
        f"The DS records of {SHOP} were removed",
        f"The DS records of {SHOP} have changed",
    ]


def test_a_refusal_is_stored_audited_once_and_deleted(registry: Registry) -> None:
    shop = shop_with(registry, OLD)
    began = registry.now
    for _ in range(2):
        follow(registry, shop, DIFFER)
        registry.advance(minutes=10)
    found = known(registry, shop)
    assert (found.refusal, found.message, found.refused_since) == (DIFFER.code, DIFFER.message, began)
    assert len(actions(registry, shop, REFUSED)) == 1
    follow(registry, shop, Keep())
    assert known(registry, shop) == AutomaticDs(shop.id)
    assert registry.subdomain(shop.id).generation == 1


def test_nothing_changes_if_the_name_or_the_rules_changed_meanwhile(registry: Registry) -> None:
    shop = shop_with(registry, OLD)
    rules = registry.read(find_rules, shop.id)
    assert rules == Rules()
    decision = Replace((NEW,), registry.now)
    assert registry.write(follow_child, shop.id, 7, decision, rules) is None
    registry.write(set_automatic_ds, registry.actor(), SHOP, enabled=False, bootstrap=None)
    assert registry.write(follow_child, shop.id, 1, decision, rules) is None
    assert registry.subdomain(shop.id).delegation.ds_records == (OLD,)


@pytest.mark.parametrize(
    ("policy", "with_ds", "without"),
    [
        ("off", None, None),
        ("rollover", Rules(bootstrap=False), None),
        ("bootstrap", None, Rules(rollover=False)),
        ("all", Rules(), Rules()),
    ],
)
def test_rules_follow_the_policy(
    policy: str, with_ds: Rules | None, without: Rules | None, registry: Registry
) -> None:
    shop = shop_with(registry, OLD, policy=policy)
    assert registry.read(find_rules, shop.id) == with_ds
    registry.write(edit_zone_settings, OPERATOR, "example.test", {"automatic_ds": "all"})
    follow(registry, shop, Remove(registry.now))
    registry.write(edit_zone_settings, OPERATOR, "example.test", {"automatic_ds": policy})
    expected = None if without is None else replace(without, signed_after=registry.now)
    assert registry.read(find_rules, shop.id) == expected


def test_a_change_by_hand_raises_the_replay_guard(registry: Registry) -> None:
    shop = shop_with(registry, OLD)
    steps: list[tuple[int, dict[str, Any], bool]] = [
        (1, {"nameservers": list(HOSTS[:1])}, False),
        (2, {"ds_records": [f"2 13 2 {NEW.digest}"]}, True),
        (3, {"ds_records": []}, True),
        (4, {"ds_records": [f"1 13 2 {OLD.digest}"]}, True),
    ]
    for hours, changes, changed in steps:
        registry.advance(hours=hours)
        registry.write(update_nameservers, registry.actor(), SHOP, UpdateNameservers(**changes))
        found = registry.read(find_rules, shop.id)
        if changes.get("ds_records") != []:  # Bootstrapping is off without DS records.
            assert found is not None
            assert found.changed_at == (registry.now if changed else None)
    follow(registry, shop, Replace((NEW,), registry.now))
    registry.advance(hours=1)
    found = registry.read(find_rules, shop.id)
    assert found is not None
    assert found.changed_at == registry.now - timedelta(hours=1)


def waiting_shop(registry: Registry) -> Subdomain:
    """Register the shop, which then waits seven days for its first DS records."""
    shop = shop_with(registry)
    registry.write(edit_zone_settings, OPERATOR, "example.test", {"bootstrap_days": 7})
    assert follow(registry, shop, wait_from(registry)) is not None
    return shop


def wait_from(registry: Registry, digest: str = "ab" * 32) -> Wait:
    """Return the decision to wait that begins now."""
    return Wait((NEW,), registry.now, digest, registry.now, registry.now + timedelta(days=7))


def awaited(registry: Registry, shop: Subdomain) -> Awaited | None:
    """Return what the shop's next check compares with."""
    rules = registry.read(find_rules, shop.id)
    return None if rules is None else rules.awaited


def test_a_wait_for_the_first_ds_records_is_kept_and_audited_once(registry: Registry) -> None:
    shop = waiting_shop(registry)
    began, decision = registry.now, wait_from(registry)
    rules = registry.read(find_rules, shop.id)
    assert rules is not None
    assert rules.accepted_after == timedelta(days=7)
    registry.advance(days=1)
    follow(registry, shop, decision)
    assert awaited(registry, shop) == Awaited(decision.digest, began, registry.now)
    (event,) = actions(registry, shop, WAITING)
    assert event.after is not None
    assert [each["key_tag"] for each in event.after["ds_records"]] == [NEW.key_tag]
    view = registry.read(view_automatic_ds, registry.actor(), SHOP)
    assert view.states.awaited_until == began + timedelta(days=7)
    registry.advance(days=6)
    follow(registry, shop, Replace((NEW,), registry.now, began))
    assert registry.subdomain(shop.id).delegation.ds_records == (NEW,)
    assert known(registry, shop) == AutomaticDs(shop.id, signed_at=registry.now)
    (mail,) = registry.read(list_mails, waiting=True, user_id=registry.users["ann"], limit=10)
    assert mail.subject == f"{SHOP} got its first DS records"
    assert f"since {began:%Y-%m-%d}" in registry.read(
        lambda tx: tx.connection.execute(select(mails.c.text)).scalar_one()
    )
    assert registry.doctor() == []


def test_what_ends_a_wait(registry: Registry) -> None:
    shop = waiting_shop(registry)
    follow(registry, shop, Refuse("servers_silent", "ns2 is silent."))
    assert awaited(registry, shop) is not None
    follow(registry, shop, DIFFER)
    assert awaited(registry, shop) is None
    follow(registry, shop, wait_from(registry))
    follow(registry, shop, Keep())
    assert awaited(registry, shop) is None
    follow(registry, shop, wait_from(registry))
    command = UpdateNameservers(nameservers=HOSTS[:1])
    registry.write(update_nameservers, registry.actor(), SHOP, command)
    assert awaited(registry, shop) is None
    assert registry.read(view_automatic_ds, registry.actor(), SHOP).states.awaited_until is None
    follow(registry, shop, wait_from(registry))
    registry.write(set_automatic_ds, registry.actor(), SHOP, enabled=None, bootstrap=False)
    registry.write(set_automatic_ds, registry.actor(), SHOP, enabled=None, bootstrap=True)
    assert awaited(registry, shop) is None
    assert len(actions(registry, shop, WAITING)) == 4
    follow(registry, shop, wait_from(registry))
    registry.write(edit_zone_settings, OPERATOR, "example.test", {"bootstrap_days": 0})
    assert registry.read(view_automatic_ds, registry.actor(), SHOP).states.awaited_until is None
    assert registry.doctor() == []


def test_a_silent_nameserver_is_not_refused_while_this_host_can_not_check(registry: Registry) -> None:
    shop = shop_with(registry, OLD)
    cds = dns.rrset.from_text(f"{SHOP}.", 300, "IN", "CDS", "0 0 0 00")
    message = dns.message.make_response(dns.message.make_query(f"{SHOP}.", "CDS"))
    message.flags |= dns.flags.AA
    message.answer = [cds]
    reply, silent = Reply(message), Reply(failure="no_answer")
    answering = Server(HOSTS[0], "9.9.1.1", soa=reply, soa_tcp=reply)
    answering.extra = {(SHOP, each): reply for each in ("CDS", "CDNSKEY", "DNSKEY")}
    seen = Observation(servers=(answering, Server(HOSTS[1], "9.9.2.1", soa=silent, soa_tcp=silent)))
    due = registry.read(plan_check, SHOP)
    follower = DsFollower(registry.db)
    healthy = Report("healthy", (), registry.now)
    impaired = CheckResult(impaired_report("No answers.", registry.now), seen, healthy)
    assert registry.run(follower.follow(due, impaired)) is None
    assert known(registry, shop).refusal is None
    decision = registry.run(follower.follow(due, CheckResult(healthy, seen, healthy)))
    assert decision.code == known(registry, shop).refusal == "servers_silent"


def test_messages_make_a_check_due_at_most_once_a_minute(registry: Registry) -> None:
    shop = shop_with(registry, OLD)
    assert registry.write(schedule_check, "no.example.test") is False
    assert registry.write(schedule_check, SHOP) is True
    (due,) = registry.write(claim_due, 10)
    assert due.subdomain_id == shop.id
    health = registry.read(health_store.find_health, shop.id)
    assert health is not None
    seen = replace(health, checked_at=registry.now, due_at=registry.now + timedelta(days=1))
    registry.write(health_store.update_health, seen)
    registry.advance(seconds=10)
    assert registry.write(schedule_check, SHOP) is True
    health = registry.read(health_store.find_health, shop.id)
    assert health is not None
    assert health.due_at == seen.checked_at + NOTIFY_PAUSE if seen.checked_at else False
    registry.write(edit_zone_settings, OPERATOR, "example.test", {"automatic_ds": "off"})
    assert registry.write(schedule_check, SHOP) is False


def test_setting_it_is_refused_for_names_that_the_user_can_not_change(registry: Registry) -> None:
    shop = shop_with(registry, OLD)
    for _ in range(2):
        registry.write(set_automatic_ds, registry.actor(), SHOP, enabled=False, bootstrap=False)
    assert len(actions(registry, shop, "subdomain.set_automatic_ds")) == 1
    with pytest.raises(SubdomainNotFound):
        registry.write(set_automatic_ds, registry.actor("ben"), SHOP, enabled=True, bootstrap=None)
    with pytest.raises(SubdomainNotFound):
        registry.read(view_automatic_ds, registry.actor("ben"), SHOP)
    registry.write(suspend, OPERATOR, SHOP)
    with pytest.raises(SubdomainSuspended):
        registry.write(set_automatic_ds, registry.actor(), SHOP, enabled=True, bootstrap=None)


def test_a_check_is_refused_if_nothing_is_followed_or_published(registry: Registry) -> None:
    shop = shop_with(registry, OLD, policy="off")
    with pytest.raises(Conflict, match="--automatic-ds"):
        registry.read(plan_check, SHOP)
    registry.write(edit_zone_settings, OPERATOR, "example.test", {"automatic_ds": "all"})
    assert isinstance(registry.read(plan_check, SHOP), DueCheck)
    registry.write(delete, registry.actor(), SHOP)
    assert registry.read(find_rules, shop.id) is None
