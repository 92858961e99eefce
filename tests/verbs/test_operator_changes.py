"""What the operator's verbs change, what the audit says of it, and what it means for registrants."""

from datetime import timedelta
from pathlib import Path

import pytest

from sublet.accounts.add_user import add_user
from sublet.accounts.authenticate import authenticate
from sublet.accounts.edit_user import UserEdit, edit_user
from sublet.accounts.find import find_user
from sublet.accounts.issue_token import issue_token
from sublet.accounts.model import SCOPES
from sublet.accounts.revoke_token import revoke_token
from sublet.accounts.suspend_user import suspend_user
from sublet.accounts.unsuspend_user import unsuspend_user
from sublet.credits.add_coupon import CouponTerms, add_coupon
from sublet.credits.add_package import add_package
from sublet.credits.adjust_credits import adjust_credits
from sublet.credits.check_ledger import check_ledger
from sublet.credits.grant_credits import grant_credits
from sublet.credits.record_payment import PaymentMade, record_payment
from sublet.credits.refund_charge import refund_charge
from sublet.credits.retire_package import retire_package
from sublet.credits.store import find_balance, list_payments
from sublet.db import Tx
from sublet.dns.types import Delegation, Record
from sublet.errors import (
    AccountSuspended,
    Conflict,
    PlatformDomainNotFound,
    SubdomainUnavailable,
    TokenExpired,
    TokenRevoked,
)
from sublet.platform_domains.grants import grant_platform_domain, revoke_platform_domain
from sublet.platform_domains.labels import set_label, unset_label
from sublet.platform_domains.offers import offer_mode, withdraw_offer
from sublet.platform_domains.platform_domain import add_platform_domain, edit_platform_domain
from sublet.platform_domains.zone_store import list_zone_records
from sublet.subdomains.delete import move_to_trash
from sublet.subdomains.find import find_for_operator
from sublet.subdomains.lifecycle import derive_status
from sublet.subdomains.operator_restore import operator_restore
from sublet.subdomains.purge import purge
from sublet.subdomains.store import find_subdomain, list_names_held, update_subdomain
from sublet.subdomains.suspend import suspend
from sublet.subdomains.unsuspend import unsuspend
from support.operator_registry import ANNA, BOB, Registry, small_registry

DOMAIN, ALPHA, BETA = "example.test", "alpha.example.test", "beta.example.test"


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return small_registry(tmp_path)


def _trash(registry: Registry, name: str) -> None:
    registry.do(lambda tx, actor: move_to_trash(tx, actor, find_for_operator(tx, name)))


def _publish(registry: Registry, subdomain_id: int) -> None:
    def run(tx: Tx) -> None:
        found = find_subdomain(tx, subdomain_id)
        assert found is not None
        update_subdomain(tx, subdomain_id, published_generation=found.generation)

    registry.write(run)


# Accounts


def test_a_user_joins_by_name_slug_or_id_and_a_new_name_adds_an_organization(registry: Registry) -> None:
    acme = registry.do(add_user, "c1@example.net", "C", "ACME").organization
    assert acme.name == "Acme"
    assert registry.do(add_user, "c2@example.net", "C", str(acme.id)).organization == acme
    new = registry.do(add_user, "C3@Example.NET", " Carl ", "Ärzte & Co.")
    assert (new.user.email, new.user.name) == ("c3@example.net", "Carl")
    assert (new.organization.name, new.organization.slug) == ("Ärzte & Co.", "arzte-co")
    assert registry.do(add_user, "c4@example.net", "C", "Ärzte & Co.").organization == new.organization


def test_every_change_is_audited_with_actor_and_reason(registry: Registry) -> None:
    registry.do(edit_user, ANNA, UserEdit(name="Anne", free_quota=9, organization="acme"))
    event = registry.events()[-1]
    assert (event["actor_kind"], event["actor_name"], event["reason"]) == ("operator", "olga", "because")
    assert (event["action"], event["object_id"]) == ("user.edit", 1)
    assert event["before"] == {"name": "Anna", "free_quota": None, "organization_id": 1}
    assert event["after"] == {"name": "Anne", "free_quota": 9, "organization_id": 2}
    back = registry.do(edit_user, ANNA, UserEdit(default_free_quota=True))
    assert back.user.free_quota is None


