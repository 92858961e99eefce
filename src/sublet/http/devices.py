"""Handlers of programs that ask for a token, which need none (docs/api.md, "Sign in a program"; RFC 8628)."""

from sublet.audit import Actor
from sublet.errors import Refusal
from sublet.http import shapes
from sublet.http.bodies import DeviceBody, DeviceTokenBody
from sublet.http.endpoints import Answer, Visit
from sublet.http.render import token_shape
from sublet.sign_in.devices import INTERVAL, PAGE_PATH, VALID_FOR
from sublet.sign_in.poll_device import poll_device
from sublet.sign_in.start_device import start_device

DEFAULT_NAME = "command line"


async def start_device_(visit: Visit[DeviceBody]) -> Answer:
    """Ask for a token in the name of a person (RFC 8628).

    Show the person `verification_uri` and `user_code`, then send `device_code` to POST /auth/device/token every `interval` seconds. The codes
    are valid for ten minutes.
    """
    client = visit.client
    name = DEFAULT_NAME if visit.body.name is None else visit.body.name
    address = client.address.partition("%")[0]
    started = await visit.context.db.write(start_device, name, address, client.network)
    page, code = client.public_url + PAGE_PATH, started.user_code.reveal()
    return Answer(
        shapes.DeviceAnswer(
            device_code=started.device_code.reveal(),
            user_code=code,
            verification_uri=page,
            verification_uri_complete=f"{page}?code={code}",
            expires_in=int(VALID_FOR.total_seconds()),
            interval=int(INTERVAL.total_seconds()),
        )
    )


async def poll_device_(visit: Visit[DeviceTokenBody]) -> Answer:
    """Get the token that a person has allowed.

    Its name is that of the program. It has all scopes, but `credits:spend` only if the person chose so, and is valid for 90 days. Its secret is
    shown only here, once. Until the person has decided, the answer is 400 `authorization_pending`.
    """
    address = visit.client.address.partition("%")[0] or None
    actor = Actor(kind="system", name="device", request_id=visit.request_id, address=address)
    done = await visit.context.db.write(poll_device, actor, visit.body.device_code or "")
    if isinstance(done, Refusal):
        raise done
    return Answer(shapes.SecretAnswer(token=token_shape(done.token, done.user), secret=done.secret.reveal()))
