"""Registering a name (spec, part 4); on both databases."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from sublet import audit
from sublet.accounts.users import suspend_user
from sublet.audit import audit_events
from sublet.credits.model import AppliedCoupon, Payable
from sublet.credits.store import coupon_uses, list_entries
from sublet.db import Tx, together
from sublet.dns.types import Delegation, GlueEntry, Record
from sublet.errors import (
    AccountSuspended,
    Conflict,
    FreeQuotaExceeded,
    InsufficientCredits,
    InsufficientScope,
    NotFound,
    PaymentConfirmationRequired,
    PlatformDomainNotFound,
    PriceChanged,
    Refusal,
    RegistrationClosed,
    RegistrationModeNotAllowed,
    SubdomainUnavailable,
    ValidationFailed,
)
from sublet.platform_domains import zone_store
from sublet.platform_domains.labels import set_label
from sublet.platform_domains.offers import withdraw_offer
from sublet.platform_domains.platform_domain import edit_platform_domain, grant_platform_domain
from sublet.platform_domains.store import find_platform_domain
from sublet.structs import replace
from sublet.subdomains.delete import delete
from sublet.subdomains.model import OperatorPermission, Register, Registered
from sublet.subdomains.purge import purge
from sublet.subdomains.register import register
from sublet.subdomains.renew import renew
from sublet.subdomains.store import insert_term
from support.dangling_delegations import store_unchecked
from support.registry import FREE_QUOTA, OPERATOR, START, Registry
from support.statements import recorded_statements

PAID = Register(
    fqdn="shop.example.test",
    registration_mode="plus",
    payable=Payable(confirm=True),
    nameservers=("ns1.example.org",),
)


def ask(registry: Registry, command: Register, name: str = "ann") -> Registered:
    return registry.write(register, registry.actor(name), command, free_quota=FREE_QUOTA)


def edit(registry: Registry, domain: str = "example.test", **settings: Any) -> None:
    registry.write(edit_platform_domain, OPERATOR, domain, settings)


def test_a_name_is_registered_with_its_term_and_its_event(registry: Registry) -> None:
    registry.move()
    command = Register(
        label="Shop",
        domain="EXAMPLE.test.",
        nameservers=("NS1.Example.ORG.", "ns1.shop.example.test"),
        glue=(GlueEntry("ns1.shop.example.test", "203.0.114.5", None),),
    )
    outcome = ask(registry, command)
    found = registry.subdomain(outcome.id)
    platform_domain = registry.read(find_platform_domain, registry.domains["example.test"])
    assert platform_domain is not None
    expected = Registered(found.id, subdomain=found, platform_domain=platform_domain, warnings=())
    assert outcome == expected
    assert (found.fqdn, found.label, found.registration_type) == ("shop.example.test", "shop", "free")
    assert (found.user_id, found.registration_source) == (registry.users["ann"], "api")
    assert found.delegation == Delegation(
        ("ns1.example.org", "ns1.shop.example.test"),
        (GlueEntry("ns1.shop.example.test", "203.0.114.5", None),),
    )
    assert (found.generation, found.published_generation) == (1, 0)
    assert found.registered_at == found.created_at == START
    assert found.expires_at == START + timedelta(days=365)
    events = registry.read(
        lambda tx: tx.connection.execute(
            select(
                audit_events.c.actor_kind,
                audit_events.c.user_id,
                audit_events.c.request_id,
                audit_events.c.after,
            ).where(audit_events.c.action == "subdomain.register")
        ).all()
    )
    ((kind, user_id, request_id, after),) = events
    assert (kind, user_id, request_id) == ("user", registry.users["ann"], "r-1")
    assert after["fqdn"] == "shop.example.test"
    assert registry.balance() == 100
    registry.publish()
    assert registry.doctor() == []


def test_a_paid_name_is_charged_once_with_its_coupon(registry: Registry) -> None:
    registry.add_coupon()
    command = replace(PAID, payable=Payable(confirm=True, coupon_code=" spring", max_credits=7))
    outcome = ask(registry, command)
    assert outcome.charged_credits == 7
    assert outcome.coupon == AppliedCoupon("SPRING", "percent", 30, 3)
    assert registry.balance() == 93
    payment = registry.read(list_entries, registry.users["ann"], 1)[0]
    assert (payment.kind, payment.credits, payment.balance_after) == ("charge", -7, 93)
    assert payment.subdomain == "shop.example.test"
    uses = registry.read(
        lambda tx: tx.connection.execute(select(coupon_uses.c.discount_credits)).scalars().all()
    )
    assert uses == [3]
    registry.publish()


def test_a_label_has_its_own_class_and_price(registry: Registry) -> None:
    registry.write(set_label, OPERATOR, "example.test", "shop", "premium", price_credits=60)
    outcome = ask(registry, replace(PAID, registration_mode=None))
    assert (outcome.subdomain.registration_type, outcome.charged_credits) == ("premium", 60)


def test_a_name_in_the_trash_does_not_count_against_the_quota(registry: Registry) -> None:
    first = registry.register("n0.example.test")
    registry.register("n1.example.test")
    registry.write(delete, registry.actor(), str(first.id))
    assert registry.register("n2.example.test").registration_type == "free"


# The order of refusals


def _suspend(registry: Registry) -> None:
    registry.write(suspend_user, OPERATOR, "ben@example.org", None)


def _take(registry: Registry) -> None:
    registry.register("shop.example.test")


Fault = tuple[type[Refusal], Callable[[Registry], None] | None, Callable[[Register], Register]]


def _payable(**members: Any) -> Callable[[Register], Register]:
    return lambda command: replace(command, payable=replace(command.payable, **members))


# The faults are added from the last check to the first. Each is reported instead of the faults that were
# added before.
FAULTS: list[Fault] = [
    (InsufficientCredits, None, lambda command: command),
    (PriceChanged, None, _payable(max_credits=9)),
    (InsufficientScope, None, _payable(may_spend=False)),
    (PaymentConfirmationRequired, None, _payable(confirm=False)),
    (RegistrationModeNotAllowed, None, lambda command: replace(command, registration_mode="premium")),
    (SubdomainUnavailable, _take, lambda command: command),
    (ValidationFailed, None, lambda command: replace(command, nameservers=("-",))),
    (
        RegistrationClosed,
        lambda registry: edit(registry, registration_open=False),
        lambda command: command,
    ),
    (PlatformDomainNotFound, lambda registry: edit(registry, hidden=True), lambda command: command),
    (AccountSuspended, _suspend, lambda command: command),
]


def test_errors_are_checked_in_order(registry: Registry) -> None:
    command = PAID
    for refusal, prepare, change in FAULTS:
        if prepare:
            prepare(registry)
        command = change(command)
        with registry.refuses(refusal):
            ask(registry, command, "ben")


# Wrong fields


def test_all_invalid_fields_are_reported_together(registry: Registry) -> None:
    command = Register(domain="example.test", label="-", nameservers=("-",), registration_mode="gold")
    for wrong, fields in (
        (command, ["label", "nameservers[0]", "registration_mode"]),
        (
            replace(PAID, nameservers=("-",), payable=Payable(coupon_code="NONE")),
            ["nameservers[0]", "coupon_code"],
        ),
    ):
        with registry.refuses(ValidationFailed) as caught:
            ask(registry, wrong)
        assert [each.field for each in caught[0].errors] == fields


def test_two_platform_domains_of_one_request_are_refused(registry: Registry) -> None:
    registry.add_domain("other.test")
    command = Register(platform_domain_id=registry.domains["other.test"], domain="example.test", label="shop")
    with registry.refuses(ValidationFailed) as caught:
        ask(registry, command)
    assert [each.code for each in caught[0].errors] == ["fqdn_mismatch"]


def test_a_restricted_platform_domain_is_found_with_a_grant_only(registry: Registry) -> None:
    edit(registry, restricted=True)
    with registry.refuses(PlatformDomainNotFound) as restricted:
        ask(registry, Register(fqdn="shop.example.test"))
    with registry.refuses(PlatformDomainNotFound) as missing:
        ask(registry, Register(fqdn="shop.never.test"))
    assert restricted[0].message.replace("shop.example.test", "shop.never.test") == missing[0].message
    for command in (Register(platform_domain_id=99, label="shop"), Register(domain="no.test", label="shop")):
        with registry.refuses(PlatformDomainNotFound):
            ask(registry, command)
    registry.write(grant_platform_domain, OPERATOR, "example.test", str(registry.organizations["ann"]))
    assert registry.register("shop.example.test").fqdn == "shop.example.test"


def test_the_longest_visible_platform_domain_is_selected(registry: Registry) -> None:
    registry.add_domain("deep.example.test")
    assert registry.register("shop.deep.example.test").domain == "deep.example.test"
    edit(registry, "deep.example.test", hidden=True)
    with registry.refuses(ValidationFailed) as caught:
        ask(registry, Register(fqdn="two.deep.example.test"))
    assert [each.code for each in caught[0].errors] == ["label_invalid"]


# Unavailable names


def _reason(registry: Registry, fqdn: str = "shop.example.test", name: str = "ann") -> dict[str, Any]:
    with registry.refuses(SubdomainUnavailable) as caught:
        ask(registry, Register(fqdn=fqdn), name)
    return caught[0].details


def test_reserved_names_and_those_that_the_zone_has(registry: Registry) -> None:
    registry.write(set_label, OPERATOR, "example.test", "kept", "reserved")
    registry.write(set_label, OPERATOR, "example.test", "bad", "blocked")
    registry.add_domain("deep.shop.example.test")
    for label in ("www", "kept", "bad", "shop"):
        assert _reason(registry, f"{label}.example.test") == {"reason": "reserved", "owned": False}
    registry.add_domain("served.test", apex_nameservers=("a.hosts.served.test",))
    assert _reason(registry, "hosts.served.test") == {"reason": "reserved", "owned": False}
    record = Record("old.its.example.test", "A", 300, "192.0.2.1")
    registry.write(zone_store.insert_records, registry.domains["example.test"], [record])
    assert _reason(registry, "its.example.test") == {"reason": "taken", "owned": False}


def test_taken_then_in_the_trash_then_cooling_off_then_free(registry: Registry) -> None:
    held = registry.register("shop.example.test")
    assert _reason(registry) == {"reason": "taken", "owned": True}
    assert _reason(registry, name="ben") == {"reason": "taken", "owned": False}
    registry.write(delete, registry.actor(), str(held.id))
    assert _reason(registry) == {"reason": "in_trash", "owned": True}
    assert _reason(registry, name="ben") == {"reason": "in_trash", "owned": False}
    registry.write(purge, OPERATOR, "shop.example.test")
    assert _reason(registry) == {"reason": "cooling_off", "owned": False}
    registry.write(purge, OPERATOR, "shop.example.test", release=True)
    again = registry.register("shop.example.test", "ben")
    assert again.id != held.id


# Modes and labels


def test_a_withdrawn_offer_takes_no_new_names(registry: Registry) -> None:
    registry.write(withdraw_offer, OPERATOR, "example.test", "plus")
    with registry.refuses(RegistrationModeNotAllowed):
        ask(registry, PAID)
    registry.add_user("cat", free_quota=0)
    with registry.refuses(FreeQuotaExceeded) as caught:  # the user's own quota counts
        ask(registry, Register(fqdn="cat.example.test"), "cat")
    assert caught[0].details == {"limit": 0, "used": 0}


# Cycles


def test_nameservers_found_only_through_the_name_itself_are_refused(registry: Registry) -> None:
    one = registry.register("one.example.test")
    # Registries have such nameservers if they were stored before the rule existed.
    registry.write(store_unchecked, one, "ns.two.example.test")
    with registry.refuses(ValidationFailed) as caught:
        ask(registry, Register(fqdn="two.example.test", nameservers=("ns.one.example.test",)))
    assert [each.code for each in caught[0].errors] == ["nameserver_cycle"]
    registry.register("two.example.test", nameservers=("ns.one.example.test", "ns1.example.org"))


# The operator's registration (`sublet subdomain register`).


def test_the_operator_registers_without_price_and_quota(registry: Registry) -> None:
    for index in range(FREE_QUOTA):
        registry.register(f"n{index}.example.test")
    registry.write(set_label, OPERATOR, "example.test", "shop", "standard", price_credits=50)
    admin = registry.register_by_operator("shop.example.test", nameservers=("ns1.example.org",))
    assert (admin.registration_type, admin.registration_source) == ("admin", "operator")
    assert (admin.user_id, admin.expires_at) == (registry.users["ann"], START + timedelta(days=365))
    free = registry.register_by_operator("wiki.example.test", mode="free")
    plus = registry.register_by_operator("blog.example.test", mode="plus")
    assert (free.registration_type, plus.registration_type) == ("free", "plus")
    assert registry.balance() == 100
    registry.advance(days=340)
    renewed = registry.write(renew, registry.actor(), "blog.example.test", Payable(confirm=True))
    assert (renewed.charged_credits, registry.balance()) == (11, 89)


def test_the_operator_registers_reserved_labels_in_any_platform_domain(registry: Registry) -> None:
    edit(registry, hidden=True, restricted=True, registration_open=False)
    registry.write(set_label, OPERATOR, "example.test", "gold", "special")
    registry.write(set_label, OPERATOR, "example.test", "evil", "blocked")
    for label in ("login", "gold", "evil"):
        registry.register_by_operator(f"{label}.example.test")


REFUSED_TO_THE_OPERATOR: dict[str, tuple[type[Refusal], str, OperatorPermission]] = {
    "the name server's label": (SubdomainUnavailable, "ns1.example.test", OperatorPermission("1")),
    "taken": (SubdomainUnavailable, "held.example.test", OperatorPermission("1")),
    "mixed scripts": (SubdomainUnavailable, "g\u043e\u043egle.example.test", OperatorPermission("1")),
    "mode": (RegistrationModeNotAllowed, "shop.example.test", OperatorPermission("1", "gold")),
    "days": (ValidationFailed, "shop.example.test", OperatorPermission("1", days=0)),
    "label": (ValidationFailed, "a_b.example.test", OperatorPermission("1")),
    "two labels": (ValidationFailed, "a.b.example.test", OperatorPermission("1")),
    "platform domain": (PlatformDomainNotFound, "shop.example.org", OperatorPermission("1")),
    "no name": (PlatformDomainNotFound, "", OperatorPermission("1")),
    "user": (NotFound, "shop.example.test", OperatorPermission("carl@example.org")),
    "suspended": (Conflict, "shop.example.test", OperatorPermission("ben@example.org")),
}


def test_what_the_operator_is_refused(registry: Registry) -> None:
    registry.register("held.example.test")
    registry.write(suspend_user, OPERATOR, "ben@example.org")
    for refusal, fqdn, permission in REFUSED_TO_THE_OPERATOR.values():
        caught = registry.refused(
            refusal, register, OPERATOR, Register(fqdn=fqdn), free_quota=FREE_QUOTA, permission=permission
        )
        assert "PUT" not in caught.message


@pytest.mark.parametrize(
    ("command", "most"),
    [(Register(fqdn="shop.example.test"), 8), (replace(PAID, nameservers=()), 12), (PAID, 13)],
    ids=["free", "paid", "with a nameserver"],
)
def test_a_registration_takes_few_statements(registry: Registry, command: Register, most: int) -> None:
    registry.grant("ann", 20)
    registry.sweep()  # before the first sweep, the clock is compared with the newest event

    def recorded(tx: Tx) -> list[str]:
        with recorded_statements(of_this_thread=True) as texts:
            register(tx, registry.actor(), command, free_quota=FREE_QUOTA)
        return texts

    texts = registry.write(recorded)
    assert len(texts) <= most, texts


def test_the_first_error_of_statements_sent_together_is_raised(registry: Registry) -> None:
    held = registry.register("shop.example.test")

    def add(tx: Tx) -> None:
        at = held.expires_at
        with together(tx):
            insert_term(
                tx,
                subdomain_id=held.id,
                action="renew",
                starts_at=at,
                ends_at=at,
                charged_credits=0,
                transfer_id=None,
            )
            audit.record(tx, OPERATOR, "subdomain.renew", held.id)

    with pytest.raises(IntegrityError, match="ck_terms_order"):
        registry.write(add)
    assert registry.doctor() == []