def test_unchanged_values_leave_no_event(registry: Registry) -> None:
    before = registry.rows()
    registry.do(edit_user, ANNA, UserEdit(name="Anna", email=ANNA.upper()))
    registry.do(edit_platform_domain, DOMAIN, {"idn": True})
    after = registry.rows()
    # PostgreSQL's mark tells that the transactions were committed, which they were.
    assert {**after, "commit_marks": []} == {**before, "commit_marks": []}


def test_suspension_stops_registrations_until_it_is_lifted(registry: Registry) -> None:
    assert registry.do(suspend_user, ANNA, "spam").user.suspended_reason == "spam"
    with pytest.raises(AccountSuspended):
        registry.register(1, "gamma.example.test")
    assert registry.do(unsuspend_user, ANNA).user.suspended_at is None
    registry.register(1, "gamma.example.test")


def test_a_token_is_good_until_it_expires_or_is_revoked_and_is_stored_nowhere(registry: Registry) -> None:
    issued = registry.do(
        issue_token, ANNA, "t", scopes=["tickets:read", "account:read", "tickets:read"], expires_in_days=30
    )
    assert issued.token.scopes == ("account:read", "tickets:read")
    assert registry.use(lambda database: authenticate(database, issued.secret)).user.email == ANNA
    assert issued.secret.reveal() not in str(registry.rows())
    registry.pass_days(30)
    with pytest.raises(TokenExpired):
        registry.use(lambda database: authenticate(database, issued.secret))
    forever = registry.do(issue_token, ANNA, "forever")
    assert forever.token.scopes == SCOPES
    assert forever.token.expires_at is None
    registry.do(revoke_token, forever.token.id)
    with pytest.raises(TokenRevoked):
        registry.use(lambda database: authenticate(database, forever.secret))


# Platform domains

ZONE_FILE = """
$TTL 7200
@ 300 IN SOA a.ns.other.test. Host.other.test. 42 1 2 3 4
@ NS b.ns.other.test.
@ NS a.ns.other.test.
@ MX 10 Mail
www A 192.0.2.1
www AAAA 2001:db8::1
_sip._tcp SRV 0 5 5060 sip
*.wild TXT "two words" "and a \\"quote\\""
child NS ns.child
ns.child 60 A 192.0.2.53
"""


def test_an_adopted_zone_gives_its_settings_and_keeps_its_records(registry: Registry) -> None:
    said = {"retry_seconds": 77}
    added = registry.do(
        add_platform_domain, "Old.test.", said, names_held=list_names_held, zone_file=ZONE_FILE
    )
    domain = added.platform_domain
    assert domain.domain == "old.test"
    assert domain.apex_nameservers == ("a.ns.other.test", "b.ns.other.test")
    assert (domain.soa_mname, domain.soa_rname, domain.serial) == ("a.ns.other.test", "host.other.test", 42)
    assert (domain.refresh_seconds, domain.retry_seconds, domain.expire_seconds) == (1, 77, 3)
    assert (domain.negative_ttl_seconds, domain.apex_ttl_seconds) == (4, 7200)
    records = registry.read(list_zone_records, domain.id)
    assert added.adopted_records == len(records) == 7
    assert set(records) == {
        Record("old.test", "MX", 7200, "10 Mail.old.test."),
        Record("www.old.test", "A", 7200, "192.0.2.1"),
        Record("www.old.test", "AAAA", 7200, "2001:db8::1"),
        Record("_sip._tcp.old.test", "SRV", 7200, "0 5 5060 sip.old.test."),
        Record("*.wild.old.test", "TXT", 7200, '"two words" "and a \\"quote\\""'),
        Record("child.old.test", "NS", 7200, "ns.child.old.test."),
        Record("ns.child.old.test", "A", 60, "192.0.2.53"),
    }
    with pytest.raises(SubdomainUnavailable) as raised:
        registry.register(1, "child.old.test")
    assert raised.value.details["reason"] == "taken"


