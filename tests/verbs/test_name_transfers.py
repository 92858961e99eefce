"""Transferring names between users: push, accept, decline, withdraw, expiry, and the objects that belong to a
name.
"""

from datetime import timedelta
from typing import Any

import pytest

from sublet.accounts.users import suspend_user, unsuspend_user
from sublet.audit import list_events
from sublet.errors import (
    AccountSuspended,
    Conflict,
    FreeQuotaExceeded,
    PlatformDomainNotFound,
    RateLimited,
    Refusal,
    SubdomainNotFound,
    SubdomainSuspended,
    SubdomainUnavailable,
    TransferNotFound,
    TransferPending,
    ValidationFailed,
)
from sublet.limits import TRANSFERS_OF_USER
from sublet.mail.store import list_mails
from sublet.platform_domains.labels import set_label
from sublet.platform_domains.platform_domain import grant_platform_domain
from sublet.registry.delete_user import delete_user
from sublet.structs import replace
from sublet.subdomains.delete import delete
from sublet.subdomains.edit_zone_settings import edit_zone_settings
from sublet.subdomains.store import update_subdomain
from sublet.subdomains.suspend import suspend, suspend_with_names, unsuspend
from sublet.subdomains.transfers import store
from sublet.subdomains.transfers.end import decline, withdraw
from sublet.subdomains.transfers.model import NameTransfer
from sublet.subdomains.transfers.move import accept, transfer
from sublet.subdomains.transfers.push import push
from support.registry import FREE_QUOTA, OPERATOR, Registry
from support.signing_in import texts_to

SHOP = "shop.example.test"
BEN = "ben@example.org"
URL = "https://names.example.net"


def offer(registry: Registry, name: str = SHOP, to: str | None = BEN, who: str = "ann") -> str:
    return str(registry.write(push, registry.actor(who), name, to, URL).id)


def take(registry: Registry, transfer_id: str, who: str = "ben", **restricted: Any) -> Any:
    actor = registry.actor(who)
    if restricted:
        actor = replace(actor, restrictions=replace(actor.restrictions, **restricted))
    return registry.write(accept, actor, transfer_id, free_quota=FREE_QUOTA)


def show(registry: Registry, transfer_id: str) -> NameTransfer:
    found = registry.read(store.find_transfer, int(transfer_id))
    assert found is not None
    return found


def state(registry: Registry, transfer_id: str) -> str:
    return show(registry, transfer_id).state_at(registry.now)


def mails(registry: Registry) -> list[tuple[str, str]]:
    found = registry.read(list_mails, waiting=False, user_id=None, limit=100)
    return [(each.recipient, each.subject) for each in found][::-1]


def test_a_name_moves_when_its_receiver_accepts(registry: Registry) -> None:
    held = registry.register(SHOP, nameservers=("ns1.example.org",))
    transfer_id = offer(registry, to=" Ben@Example.org ")
    assert registry.subdomain(held.id).user_id == registry.users["ann"]
    assert mails(registry) == [
        ("ann@example.org", f"You offered {SHOP} to {BEN}"),
        (BEN, "A name is offered to you"),
    ]
    (text,) = texts_to(registry, BEN)
    assert "the user ann[at]example[.]org of " in text
    assert "offers you the name shop[.]example[.]test." in text, "its holder chooses where the name leads"
    registry.advance(days=6)
    take(registry, transfer_id)
    moved = registry.subdomain(held.id)
    assert moved.user_id == registry.users["ben"]
    assert (moved.delegation, moved.expires_at) == (held.delegation, held.expires_at)
    found = show(registry, transfer_id)
    assert (found.stored_state, found.to_user_id, found.ended_at) == ("accepted", moved.user_id, registry.now)
    assert [to for to, _ in mails(registry)[2:]] == ["ann@example.org", BEN]
    (event,) = registry.read(list_events, "name_transfer", [int(transfer_id)], ["name_transfer.accept"])
    assert event.before == {"user_id": held.user_id}
    assert event.after == {"subdomain": SHOP, "user_id": moved.user_id}
    registry.refused(SubdomainNotFound, delete, registry.actor(), SHOP)
    registry.write(delete, registry.actor("ben"), SHOP)


def test_a_token_acts_only_on_transfers_of_its_names(registry: Registry) -> None:
    registry.register(SHOP)
    others = replace(registry.actor(), restrictions=replace(registry.actor().restrictions, names=("x.y",)))
    registry.refused(SubdomainNotFound, push, others, SHOP, BEN, URL)
    transfer_id = offer(registry)
    registry.refused(TransferNotFound, withdraw, others, transfer_id)
    with registry.refuses(TransferNotFound):
        take(registry, transfer_id, names=("other.example.test",))
    take(registry, transfer_id, names=("*.example.test",))
    own = replace(registry.actor(), restrictions=replace(registry.actor().restrictions, names=(SHOP,)))
    # the sender's token was for the name, which isn't the sender's now
    registry.refused(SubdomainNotFound, delete, own, SHOP)


