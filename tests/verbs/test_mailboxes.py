"""All spellings of an address are one mailbox: one account, one limit of mails; on both databases."""

from collections.abc import Callable
from functools import partial

import pytest
from sqlalchemy import func, select

from sublet.accounts.find import find_user
from sublet.accounts.store import users
from sublet.accounts.users import UserEdit, add_user, edit_user
from sublet.db import Tx
from sublet.errors import Conflict, RateLimited, ValidationFailed
from sublet.limits import MAILS_TO_ADDRESS, SIGN_IN_MAILS_TO_ADDRESS
from sublet.mail.store import mails
from sublet.organizations.invitations import invite_member
from sublet.registry.delete_user import delete_own_user
from sublet.sign_in.change_account import AccountChange, change_account
from sublet.sign_in.codes import request_code
from sublet.sign_up.sign_up import SignUp, invite, sign_up
from sublet.subdomains.transfers.move import accept
from sublet.subdomains.transfers.push import push
from support.registry import FREE_QUOTA, OPERATOR, Registry
from support.shared_names import URL, share
from support.shared_names import accept as join
from support.shared_names import mailed_code as invitation_to
from support.signing_in import enter, newest_code, session_actor, sign_in, texts_to

EVE = "eve@xn--bcher-kva.example"
SPELLINGS = (
    "eve@bücher.example",
    "eve@BÜCHER.example.",
    "EVE@bücher\u3002example",
    "eve@\uff42ücher.example",
    f"{EVE}.",
)
VICTIM = "victim@inbox.example"
VICTIMS = (
    "victim@inbox.example.",
    "victim@\uff49nbox.example",
    "victim@inbox\u3002example",
    "VICTIM@inbox.example",
)


def add_eve(registry: Registry, spelling: str = SPELLINGS[0]) -> None:
    member = registry.write(add_user, OPERATOR, spelling, "Eve")
    assert member.user.email == EVE
    registry.users["eve"], registry.organizations["eve"] = member.user.id, member.organization.id


def count_mails(registry: Registry, recipient: str) -> int:
    query = select(func.count()).where(mails.c.recipient == recipient)
    return registry.read(lambda tx: int(tx.connection.execute(query).scalar_one()))


def count_users(registry: Registry) -> int:
    return registry.read(
        lambda tx: int(tx.connection.execute(select(func.count()).select_from(users)).scalar_one())
    )


@pytest.mark.parametrize("spelling", SPELLINGS[1:3])
def test_every_door_finds_the_account_of_a_mailbox_by_any_spelling(registry: Registry, spelling: str) -> None:
    add_eve(registry)
    before = count_users(registry)
    assert registry.read(find_user, spelling).id == registry.users["eve"]
    for verb in (
        lambda tx: add_user(tx, OPERATOR, spelling, "Eve"),
        lambda tx: edit_user(tx, OPERATOR, "ben@example.org", UserEdit(email=spelling)),
        lambda tx: invite(tx, OPERATOR, spelling, "Eve", URL),
    ):
        registry.refused(Conflict, verb)
    registry.write(sign_up, SignUp(spelling, "Eve"), URL)
    assert texts_to(registry, EVE)[-1].startswith("Hello Eve,"), "a code that signs in"
    registry.advance(minutes=1)
    registry.write(request_code, spelling, "", URL)
    done = enter(registry, email=spelling, code=newest_code(registry, EVE))
    assert done is not None
    assert done.member.user.id == registry.users["eve"]
    actor = session_actor(done)
    registry.write(change_account, actor, AccountChange(email=spelling), URL)
    assert "requested" not in texts_to(registry, EVE)[-1], "it is the present address"
    organization_id = share(registry)
    registry.write(invite_member, registry.actor(), str(organization_id), spelling, "member", URL)
    joined = join(registry, invitation_to(registry, EVE))
    assert joined is not None
    assert joined.member.user.id == registry.users["eve"]
    registry.refused(Conflict, invite_member, registry.actor(), str(organization_id), spelling, "member", URL)
    registry.register("shop.example.test")
    offered = registry.write(push, registry.actor(), "shop.example.test", spelling, URL)
    registry.write(accept, registry.actor("eve"), str(offered.id), free_quota=FREE_QUOTA)
    assert registry.subdomain(1).user_id == registry.users["eve"]
    registry.write(delete_own_user, actor, spelling)
    assert count_users(registry) == before + 1, "the organization's account alone is new"
    assert registry.doctor() == []


@pytest.mark.parametrize("domain", ["mailinator.com.", "\uff4dailinator.com"])
def test_a_disposable_domain_is_refused_in_any_spelling(registry: Registry, domain: str) -> None:
    registry.refused(ValidationFailed, sign_up, SignUp(f"x@{domain}", "X"), URL)
    actor = session_actor(sign_in(registry))
    registry.refused(ValidationFailed, change_account, actor, AccountChange(email=f"x@{domain}"), URL)


def test_a_mailbox_gets_five_mails_an_hour_over_all_purposes_and_accounts(registry: Registry) -> None:
    """Four accounts change their address, four organizations invite, and strangers sign up, each in another
    spelling.
    """
    registry.register("shop.example.test")
    organization_id = str(share(registry))
    actors = [session_actor(sign_in(registry, name)) for name in ("ann", "ben")]
    for name in ("cleo", "dan"):
        registry.add_user(name)
        actors.append(session_actor(sign_in(registry, name)))
    attempts: list[Callable[[Tx], object]] = [
        lambda tx: sign_up(tx, SignUp(VICTIMS[0], "V"), URL),
        lambda tx: push(tx, registry.actor(), "shop.example.test", VICTIMS[1], URL),
        lambda tx: invite_member(tx, registry.actor(), organization_id, VICTIMS[2], "viewer", URL),
    ]
    attempts += [
        partial(change_account, actor=actor, change=AccountChange(email=spelling), public_url=URL)
        for actor in actors
        for spelling in VICTIMS
    ]
    refused = 0
    for each in attempts:
        try:
            registry.write(each)
        except RateLimited:
            refused += 1
    assert count_mails(registry, VICTIM) == MAILS_TO_ADDRESS.most
    assert refused == len(attempts) - MAILS_TO_ADDRESS.most
    for spelling in VICTIMS:
        assert count_mails(registry, spelling.lower()) == 0 or spelling.lower() == VICTIM
    # The person can still sign in.
    for _ in range(30):
        registry.advance(minutes=1, seconds=1)
        registry.write(request_code, VICTIMS[1], f"network {_ % 7}", URL)
    assert count_mails(registry, VICTIM) == SIGN_IN_MAILS_TO_ADDRESS.most
    registry.advance(hours=1)
    registry.write(change_account, actors[0], AccountChange(name="Ann"), URL)
    registry.write(sign_up, SignUp(VICTIMS[3], "V"), URL)
    assert count_mails(registry, VICTIM) == SIGN_IN_MAILS_TO_ADDRESS.most + 1