def test_a_change_of_the_apex_gives_the_zone_a_new_serial(registry: Registry) -> None:
    edited = registry.do(edit_platform_domain, DOMAIN, {"grace_days": 1})
    assert (edited.grace_days, edited.serial) == (1, 1)
    changed = {"apex_nameservers": ("NS.example.net.", "ns2.example.net")}
    edited = registry.do(edit_platform_domain, DOMAIN, changed)
    assert (edited.apex_nameservers, edited.serial) == (("ns.example.net", "ns2.example.net"), 2)
    registry.do(edit_platform_domain, DOMAIN, {"serial": 2**32 - 1})
    assert registry.do(edit_platform_domain, DOMAIN, {"refresh_seconds": 5}).serial == 1


def test_only_granted_organizations_see_a_restricted_platform_domain(registry: Registry) -> None:
    registry.do(edit_platform_domain, DOMAIN, {"restricted": True})
    with pytest.raises(PlatformDomainNotFound):
        registry.register(2, "bob.example.test")
    assert registry.do(grant_platform_domain, DOMAIN, "acme").changed
    count = len(registry.events())
    assert not registry.do(grant_platform_domain, DOMAIN, "Acme").changed
    assert len(registry.events()) == count
    registry.register(2, "bob.example.test")
    registry.do(revoke_platform_domain, DOMAIN, "2")
    with pytest.raises(PlatformDomainNotFound):
        registry.register(2, "bob2.example.test")


def test_an_offer_keeps_terms_that_are_not_given_and_can_be_withdrawn_and_offered_again(
    registry: Registry,
) -> None:
    first = registry.do(offer_mode, DOMAIN, "premium", price_credits=50)
    assert (first.renewal_price_credits, first.period_days) == (50, 365)
    second = registry.do(offer_mode, DOMAIN, "premium", renewal_price_credits=20, period_days=30)
    assert (second.price_credits, second.renewal_price_credits, second.period_days) == (50, 20, 30)
    assert registry.do(withdraw_offer, DOMAIN, "premium").withdrawn_at == registry.now
    again = registry.do(offer_mode, DOMAIN, "premium")
    assert (again.price_credits, again.renewal_price_credits, again.withdrawn_at) == (50, 20, None)
    assert registry.do(offer_mode, "1", "free").price_credits == 0


def test_only_granted_organizations_may_register_a_special_label(registry: Registry) -> None:
    registry.do(offer_mode, DOMAIN, "special", price_credits=5)
    listed = registry.do(set_label, DOMAIN, "Müller", "special", price_credits=0, organizations=["acme", "2"])
    assert (listed.label, listed.organization_ids) == ("xn--mller-kva", (2,))
    with pytest.raises(SubdomainUnavailable):
        registry.register(1, "müller.example.test")
    registry.register(2, "müller.example.test")
    assert registry.do(unset_label, DOMAIN, "MÜLLER") == listed
    assert registry.events()[-1]["before"]["label_class"] == "special"


# Credits


def _balance(registry: Registry, email: str = ANNA) -> int:
    return registry.read(lambda tx: find_balance(tx, find_user(tx, email).id))


def test_movements_have_references_that_say_what_they_are_and_sum_up(registry: Registry) -> None:
    registry.do(grant_credits, ANNA, 5, "again")
    registry.do(adjust_credits, ANNA, -7, "error")
    registry.do(adjust_credits, ANNA, 2)
    registry.do(refund_charge, 2, 4, "half a year")
    package = registry.do(add_package, "Small", 10, "009.9", "eur")
    assert (package.price, package.currency) == ("9.90", "EUR")
    registry.do(retire_package, package.id)
    registry.do(record_payment, ANNA, PaymentMade("bank-1", package_id=package.id))
    registry.do(record_payment, BOB, PaymentMade("bank-2", credits=3, amount="3", currency="EUR"))
    history = registry.read(list_payments, 1, 100, None)
    assert [(each.credits, each.reference) for each in reversed(history)][2:] == [
        (5, "grant:1:2"),
        (-7, "adjustment:1:1"),
        (2, "adjustment:1:2"),
        (4, "refund:2"),
        (10, "payment:bank-1"),
    ]
    assert (history[0].kind, history[0].amount, history[0].currency) == ("purchase", "9.90", "EUR")
    assert history[1].subdomain == BETA
    assert _balance(registry) == 100 - 10 + 5 - 7 + 2 + 4 + 10 == history[0].balance_after
    assert registry.read(check_ledger) == []


