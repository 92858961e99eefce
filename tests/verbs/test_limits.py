"""Limits of codes, mails and programs count nothing that is in the future, because the clock was set back; on
both databases.
"""

from collections.abc import Callable

import pytest

from sublet.audit import Actor
from sublet.limits import (
    ADDRESS_CODES_OF_USER,
    INVITATIONS_TO_ADDRESS,
    PROGRAMS_OF_NETWORK,
    SIGN_IN_CODES_OF_NETWORK,
    SIGN_IN_MAILS_TO_ADDRESS,
    TRANSFERS_OF_USER,
    WRONG_CODES,
)
from sublet.organizations.invitations import invite_member
from sublet.sign_in.change_account import AccountChange, change_account
from sublet.sign_in.codes import request_code
from sublet.sign_in.devices.device import start_device
from sublet.sign_up.codes import TRIES_MAX
from sublet.subdomains.transfers.end import withdraw
from sublet.subdomains.transfers.push import push
from support.registry import Registry
from support.shared_names import share
from support.signing_in import URL, enter, newest_code, session_actor, sign_in, texts_to, wrong

ANN, EVE, NETWORK = "ann@example.org", "eve@example.org", "192.0.2.0/24"


def ask_in_network(registry: Registry, number: int) -> None:
    registry.write(request_code, f"a{number}@example.org", NETWORK, URL)


def ask_for_ann(registry: Registry, _number: int) -> None:
    registry.advance(minutes=16)
    registry.write(request_code, ANN, "", URL)


def test_wrong_codes_in_the_future_are_not_counted(registry: Registry) -> None:
    registry.advance(days=30)
    for number in range(WRONG_CODES.most):
        if number % TRIES_MAX == 0:
            ask_for_ann(registry, number)
        enter(registry, email=ANN, code=wrong(newest_code(registry, ANN)))
    registry.advance(days=-29)
    ask_for_ann(registry, 0)
    assert "your code is" in texts_to(registry, ANN)[-1]


def start_program(registry: Registry, number: int) -> None:
    registry.write(start_device, f"program {number}", "192.0.2.7", NETWORK)


def invite_eve(registry: Registry, number: int) -> None:
    registry.advance(hours=1)
    organization_id = str(share(registry) if number == 0 else registry.organizations["coop"])
    registry.organizations["coop"] = int(organization_id)
    registry.write(invite_member, registry.actor(), organization_id, EVE, "viewer", URL)


def change_address(registry: Registry, number: int) -> None:
    actor = Actor("user", registry.users["ann"], session_id=1)
    registry.write(change_account, actor, AccountChange(email=f"a{number}@example.org"), URL)


def offer_name(registry: Registry, number: int) -> None:
    if number == 0:
        registry.register("shop.example.test")
    registry.write(push, registry.actor(), "shop.example.test", f"a{number}@example.org", URL)
    if number < TRANSFERS_OF_USER.most:
        registry.write(withdraw, registry.actor(), str(number + 1))


@pytest.mark.parametrize(
    ("act", "most"),
    [
        (ask_in_network, SIGN_IN_CODES_OF_NETWORK.most),
        (ask_for_ann, SIGN_IN_MAILS_TO_ADDRESS.most),
        (start_program, PROGRAMS_OF_NETWORK.most),
        (invite_eve, INVITATIONS_TO_ADDRESS.most),
        (change_address, ADDRESS_CODES_OF_USER.most),
        (offer_name, TRANSFERS_OF_USER.most),
    ],
)
def test_what_is_in_the_future_is_not_counted(
    registry: Registry, act: Callable[[Registry, int], None], most: int
) -> None:
    assert session_actor(sign_in(registry)).session_id == 1
    registry.advance(days=30)
    for number in range(most):
        act(registry, number)
    registry.advance(days=-29)
    mailed = len(texts_to(registry, ANN))
    act(registry, most)
    assert act is not ask_for_ann or len(texts_to(registry, ANN)) == mailed + 1
