"""The API of the sign-in of programs, by the device flow of RFC 8628 (docs/api.md, "Sign in a program")."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from sublet.accounts.tokens.api import SHOWN_ONCE, TOKEN_EXAMPLE, SecretAnswer, token_shape
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.errors import (
    AccessDenied,
    AccountSuspended,
    AuthorizationPending,
    Conflict,
    DeviceNotFound,
    ExpiredToken,
    RateLimited,
    Refusal,
    SlowDown,
    ValidationFailed,
)
from sublet.operations import tags
from sublet.operations.call import Answer, Call, OpenCall
from sublet.operations.client import address_key
from sublet.operations.idempotency import write_once
from sublet.operations.operation import API, AUTH, Operations, Parameter, not_sensitive, sensitive
from sublet.operations.rate_limiter import USER_CODE
from sublet.operations.shapes import Body, NoBody, Shape, Success, one_of
from sublet.sign_in.devices import store as device_store
from sublet.sign_in.devices.device import allow_device, find_device, poll_device, refuse_device, start_device
from sublet.sign_in.devices.model import (
    ALLOWED,
    INTERVAL,
    PAGE_PATH,
    PENDING,
    REFUSED,
    USED,
    VALID_FOR,
    DeviceRequest,
    spell_user_code,
)

open_api = Operations(AUTH, tags.OPEN_ACCOUNT)

api = Operations(API, tags.SIGN_IN, user_code=Parameter("The code that the program shows.", "WDJB-MJHT"))

_DEVICE = {
    "name": "ada's laptop",
    "user_code": "WDJB-MJHT",
    "address": "192.0.2.7",
    "state": "pending",
    "scopes": ["account:read", "subdomains:read", "subdomains:write"],
    "created_at": "2026-11-21T09:30:00.000000Z",
    "expires_at": "2026-11-21T09:40:00.000000Z",
}


class DeviceAnswer(Success, kw_only=True):
    """The codes of a program that signs in, and the page on which the user allows it
    (RFC 8628, section 3.2).
    """

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: Annotated[int, Meta(ge=1, description="The seconds for which the codes are valid.")]
    interval: Annotated[int, Meta(ge=1, description="The seconds to wait between two polls.")]


class DeviceRequestShape(Shape):
    """A sign-in of a program.

    `user_code` is the code as the program shows it, `address` the program's address, `scopes` are the scopes
    of the token if the user allows it.
    """

    changed_by_requests: ClassVar = ("state",)

    name: str
    user_code: str
    address: str | None
    state: Annotated[str, one_of((PENDING, ALLOWED, REFUSED, USED))]
    scopes: list[str]
    created_at: datetime
    expires_at: datetime


class DeviceRequestAnswer(Success, kw_only=True):
    """A sign-in of a program."""

    device: DeviceRequestShape


class DeviceBody(Body):
    """A program that signs in."""

    name: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=200,
                description="The name of the token, such as that of the computer.",
            ),
        ]
        | None
    ) = None


class AllowDeviceBody(Body):
    """The permissions that the user gives to a program."""

    may_spend: Annotated[bool, Meta(description="True if the token may spend credits.")] | None = None


class DeviceTokenBody(Body):
    """The device code of a program that waits for its token."""

    device_code: Annotated[str, Meta(max_length=100)] | None = None


DEFAULT_NAME = "command line"


@open_api.write(
    "POST",
    "/auth/device",
    None,
    (ValidationFailed, RateLimited),
    gate=not_sensitive("gives nothing until a person allows it behind the gate"),
    example_body={"name": "ada's laptop"},
    example={
        "device_code": "GmRhmhcxhwAzkoEqiMEg_DnyEysNkuNhszIySk9eS2A",
        "user_code": "WDJB-MJHT",
        "verification_uri": "https://names.example.net/device",
        "verification_uri_complete": "https://names.example.net/device?code=WDJB-MJHT",
        "expires_in": 600,
        "interval": 5,
    },
)
async def start_device_(call: OpenCall[DeviceBody]) -> Answer[DeviceAnswer]:
    """Start the sign-in of a program (RFC 8628).

    Returns the codes, valid for ten minutes. Show the user `verification_uri` and `user_code`, then send
    `device_code` to POST /auth/device/token every `interval` seconds.
    """
    client = call.client
    name = DEFAULT_NAME if call.body.name is None else call.body.name
    address = client.address.partition("%")[0]
    started = await call.context.db.write(start_device, name, address, client.network)
    page, code = client.public_url + PAGE_PATH, started.user_code.reveal()
    return Answer(
        DeviceAnswer(
            device_code=started.device_code.reveal(),
            user_code=code,
            verification_uri=page,
            verification_uri_complete=f"{page}?code={code}",
            expires_in=int(VALID_FOR.total_seconds()),
            interval=int(INTERVAL.total_seconds()),
        )
    )


@open_api.write(
    "POST",
    "/auth/device/token",
    None,
    (ExpiredToken, AccessDenied, SlowDown, AuthorizationPending),
    gate=not_sensitive("the person has allowed the token behind the gate"),
    example_body={"device_code": "GmRhmhcxhwAzkoEqiMEg_DnyEysNkuNhszIySk9eS2A"},
    example={"token": {**TOKEN_EXAMPLE, "name": "ada's laptop"}, "secret": SHOWN_ONCE},
)
async def poll_device_(call: OpenCall[DeviceTokenBody]) -> Answer[SecretAnswer]:
    """Get the token of a program's sign-in.

    Returns a token with the name of the program, valid for 90 days. The token has all scopes, but
    `credits:spend` only if the user allowed it. The secret is shown only once. Until the user decides, the
    answer is 400 `authorization_pending`.
    """
    actor = call.client.system_actor("device", call.request_id)
    done = await call.context.db.write(poll_device, actor, call.body.device_code or "")
    if isinstance(done, Refusal):
        raise done
    return Answer(SecretAnswer(token=token_shape(done.token, done.user), secret=done.secret.reveal()))


@api.get(
    "/devices/{user_code}",
    None,
    (RateLimited, DeviceNotFound),
    needs_session=True,
    has_etag=True,
    example={"device": _DEVICE},
)
async def get_device(call: Call[None, None]) -> Answer[DeviceRequestAnswer]:
    """Get a pending sign-in of a program (RFC 8628).

    Returns the request with this user code until the user decides. An address or a network may send ten codes
    a minute.
    """
    await _count_code(call)
    code = call.path["user_code"]
    return Answer(_answer(await call.context.db.read(find_device, code), code))


@api.write(
    "POST",
    "/devices/{user_code}/allow",
    None,
    (RateLimited, AccountSuspended, DeviceNotFound, Conflict),
    needs_session=True,
    gate=sensitive("creates a credential"),
    told="the user",
    example_body={"may_spend": False},
    example={"device": {**_DEVICE, "state": "allowed"}},
)
async def allow_device_(call: Call[AllowDeviceBody, None]) -> Answer[DeviceRequestAnswer]:
    """Allow a pending sign-in of a program.

    Gives the program a token of the user, with the scopes of the answer, and mails the user. Requires a
    sign-in within the last ten minutes.
    """
    await _count_code(call)
    may_spend, public_url = bool(call.body.may_spend), call.client.public_url

    def verb(tx: Tx) -> Outcome:
        code = call.path["user_code"]
        return Outcome(allow_device(tx, call.actor(), code, may_spend=may_spend, public_url=public_url).id)

    return await _write_decision(call, verb)


@api.write(
    "POST",
    "/devices/{user_code}/refuse",
    None,
    (RateLimited, DeviceNotFound),
    needs_session=True,
    gate=not_sensitive("gives nothing"),
    example_body={},
    example={"device": {**_DEVICE, "state": "refused"}},
)
async def refuse_device_(call: Call[NoBody, None]) -> Answer[DeviceRequestAnswer]:
    """Refuse a pending sign-in of a program.

    Suspended users may refuse too.
    """
    await _count_code(call)

    def verb(tx: Tx) -> Outcome:
        return Outcome(refuse_device(tx, call.actor(), call.path["user_code"]).id)

    return await _write_decision(call, verb)


async def _write_decision(
    call: Call[Any, None], verb: Callable[[Tx], Outcome]
) -> Answer[DeviceRequestAnswer]:
    def read(tx: Tx) -> DeviceRequest:
        found = device_store.find_request(tx, done.outcome.id)
        if found is None:
            raise DeviceNotFound(
                "This program was allowed or refused earlier, and its code is deleted. No action needed."
            )
        return found

    done = await write_once(call, verb)
    return done.answer(_answer(await call.context.db.read(read), call.path["user_code"]))


def _answer(found: DeviceRequest, typed_code: str) -> DeviceRequestAnswer:
    shape = DeviceRequestShape(
        name=found.name,
        user_code=spell_user_code(typed_code),
        address=found.address or None,
        state=found.state,
        scopes=list(found.scopes),
        created_at=found.created_at,
        expires_at=found.expires_at,
    )
    return DeviceRequestAnswer(device=shape)


async def _count_code(call: Call[Any, None]) -> None:
    """Count a sent user code, right or wrong, against the rate limit of user codes, so that codes can't be
    guessed.

    Raises:
        RateLimited: too many codes came from this address or its network.
    """
    for key in (address_key(call.client.address), call.client.network):
        if key:
            await call.context.rate_limiter.count(USER_CODE, key)