def test_only_the_two_sides_see_a_transfer(registry: Registry) -> None:
    registry.register(SHOP)
    registry.register("late.example.test")
    transfer_id, late = offer(registry), offer(registry, "late.example.test", "carl@example.org")
    registry.add_user("carl")
    for verb, who in ((decline, "ann"), (withdraw, "ben"), (decline, "carl"), (withdraw, "carl")):
        registry.refused(TransferNotFound, verb, registry.actor(who), transfer_id)
    with registry.refuses(TransferNotFound):
        take(registry, transfer_id, "ann")
    for identifier in ("0", "777", "x", "01", late):
        with registry.refuses(TransferNotFound):
            take(registry, identifier)
    take(registry, late, "carl")


def test_decline_withdraw_and_expiry_end_it_and_the_name_can_be_offered_again(registry: Registry) -> None:
    held = registry.register(SHOP)
    declined = offer(registry)
    registry.write(decline, registry.actor("ben"), declined)
    assert mails(registry)[-1] == ("ann@example.org", f"Your offer of {SHOP} is declined")
    withdrawn = offer(registry)
    before = mails(registry)
    registry.write(withdraw, registry.actor(), withdrawn)
    assert mails(registry) == before
    expired = offer(registry)
    registry.advance(days=7)
    states = [state(registry, each) for each in (declined, withdrawn, expired)]
    assert states == ["declined", "withdrawn", "expired"]
    for each in (declined, withdrawn, expired):
        for verb, who in ((decline, "ben"), (withdraw, "ann")):
            refusals = (Conflict, TransferNotFound)
            with pytest.raises(refusals):
                registry.write(verb, registry.actor(who), each)
        with registry.refuses(Conflict):
            take(registry, each)
    again = offer(registry)  # the sweep has not stored the expiry yet
    assert show(registry, expired).stored_state == "expired"
    assert mails(registry)[-3] == ("ann@example.org", f"Your offer of {SHOP} is expired")
    registry.advance(days=7)
    registry.sweep()
    assert show(registry, again).stored_state == "expired"
    assert registry.subdomain(held.id).user_id == registry.users["ann"]
    assert registry.doctor() == []


def test_the_changes_that_end_a_pending_transfer(registry: Registry) -> None:
    """Deletion, suspension, the operator's transfer, the trash or the sender's deletion withdraws a pending
    transfer.
    """
    registry.add_user("carl", free_quota=9)
    names = [f"n{index}.example.test" for index in range(6)]
    for each in names:
        registry.register_by_operator(each, "carl", mode="free")
    ids = [offer(registry, each, who="carl") for each in names]
    registry.write(delete, registry.actor("carl"), names[0])
    registry.write(suspend, OPERATOR, names[1])
    registry.write(unsuspend, OPERATOR, names[1])
    registry.write(transfer, OPERATOR, names[2], "ann@example.org")
    registry.write(suspend_with_names, OPERATOR, "carl@example.org")
    assert {state(registry, each) for each in ids} == {"withdrawn"}
    for each in ids:
        with registry.refuses(Conflict):
            take(registry, each)


def test_the_deletion_of_either_side_ends_the_transfer(registry: Registry) -> None:
    registry.add_user("carl")
    registry.register(SHOP, "carl")
    registry.register("other.example.test")
    sent = offer(registry, who="carl")
    received = offer(registry, "other.example.test", "carl@example.org")
    registry.write(delete_user, OPERATOR, "carl@example.org", trash_names=True, confirmed=True)
    assert state(registry, sent) == "withdrawn"
    assert (state(registry, received), show(registry, received).recipient_email) == ("declined", "deleted")
    found = {name: rows for name, rows in registry.dump().items() if "carl" in repr(rows).lower()}
    assert found == {}


def test_a_suspended_side_can_t_move_a_name(registry: Registry) -> None:
    registry.register(SHOP)
    transfer_id = offer(registry)
    registry.write(suspend_user, OPERATOR, BEN)
    for verb in (decline, withdraw):
        registry.refused(AccountSuspended, verb, registry.actor("ben"), transfer_id)
    with registry.refuses(AccountSuspended):
        take(registry, transfer_id)
    registry.write(unsuspend_user, OPERATOR, BEN)
    registry.write(suspend_user, OPERATOR, "ann@example.org")
    with registry.refuses(AccountSuspended):
        offer(registry)
    with registry.refuses(Conflict):
        take(registry, transfer_id)
    registry.write(unsuspend_user, OPERATOR, "ann@example.org")
    take(registry, transfer_id)


