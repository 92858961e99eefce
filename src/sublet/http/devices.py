"""Handlers of the sign-in of programs, by the device flow of RFC 8628 (docs/api.md, "Sign in a program")."""

from collections.abc import Callable
from typing import Any

from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.errors import DeviceNotFound, Refusal
from sublet.http import response_structs
from sublet.http.client_address import address_key
from sublet.http.endpoints import Answer, Call, OpenCall
from sublet.http.idempotency import write_once
from sublet.http.rate_limiter import USER_CODE
from sublet.http.render import token_shape
from sublet.http.request_structs import AllowDeviceBody, DeviceBody, DeviceTokenBody, NoBody
from sublet.sign_in import device_store
from sublet.sign_in.decide_device import allow_device, find_device, refuse_device
from sublet.sign_in.devices import INTERVAL, PAGE_PATH, VALID_FOR, DeviceRequest, spell_user_code
from sublet.sign_in.poll_device import poll_device
from sublet.sign_in.start_device import start_device

DEFAULT_NAME = "command line"


async def start_device_(call: OpenCall[DeviceBody]) -> Answer[response_structs.DeviceAnswer]:
    """Start the sign-in of a program (RFC 8628).

    Returns the codes, valid for ten minutes. Show the user `verification_uri` and `user_code`, then send `device_code` to
    POST /auth/device/token every `interval` seconds.
    """
    client = call.client
    name = DEFAULT_NAME if call.body.name is None else call.body.name
    address = client.address.partition("%")[0]
    started = await call.context.db.write(start_device, name, address, client.network)
    page, code = client.public_url + PAGE_PATH, started.user_code.reveal()
    return Answer(
        response_structs.DeviceAnswer(
            device_code=started.device_code.reveal(),
            user_code=code,
            verification_uri=page,
            verification_uri_complete=f"{page}?code={code}",
            expires_in=int(VALID_FOR.total_seconds()),
            interval=int(INTERVAL.total_seconds()),
        )
    )


async def poll_device_(call: OpenCall[DeviceTokenBody]) -> Answer[response_structs.SecretAnswer]:
    """Get the token of a program's sign-in.

    Returns a token with the name of the program, valid for 90 days. The token has all scopes, but `credits:spend` only if the user
    allowed it. The secret is shown only once. Until the user decides, the answer is 400 `authorization_pending`.
    """
    actor = call.client.system_actor("device", call.request_id)
    done = await call.context.db.write(poll_device, actor, call.body.device_code or "")
    if isinstance(done, Refusal):
        raise done
    return Answer(
        response_structs.SecretAnswer(token=token_shape(done.token, done.user), secret=done.secret.reveal())
    )


async def get_device(call: Call[None, None]) -> Answer[response_structs.DeviceRequestAnswer]:
    """Get a pending sign-in of a program (RFC 8628).

    Returns the request with this user code until the user decides. An address or a network may send ten codes a minute.
    """
    await _count_code(call)
    code = call.path["user_code"]
    return Answer(_answer(await call.context.db.read(find_device, code), code))


async def allow_device_(call: Call[AllowDeviceBody, None]) -> Answer[response_structs.DeviceRequestAnswer]:
    """Allow a pending sign-in of a program.

    Gives the program a token of the user, with the scopes of the answer, and mails the user. Requires a sign-in within the last ten
    minutes.
    """
    await _count_code(call)
    may_spend, public_url = bool(call.body.may_spend), call.client.public_url

    def verb(tx: Tx) -> Outcome:
        code = call.path["user_code"]
        return Outcome(allow_device(tx, call.actor(), code, may_spend=may_spend, public_url=public_url).id)

    return await _write_decision(call, verb)


async def refuse_device_(call: Call[NoBody, None]) -> Answer[response_structs.DeviceRequestAnswer]:
    """Refuse a pending sign-in of a program.

    Suspended users may refuse too.
    """
    await _count_code(call)

    def verb(tx: Tx) -> Outcome:
        return Outcome(refuse_device(tx, call.actor(), call.path["user_code"]).id)

    return await _write_decision(call, verb)


async def _write_decision(
    call: Call[Any, None], verb: Callable[[Tx], Outcome]
) -> Answer[response_structs.DeviceRequestAnswer]:
    def read(tx: Tx) -> DeviceRequest:
        found = device_store.find_request(tx, done.outcome.id)
        if found is None:
            raise DeviceNotFound(
                "This program was allowed or refused earlier, and its request is deleted. No action needed."
            )
        return found

    done = await write_once(call, 200, verb)
    return done.answer(_answer(await call.context.db.read(read), call.path["user_code"]))


def _answer(found: DeviceRequest, typed_code: str) -> response_structs.DeviceRequestAnswer:
    shape = response_structs.DeviceRequestShape(
        name=found.name,
        user_code=spell_user_code(typed_code),
        address=found.address or None,
        state=found.state,
        scopes=list(found.scopes),
        created_at=found.created_at,
        expires_at=found.expires_at,
    )
    return response_structs.DeviceRequestAnswer(device=shape)


async def _count_code(call: Call[Any, None]) -> None:
    """Count a sent user code, right or wrong, against the rate limit of user codes, so that codes can't be guessed.

    Raises:
        RateLimited: too many codes came from this address or its network.
    """
    for key in (address_key(call.client.address), call.client.network):
        if key:
            await call.context.rate_limiter.count(USER_CODE, key)
