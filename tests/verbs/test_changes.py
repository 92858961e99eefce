"""What a registrant does with a name it holds: change, retry, renew, delete, restore; on both engines (spec, part 4)."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from sublet.accounts.suspend_user import suspend_user
from sublet.audit import audit_events
from sublet.credits.model import Outcome, Payable
from sublet.db import Tx
from sublet.dns.types import Delegation, DsRecord, GlueEntry, GlueInput
from sublet.errors import (
    AccountSuspended,
    Conflict,
    FreeQuotaExceeded,
    InsufficientCredits,
    InsufficientScope,
    NameserverRequired,
    PaymentConfirmationRequired,
    PriceChanged,
    RateLimited,
    Refusal,
    RenewalNotAvailable,
    RetryNotAvailable,
    SubdomainNotFound,
    SubdomainSuspended,
    ValidationFailed,
)
from sublet.platform_domains.offers import withdraw_offer
from sublet.platform_domains.platform_domain import edit_platform_domain
from sublet.subdomains import store
from sublet.subdomains.delete import delete
from sublet.subdomains.evidence import evidence_of
from sublet.subdomains.lifecycle import allowed_actions, derive_status, renewal_available
from sublet.subdomains.list_store import list_all
from sublet.subdomains.model import Subdomain, SubdomainFilter, UpdateNameservers
from sublet.subdomains.renew import renew
from sublet.subdomains.restore import restore
from sublet.subdomains.retry import retry
from sublet.subdomains.suspend import suspend
from sublet.subdomains.unsuspend import unsuspend
from sublet.subdomains.update_nameservers import update_nameservers
from support.registry import FREE_QUOTA, OPERATOR, START, Registry

SHOP = "shop.example.test"
GLUE = GlueInput("ns1.shop.example.test", "203.0.114.5", None)
DS = "2371 13 2 " + "0a" * 32
PAID = Payable(confirm=True)


def change(registry: Registry, identifier: str = SHOP, name: str = "ann", **members: Any) -> Outcome:
    return registry.write(update_nameservers, registry.actor(name), identifier, UpdateNameservers(**members))


def _events(registry: Registry) -> int:
    return registry.read(
        lambda tx: tx.connection.execute(select(func.count()).select_from(audit_events)).scalar_one()
    )


def _delegated(registry: Registry) -> Subdomain:
    return registry.register(
        SHOP, nameservers=("ns1.example.org", "ns1.shop.example.test"), glue=(GLUE,), ds_records=(DS,)
    )


# The refusals that all of them share, and their order

VERBS: dict[str, Callable[[Registry, str, str], Outcome]] = {
    "update_nameservers": lambda registry, name, identifier: change(
        registry, identifier, name, nameservers=("-",)
    ),
    "retry": lambda registry, name, identifier: registry.write(retry, registry.actor(name), identifier),
    "renew": lambda registry, name, identifier: registry.write(
        renew, registry.actor(name), identifier, Payable()
    ),
    "delete": lambda registry, name, identifier: registry.write(delete, registry.actor(name), identifier),
    "restore": lambda registry, name, identifier: registry.write(
        restore, registry.actor(name), identifier, Payable(), free_quota=0
    ),
}


@pytest.mark.parametrize("verb", VERBS)
def test_what_every_verb_refuses_first(registry: Registry, verb: str) -> None:
    held = _delegated(registry)
    call = VERBS[verb]
    for identifier in ("other.example.test", "99", "", "a..b", str(2**70), "\x00"):
        with registry.refuses(SubdomainNotFound) as missing:
            call(registry, "ann", identifier)
    for identifier in (SHOP, str(held.id)):
        with registry.refuses(SubdomainNotFound) as foreign:
            call(registry, "ben", identifier)
        assert (foreign[0].message, foreign[0].details) == (missing[0].message, missing[0].details)
    registry.write(suspend, OPERATOR, SHOP, "phishing")
    with registry.refuses(SubdomainSuspended) as held_back:
        call(registry, "ann", SHOP)
    assert "phishing" in held_back[0].message
    registry.write(suspend_user, OPERATOR, "ann@example.org", None)
    for identifier in (SHOP, "other.example.test"):
        with registry.refuses(AccountSuspended):
            call(registry, "ann", identifier)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "restore"])
def test_what_is_in_the_trash_is_gone_but_for_its_owner_s_hint(registry: Registry, verb: str) -> None:
    _delegated(registry)
    registry.write(delete, registry.actor(), SHOP)
    with registry.refuses(SubdomainNotFound) as own:
        VERBS[verb](registry, "ann", SHOP)
    assert own[0].details == {"in_trash": True, "restorable_until": START + timedelta(days=30)}
    with registry.refuses(SubdomainNotFound) as foreign:
        VERBS[verb](registry, "ben", SHOP)
    assert foreign[0].details == {}
    registry.advance(days=30)
    with registry.refuses(SubdomainNotFound) as over:
        VERBS[verb](registry, "ann", SHOP)
    assert over[0].details == {}


@pytest.mark.parametrize("identifier", ["SHOP.Example.test.", "shop.example.test"])
def test_a_name_is_found_in_any_form(registry: Registry, identifier: str) -> None:
    held = _delegated(registry)
    assert change(registry, identifier, nameservers=("ns2.example.org",)).id == held.id


# Changing nameservers


def test_what_is_left_out_is_kept_and_glue_of_hosts_that_are_gone_goes(registry: Registry) -> None:
    held = _delegated(registry)
    change(registry, nameservers=("ns2.example.org", "ns1.example.org"))
    changed = registry.subdomain(held.id)
    assert changed.delegation.nameservers == ("ns2.example.org", "ns1.example.org")
    assert changed.delegation.glue == ()
    assert changed.delegation.ds_records == (DsRecord(2371, 13, 2, "0a" * 32),)
    assert changed.generation == 2


def test_each_member_changes_alone(registry: Registry) -> None:
    held = _delegated(registry)
    change(registry, glue=(replace(GLUE, ipv4=None, ipv6="2a00::1"),))
    assert registry.subdomain(held.id).delegation.glue == (GlueEntry(GLUE.host, None, "2a00::1"),)
    change(registry, ds_records=())
    found = registry.subdomain(held.id)
    assert (found.delegation.ds_records, len(found.delegation.nameservers), found.generation) == ((), 2, 3)


def test_clearing_the_nameservers_needs_the_ds_records_cleared_too(registry: Registry) -> None:
    held = _delegated(registry)
    with registry.refuses(ValidationFailed) as caught:
        change(registry, nameservers=())
    assert [each.code for each in caught[0].errors] == ["ds_without_nameservers"]
    change(registry, nameservers=(), ds_records=())
    assert registry.subdomain(held.id).delegation == Delegation()


def test_a_name_is_inactive_once_the_removal_of_its_delegation_is_confirmed(registry: Registry) -> None:
    held = _delegated(registry)
    registry.publish()
    change(registry, nameservers=(), ds_records=())

    def found() -> tuple[str, str | None, list[str]]:
        name = registry.subdomain(held.id)
        status = derive_status(name, registry.now)
        listed = [
            each
            for each in ("inactive", "provisioning", "failed")
            if registry.read(list_all, SubdomainFilter(status=each), 10)
        ]
        assert status == evidence_of(name, registry.now)["status"]
        actions = allowed_actions(name, registry.now, user_suspended=False, quota_left=True)
        assert actions == ("update_nameservers", "set_auto_renew", "delete")
        return status, name.provision_error, listed

    assert found() == ("provisioning", None, ["provisioning"])
    registry.publish(error="refused")
    assert found() == ("failed", "refused", ["failed"])
    with registry.refuses(NameserverRequired) as caught:
        registry.write(retry, registry.actor(), SHOP)
    assert "retried automatically" in caught[0].message
    registry.advance(minutes=1)
    assert registry.publish() == [held.id]  # without a request of the user
    assert found() == ("inactive", None, ["inactive"])
    # The same holds on the way back from the trash and from a suspension.
    registry.write(delete, registry.actor(), SHOP)
    registry.write(restore, registry.actor(), SHOP, Payable(), free_quota=FREE_QUOTA)
    assert found() == ("provisioning", None, ["provisioning"])
    registry.write(suspend, OPERATOR, SHOP)
    registry.publish(error="refused")
    assert derive_status(registry.subdomain(held.id), registry.now) == "suspended"
    registry.write(unsuspend, OPERATOR, SHOP)
    assert found() == ("provisioning", None, ["provisioning"])
    registry.publish()
    assert found() == ("inactive", None, ["inactive"])
    assert registry.doctor() == []


def test_a_name_that_never_had_nameservers_is_inactive_at_once(registry: Registry) -> None:
    held = registry.register(SHOP)
    assert derive_status(held, registry.now) == "inactive"
    change(registry, nameservers=())
    registry.write(delete, registry.actor(), SHOP)
    registry.write(restore, registry.actor(), SHOP, Payable(), free_quota=FREE_QUOTA)
    assert derive_status(registry.subdomain(held.id), registry.now) == "inactive"


def test_the_same_delegation_again_changes_nothing(registry: Registry) -> None:
    held = _delegated(registry)
    registry.publish()
    before = registry.dump()
    assert change(registry, nameservers=("NS1.example.org.", "ns1.shop.example.test")) == Outcome(held.id)
    assert change(registry) == Outcome(held.id)
    assert registry.dump() == before


def test_the_same_delegation_after_a_failure_is_tried_again(registry: Registry) -> None:
    held = _delegated(registry)
    registry.publish(error="refused")
    change(registry)
    found = registry.subdomain(held.id)
    assert (found.generation, found.provision_error, found.attempts, found.next_attempt_at) == (
        2,
        None,
        0,
        None,
    )


def test_all_wrong_members_are_told(registry: Registry) -> None:
    _delegated(registry)
    with registry.refuses(ValidationFailed) as caught:
        change(registry, nameservers=("-", "ns1.example.org"), ds_records=("x",))
    assert [each.code for each in caught[0].errors] == ["nameserver_invalid", "ds_invalid"]


def test_a_change_may_not_close_a_cycle(registry: Registry) -> None:
    _delegated(registry)
    registry.register("two.example.test", nameservers=("ns.shop.example.test",))
    with registry.refuses(ValidationFailed) as caught:
        change(registry, nameservers=("ns.two.example.test",), ds_records=())
    assert [each.code for each in caught[0].errors] == ["nameserver_cycle"]


# Retrying


def test_a_retry_needs_a_nameserver_then_a_failure(registry: Registry) -> None:
    held = registry.register(SHOP)
    with registry.refuses(NameserverRequired):
        registry.write(retry, registry.actor(), SHOP)
    change(registry, nameservers=("ns1.example.org",))
    with registry.refuses(RetryNotAvailable):  # waiting is no failure
        registry.write(retry, registry.actor(), SHOP)
    registry.publish(error="refused")
    assert derive_status(registry.subdomain(held.id), registry.now) == "failed"
    assert registry.publish() == []  # its back-off runs
    registry.write(retry, registry.actor(), SHOP)
    assert derive_status(registry.subdomain(held.id), registry.now) == "provisioning"
    assert registry.publish() == [held.id]
    with registry.refuses(RetryNotAvailable):
        registry.write(retry, registry.actor(), SHOP)


def test_a_failure_to_clear_the_nameservers_needs_a_nameserver_first(registry: Registry) -> None:
    _delegated(registry)
    registry.publish()
    change(registry, nameservers=(), ds_records=())
    registry.publish(error="refused")
    with registry.refuses(NameserverRequired):
        registry.write(retry, registry.actor(), SHOP)


# Renewing


def test_renewal_opens_with_its_window_and_counts_from_the_old_expiry(registry: Registry) -> None:
    held = registry.register(SHOP, registration_mode="plus")
    opens_at = START + timedelta(days=305)
    registry.now = opens_at - timedelta(microseconds=1)
    assert not renewal_available(registry.subdomain(held.id), registry.now)
    with registry.refuses(RenewalNotAvailable) as caught:
        registry.write(renew, registry.actor(), SHOP, PAID)
    told = {"opens_at": opens_at, "expires_at": held.expires_at, "last_renewed_at": None}
    assert caught[0].details == told
    registry.now = opens_at
    assert registry.write(renew, registry.actor(), SHOP, PAID) == Outcome(held.id, 11)
    renewed = registry.subdomain(held.id)
    assert renewed.expires_at == START + timedelta(days=730)
    assert (renewed.last_renewed_at, renewed.generation) == (opens_at, 0)
    assert registry.balance() == 100 - 10 - 11
    with registry.refuses(RenewalNotAvailable):  # a repeated request is not charged again
        registry.write(renew, registry.actor(), SHOP, PAID)
    assert registry.doctor() == []


def test_an_expired_name_is_renewed_from_its_old_expiry(registry: Registry) -> None:
    held = registry.register(SHOP)
    registry.advance(days=380)
    assert registry.write(renew, registry.actor(), SHOP, Payable()) == Outcome(held.id)
    assert registry.subdomain(held.id).expires_at == START + timedelta(days=730)


@pytest.mark.parametrize("after", [-1, 0, 1])
def test_a_renewal_at_the_second_of_expiry_counts_from_it(registry: Registry, after: int) -> None:
    held = registry.register(SHOP, registration_mode="plus")
    assert held.expires_at is not None
    registry.now = held.expires_at + timedelta(microseconds=after)
    assert registry.write(renew, registry.actor(), SHOP, PAID) == Outcome(held.id, 11)
    assert registry.subdomain(held.id).expires_at == START + timedelta(days=730)
    with registry.refuses(RenewalNotAvailable):
        registry.write(renew, registry.actor(), SHOP, PAID)
    assert registry.balance() == 100 - 10 - 11
    assert registry.doctor() == []


def test_a_name_of_a_withdrawn_offer_is_renewed_at_its_renewal_price(registry: Registry) -> None:
    held = registry.register(SHOP, registration_mode="plus")
    registry.write(withdraw_offer, OPERATOR, "example.test", "plus")
    registry.write(
        edit_platform_domain,
        OPERATOR,
        "example.test",
        {"hidden": True, "registration_open": False},
    )
    registry.advance(days=310)
    assert registry.write(renew, registry.actor(), SHOP, PAID) == Outcome(held.id, 11)


def _payable(**members: Any) -> Callable[[Payable], Payable]:
    return lambda payable: replace(payable, **members)


# From the last fault to the first, each added to those before it.
PRICE_FAULTS: list[tuple[type[Refusal], Callable[[Payable], Payable]]] = [
    (InsufficientCredits, lambda payable: payable),
    (PriceChanged, _payable(max_credits=10)),
    (InsufficientScope, _payable(may_spend=False)),
    (PaymentConfirmationRequired, _payable(confirm=False)),
    (ValidationFailed, _payable(coupon_code="NONE")),
]


@pytest.mark.parametrize("count", range(1, len(PRICE_FAULTS) + 1))
@pytest.mark.parametrize("verb", ["renew", "restore"])
def test_of_several_faults_of_a_price_the_first_is_told(registry: Registry, verb: str, count: int) -> None:
    registry.grant("ben", 10)
    held = registry.register(SHOP, "ben", registration_mode="plus")
    payable = PAID
    for _, more in PRICE_FAULTS[:count]:
        payable = more(payable)
    registry.now = held.expires_at
    if verb == "renew":
        with registry.refuses(PRICE_FAULTS[count - 1][0]):
            registry.write(renew, registry.actor("ben"), SHOP, payable)
        registry.now = START
        with registry.refuses(RenewalNotAvailable):
            registry.write(renew, registry.actor("ben"), SHOP, payable)
    else:
        registry.write(delete, registry.actor("ben"), SHOP)
        with registry.refuses(PRICE_FAULTS[count - 1][0]):
            registry.write(restore, registry.actor("ben"), SHOP, payable, free_quota=FREE_QUOTA)


# Deleting and restoring


def test_a_deleted_name_leaves_the_zone_and_comes_back_as_it_was(registry: Registry) -> None:
    held = _delegated(registry)
    registry.publish()
    assert registry.write(delete, registry.actor(), str(held.id)) == Outcome(held.id)
    trashed = registry.subdomain(held.id)
    assert (trashed.trashed_at, trashed.generation, trashed.delegation) == (START, 2, held.delegation)
    registry.publish()
    assert registry.doctor() == []
    registry.advance(days=29)
    assert registry.write(restore, registry.actor(), SHOP, Payable(), free_quota=FREE_QUOTA) == Outcome(
        held.id
    )
    back = registry.subdomain(held.id)
    assert (back.trashed_at, back.delegation, back.expires_at) == (None, held.delegation, held.expires_at)
    registry.publish()
    assert derive_status(registry.subdomain(held.id), registry.now) == "active"
    assert registry.doctor() == []


def test_a_name_that_was_never_published_goes_without_the_publisher(registry: Registry) -> None:
    registry.register(SHOP)
    registry.write(delete, registry.actor(), SHOP)
    assert registry.publish() == []


def test_what_is_not_in_the_trash_is_not_restored(registry: Registry) -> None:
    registry.register(SHOP)
    with registry.refuses(Conflict):
        registry.write(restore, registry.actor(), SHOP, Payable(), free_quota=0)


def test_a_free_name_beyond_the_quota_is_not_restored(registry: Registry) -> None:
    registry.register(SHOP)
    registry.write(delete, registry.actor(), SHOP)
    for index in range(FREE_QUOTA):
        registry.register(f"n{index}.example.test")
    with registry.refuses(FreeQuotaExceeded) as caught:
        registry.write(restore, registry.actor(), SHOP, Payable(coupon_code="NONE"), free_quota=FREE_QUOTA)
    assert caught[0].details == {"limit": FREE_QUOTA, "used": FREE_QUOTA}


def test_the_trash_ends_at_its_second(registry: Registry) -> None:
    registry.register(SHOP)
    registry.write(delete, registry.actor(), SHOP)
    registry.now = START + timedelta(days=30)
    with registry.refuses(SubdomainNotFound):
        registry.write(restore, registry.actor(), SHOP, Payable(), free_quota=FREE_QUOTA)
    registry.now -= timedelta(microseconds=1)
    registry.write(restore, registry.actor(), SHOP, Payable(), free_quota=FREE_QUOTA)


def test_a_name_whose_time_is_over_is_restored_with_a_renewal(registry: Registry) -> None:
    held = registry.register(SHOP, registration_mode="plus")
    registry.now = held.expires_at - timedelta(microseconds=1)
    registry.write(delete, registry.actor(), SHOP)
    registry.now = held.expires_at
    with registry.refuses(PaymentConfirmationRequired) as caught:
        registry.write(restore, registry.actor(), SHOP, Payable(), free_quota=FREE_QUOTA)
    assert (caught[0].quote.action, caught[0].quote.price) == ("restore", 11)
    registry.write(restore, registry.actor(), SHOP, PAID, free_quota=FREE_QUOTA)
    back = registry.subdomain(held.id)
    assert (back.trashed_at, back.expires_at) == (None, START + timedelta(days=730))
    assert registry.balance() == 100 - 10 - 11
    assert registry.doctor() == []


def test_a_suspended_name_stands_as_it_was_once_it_is_let_go(registry: Registry) -> None:
    held = _delegated(registry)
    registry.publish()
    registry.write(suspend, OPERATOR, SHOP, None)
    registry.publish()
    registry.write(unsuspend, OPERATOR, SHOP)
    registry.publish()
    assert derive_status(registry.subdomain(held.id), registry.now) == "active"
    assert registry.doctor() == []


# Whatever is done leaves an event


def test_every_change_is_one_event(registry: Registry) -> None:
    held = _delegated(registry)
    registry.publish(error="refused")

    def fail_then_retry(tx: Tx) -> None:
        store.update_subdomain(tx, held.id, provision_error="refused")
        retry(tx, registry.actor(), SHOP)

    steps: list[Callable[[], object]] = [
        lambda: change(registry, nameservers=("ns2.example.org",)),
        lambda: registry.write(delete, registry.actor(), SHOP),
        lambda: registry.write(restore, registry.actor(), SHOP, Payable(), free_quota=FREE_QUOTA),
        lambda: registry.write(fail_then_retry),
    ]
    for step in steps:
        before = _events(registry)
        step()
        assert _events(registry) == before + 1
    registry.advance(days=310)
    before = _events(registry)
    registry.write(renew, registry.actor(), SHOP, Payable())
    assert _events(registry) == before + 1


# How often


def test_a_name_takes_only_so_many_changes_in_a_day(registry: Registry) -> None:
    _delegated(registry)
    registry.register("other.example.test")

    def put(identifier: str, number: int, name: str = "ann") -> Outcome:
        command = UpdateNameservers((f"ns{number}.example.org",), glue=())
        return registry.write(
            update_nameservers, registry.actor(name), identifier, command, changes_per_day=3
        )

    for number in range(3):
        put(SHOP, number)
        registry.advance(hours=1)
    with registry.refuses(RateLimited) as limited:
        put(SHOP, 3)
    assert limited[0].retry_after_seconds == 21 * 3600
    put(SHOP, 2)  # what is so already is no change
    put("other.example.test", 3)  # each name by itself
    registry.advance(hours=21)
    put(SHOP, 3)
    with registry.refuses(RateLimited) as again:
        put(SHOP, 4)
    assert again[0].retry_after_seconds == 3600
    registry.advance(days=-40)  # a clock that was set back
    with registry.refuses(RateLimited) as back:
        put(SHOP, 4)
    assert back[0].retry_after_seconds == 24 * 3600


def test_a_limit_of_none_is_none(registry: Registry) -> None:
    _delegated(registry)
    for number in range(5):
        change(registry, nameservers=(f"ns{number}.example.org",), glue=())