def test_names_that_can_t_be_offered(registry: Registry) -> None:
    registry.register_by_operator("ours.example.test")
    held, trash, theirs = (f"{each}.example.test" for each in ("held", "trash", "theirs"))
    for each in (held, trash):
        registry.register(each)
    registry.register(theirs, "ben")
    registry.write(suspend, OPERATOR, held)
    registry.write(delete, registry.actor(), trash)
    refused: list[tuple[type[Refusal], str]] = [
        (Conflict, "ours.example.test"),
        (SubdomainSuspended, held),
        (SubdomainNotFound, trash),
        (SubdomainNotFound, theirs),
        (SubdomainNotFound, "missing.example.test"),
    ]
    for refusal, name in refused:
        with registry.refuses(refusal):
            offer(registry, name, "carl@example.org")


def test_wrong_addresses(registry: Registry) -> None:
    registry.register(SHOP)
    for to in (None, "ben@", " ANN@example.org"):
        with registry.refuses(ValidationFailed) as caught:
            offer(registry, to=to)
        assert [each.field for each in caught[0].errors] == ["to"]


def test_a_name_has_one_pending_transfer(registry: Registry) -> None:
    registry.register(SHOP)
    transfer_id = offer(registry)
    with registry.refuses(TransferPending) as caught:
        offer(registry, to="carl@example.org")
    assert caught[0].details == {"transfer_id": int(transfer_id)}
    registry.write(withdraw, registry.actor(), transfer_id)
    offer(registry, to="carl@example.org")


def test_the_receiver_must_meet_the_conditions_of_a_registration(registry: Registry) -> None:
    """The receiver needs room in the quota, a grant of a restricted platform domain, and a label that isn't
    reserved and looks like no name of another user.
    """
    names = ["late.example.test", "\u0455\u0441\u043e\u0440\u0435.example.test", SHOP]
    registry.register("scope.example.test", registration_mode="plus")
    registry.register(names[1], registration_mode="plus")
    for each in (names[0], SHOP):
        registry.register(each)
    reserved, alike, shop = (offer(registry, each) for each in names)
    registry.write(set_label, OPERATOR, "example.test", "late", "reserved")
    for each in (reserved, alike):
        with registry.refuses(SubdomainUnavailable):
            take(registry, each)
    for index in range(FREE_QUOTA):
        registry.register(f"n{index}.example.test", "ben")
    with registry.refuses(FreeQuotaExceeded):
        take(registry, shop)
    registry.write(delete, registry.actor("ben"), "n0.example.test")
    registry.write(
        edit_zone_settings, OPERATOR, "example.test", {"restricted": True, "registration_open": False}
    )
    with registry.refuses(PlatformDomainNotFound):
        take(registry, shop)
    registry.write(grant_platform_domain, OPERATOR, "example.test", str(registry.organizations["ben"]))
    take(registry, shop)
    assert registry.doctor() == []


def test_a_user_s_pushes_and_an_address_s_mails_are_limited(registry: Registry) -> None:
    registry.register(SHOP)
    for _ in range(TRANSFERS_OF_USER.most):
        registry.write(withdraw, registry.actor(), offer(registry))
    assert sum(to == BEN for to, _ in mails(registry)) == 1
    with registry.refuses(RateLimited) as caught:
        offer(registry)
    assert caught[0].retry_after_seconds == timedelta(days=1).total_seconds() + 1
    registry.advance(days=1)
    offer(registry)
    for number in range(7):
        name = f"u{number}"
        registry.add_user(name)
        registry.register(f"{name}.example.test", name)
        offer(registry, f"{name}.example.test", who=name)
    assert sum(to == BEN for to, _ in mails(registry)) == 1 + 5


def test_the_doctor_finds_a_transfer_that_does_not_fit_its_name(registry: Registry) -> None:
    held = registry.register(SHOP)
    transfer_id = int(offer(registry))
    registry.write(lambda tx: update_subdomain(tx, held.id, suspended_at=tx.now))
    assert "rows_belong_together: name_transfer" in " ".join(map(str, registry.doctor()))
    registry.write(lambda tx: update_subdomain(tx, held.id, suspended_at=None))
    registry.write(store.end, transfer_id, "accepted", registry.users["ben"])
    violations = " ".join(map(str, registry.doctor()))
    assert "rows_belong_together: name_transfer" in violations
    assert "audited: name_transfer" in violations
