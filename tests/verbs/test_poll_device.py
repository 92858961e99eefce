"""A program gets a token that a person allows in a browser (RFC 8628).

Over HTTP: tests/contract/test_choices_devices.py.
"""

from datetime import timedelta

import pytest

from sublet.accounts.tokens.issue import IssuedToken
from sublet.accounts.users import suspend_user
from sublet.audit import Actor
from sublet.errors import (
    AccessDenied,
    AuthorizationPending,
    DeviceNotFound,
    ExpiredToken,
    RateLimited,
    Refusal,
    SlowDown,
    ValidationFailed,
)
from sublet.limits import PROGRAMS_OF_NETWORK
from sublet.registry.delete_user import delete_user
from sublet.sign_in.devices.device import (
    StartedDevice,
    allow_device,
    find_device,
    poll_device,
    refuse_device,
    start_device,
)
from sublet.sign_in.devices.store import device_requests
from support.registry import OPERATOR, Registry
from support.signing_in import URL, session_actor, sign_in, texts_to

PROGRAM = Actor(kind="system", name="device", request_id="r-3")


def start(registry: Registry, name: str = "laptop") -> StartedDevice:
    return registry.write(start_device, name, "192.0.2.7", "192.0.2.0/24")


def poll(registry: Registry, started: StartedDevice) -> IssuedToken | Refusal:
    return registry.write(poll_device, PROGRAM, started.device_code.reveal())


def allow(registry: Registry, actor: Actor, started: StartedDevice, *, may_spend: bool = False) -> object:
    code = started.user_code.reveal()
    return registry.write(allow_device, actor, code, may_spend=may_spend, public_url=URL)


def test_a_program_gets_the_token_once_it_is_allowed(registry: Registry) -> None:
    ann = session_actor(sign_in(registry))
    started = start(registry)
    assert isinstance(poll(registry, started), AuthorizationPending)
    assert isinstance(poll(registry, started), SlowDown)
    found = registry.read(find_device, f" {started.user_code.reveal().lower().replace('-', ' ')} ")
    assert (found.name, found.address) == ("laptop", "192.0.2.7")
    allow(registry, ann, started)
    with pytest.raises(DeviceNotFound):  # decided already
        allow(registry, ann, started)
    done = poll(registry, started)
    assert isinstance(done, IssuedToken)
    assert (done.user.id, done.token.name) == (registry.users["ann"], "laptop")
    assert "credits:spend" not in done.token.scopes
    assert done.token.expires_at == registry.now + timedelta(days=90)
    assert isinstance(poll(registry, started), ExpiredToken), "used"
    assert "program called “laptop”" in texts_to(registry, "ann@example.org")[-1]
    kept = str(registry.dump()["device_requests"])
    for secret in (started.device_code, started.user_code):
        assert secret.reveal() not in kept


def test_refused_expired_and_unknown_codes_give_nothing(registry: Registry) -> None:
    ann = session_actor(sign_in(registry))
    started = start(registry)
    registry.write(refuse_device, ann, started.user_code.reveal())
    assert isinstance(poll(registry, started), AccessDenied)
    with pytest.raises(DeviceNotFound):
        allow(registry, ann, started)
    late = start(registry)
    registry.advance(minutes=10)
    with pytest.raises(DeviceNotFound):
        allow(registry, ann, late)
    assert isinstance(poll(registry, late), ExpiredToken)
    assert isinstance(registry.write(poll_device, PROGRAM, "unknown"), ExpiredToken)


def test_a_suspended_or_deleted_user_gives_nothing(registry: Registry) -> None:
    ann = session_actor(sign_in(registry))
    first, second = start(registry), start(registry)
    allow(registry, ann, first)
    allow(registry, ann, second)
    spending = start(registry)
    assert isinstance(poll(registry, spending), AuthorizationPending)
    allow(registry, ann, spending, may_spend=True)
    done = poll(registry, spending)
    assert isinstance(done, IssuedToken)
    assert "credits:spend" in done.token.scopes
    registry.write(suspend_user, OPERATOR, "ann@example.org", "fraud")
    assert isinstance(poll(registry, first), AccessDenied)
    registry.write(delete_user, OPERATOR, "ann@example.org", confirmed=True)
    assert isinstance(poll(registry, second), ExpiredToken), "erased with the user"


def test_a_network_asks_a_limited_number_of_times(registry: Registry) -> None:
    with pytest.raises(ValidationFailed):
        start(registry, " ")
    for _ in range(PROGRAMS_OF_NETWORK.most):
        start(registry)
    with pytest.raises(RateLimited):
        start(registry)
    registry.write(start_device, "elsewhere", "", "")
    registry.advance(hours=1)
    start(registry)
    assert len(registry.dump()[device_requests.name]) == PROGRAMS_OF_NETWORK.most + 2
