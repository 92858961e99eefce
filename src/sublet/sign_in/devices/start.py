"""Store a program's request for a token (POST /auth/device; RFC 8628, section 3.1)."""

from dataclasses import dataclass

from sublet.accounts.fields import check_text
from sublet.accounts.tokens.issue import digest
from sublet.db import LockedKind, Tx, lock_text
from sublet.errors import validation_failed
from sublet.limits import PROGRAMS_OF_NETWORK
from sublet.secret import Secret
from sublet.sign_in.devices import store as device_store
from sublet.sign_in.devices.model import (
    VALID_FOR,
    new_device_code,
    new_user_code,
    user_code_digest,
)


@dataclass(frozen=True, slots=True)
class StartedDevice:
    """The two codes of a request. Only their digests are stored."""

    device_code: Secret
    user_code: Secret


def start_device(tx: Tx, name: str, address: str, network: str) -> StartedDevice:
    """Add a program's request for a token called `name`.

    The request is valid for ten minutes, and has no user until a person decides.

    `network` is the client's network; empty means no limit.

    Raises, in this order:
        ValidationFailed: the name is invalid.
        RateLimited: too many requests came from this network.
    """
    name, errors = check_text("name", name)
    if errors:
        raise validation_failed(errors)
    if network:
        lock_text(tx, LockedKind.NETWORK, network)
    limit = PROGRAMS_OF_NETWORK
    if network and device_store.count_of_network(tx, network, limit.since(tx.now)) >= limit.most:
        raise limit.refusal(
            f"More than {limit.most} programs requested a token from your network within an hour. Wait an "
            "hour, or create a token in another way."
        )
    device_code, user_code = new_device_code(), new_user_code()
    while device_store.has_user_code(tx, user_code_digest(user_code.reveal())):
        user_code = new_user_code()
    device_store.insert_request(
        tx,
        name=name,
        address=address,
        network=network,
        device_code_digest=digest(device_code.reveal()),
        user_code_digest=user_code_digest(user_code.reveal()),
        expires_at=tx.now + VALID_FOR,
    )
    return StartedDevice(device_code, user_code)