def test_the_reference_of_a_payment_counts_once_for_all_users(registry: Registry) -> None:
    made = PaymentMade("bank-1", credits=3, amount="3.00", currency="EUR")
    registry.do(record_payment, ANNA, made)
    with pytest.raises(Conflict):
        registry.do(record_payment, BOB, made)
    assert _balance(registry, BOB) == 0


def test_a_coupon_is_stored_as_it_is_worded(registry: Registry) -> None:
    until = registry.now + timedelta(days=1)
    terms = CouponTerms(
        fixed_credits=3,
        max_uses=2,
        valid_until=until,
        action="renew",
        domain=DOMAIN,
        registration_mode="plus",
    )
    coupon = registry.do(add_coupon, " spring ", terms)
    assert (coupon.code, coupon.kind, coupon.value, coupon.uses) == ("SPRING", "fixed", 3, 0)
    assert (coupon.valid_until, coupon.action, coupon.platform_domain_id) == (until, "renew", 1)


# Subdomains


def test_a_suspended_name_leaves_the_dns_and_comes_back(registry: Registry) -> None:
    held = registry.do(suspend, "ALPHA.example.test.", "phishing")
    assert derive_status(held, registry.now) == "suspended"
    assert (held.suspended_reason, held.generation) == ("phishing", 2)
    freed = registry.do(unsuspend, "1")
    assert (freed.suspended_at, freed.suspended_reason, freed.generation) == (None, None, 3)
    assert freed.delegation.nameservers == ("ns1.example.org", "ns2.example.org")
    assert registry.do(suspend, BETA).generation == 0


def test_the_operator_restores_without_extending(registry: Registry) -> None:
    before = registry.read(find_for_operator, ALPHA)
    _trash(registry, ALPHA)
    registry.pass_days(20)
    restored = registry.do(operator_restore, ALPHA)
    assert (restored.trashed_at, restored.expires_at) == (None, before.expires_at)
    assert restored.generation == before.generation + 2


def test_the_operator_does_not_restore_what_the_sweep_would_take_at_once(registry: Registry) -> None:
    registry.pass_days(365 + 30)
    _trash(registry, ALPHA)
    before = registry.rows()
    with pytest.raises(Conflict, match="grace is over"):
        registry.do(operator_restore, ALPHA)
    assert registry.rows() == before


def test_a_purged_name_shows_nothing_of_its_owner_and_cools_off(registry: Registry) -> None:
    _trash(registry, ALPHA)
    purged = registry.do(purge, ALPHA)
    assert (purged.purged_at, purged.released_at) == (registry.now, None)
    assert purged.delegation == Delegation()
    before = registry.rows()
    for attempt in (purge, suspend, unsuspend, operator_restore):
        with pytest.raises(Conflict, match="purged"):
            registry.do(attempt, ALPHA)
    assert registry.rows() == before
    with pytest.raises(SubdomainUnavailable) as raised:
        registry.register(2, ALPHA)
    assert raised.value.details["reason"] == "cooling_off"


def test_a_name_is_released_only_when_the_dns_is_known_to_have_nothing_of_it(registry: Registry) -> None:
    _trash(registry, ALPHA)
    before = registry.rows()
    with pytest.raises(Conflict, match="not published"):
        registry.do(purge, ALPHA, release=True)
    assert registry.rows() == before
    _publish(registry, 1)
    released = registry.do(purge, ALPHA, release=True)
    assert released.purged_at == released.released_at == registry.now
    assert released.delegation == Delegation()
    assert released.generation == released.published_generation
    assert [each["action"] for each in registry.events()[-2:]] == ["subdomain.purge", "subdomain.release"]
    registry.register(2, ALPHA)
    with pytest.raises(Conflict, match="purged already"):
        registry.do(purge, "1", release=True)


def test_a_purged_name_can_be_released_later(registry: Registry) -> None:
    _trash(registry, BETA)
    registry.do(purge, BETA)
    assert registry.do(purge, BETA, release=True).released_at == registry.now
    registry.register(2, BETA, "free")
