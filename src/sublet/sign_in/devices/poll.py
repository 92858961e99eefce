"""Issue a token to a program that a person has allowed (POST /auth/device/token; RFC 8628, sections 3.4 and
3.5).
"""

from sublet.accounts.model import User
from sublet.accounts.store import lock_user
from sublet.accounts.tokens.issue import IssuedToken, add_token, digest
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import AccessDenied, AuthorizationPending, ExpiredToken, Refusal, SlowDown
from sublet.restrictions import SCOPES, Restrictions
from sublet.sign_in.devices import store as device_store
from sublet.sign_in.devices.model import (
    ALLOWED,
    INTERVAL,
    PENDING,
    REFUSED,
    TOKEN_LIFE,
    USED,
    DeviceRequest,
    is_expired,
)


def poll_device(tx: Tx, actor: Actor, device_code: str) -> IssuedToken | Refusal:
    """Issue the token that a person has allowed, but only once.

    Otherwise return the error, which the caller raises after the commit.

    The errors, in the order in which they are checked:
        ExpiredToken: the code is wrong, used or expired.
        AccessDenied: the person has refused the program, or was suspended or deleted.
        SlowDown: the program's last poll was less than five seconds ago.
        AuthorizationPending: the person has not decided yet.
    """
    code_digest = digest(device_code)
    seen = device_store.find_by_device_code(tx, code_digest)
    # The order of locks is users, then requests. A decision that is committed between the two queries counts
    # at the next poll.
    user = lock_user(tx, seen.user_id) if seen is not None and seen.user_id is not None else None
    found = device_store.lock_by_device_code(tx, code_digest)
    if found is None or found.state == USED or is_expired(found, tx.now):
        return ExpiredToken("This code is wrong, used or too old. Send POST /auth/device to begin again.")
    if found.state == REFUSED:
        return AccessDenied(
            "The person refused this program. If this was a mistake, send POST /auth/device to begin again."
        )
    if found.state == ALLOWED and user is not None:
        if user.deleted_at is not None or user.suspended_at is not None:
            return AccessDenied(
                "The account of the person who allowed this program is suspended or deleted. Ask the "
                "operator why."
            )
        return _issue(tx, actor, found, user)
    return _record_poll(tx, found)


def _issue(tx: Tx, actor: Actor, found: DeviceRequest, user: User) -> IssuedToken:
    device_store.update_request(tx, found.id, state=USED)
    scopes = tuple(each for each in SCOPES if each in found.scopes)
    return add_token(tx, actor, user, found.name, Restrictions(scopes, expires_at=tx.now + TOKEN_LIFE))


def _record_poll(tx: Tx, found: DeviceRequest) -> Refusal:
    last = found.polled_at
    device_store.update_request(tx, found.id, polled_at=tx.now)
    seconds = int(INTERVAL.total_seconds())
    if last is not None and last + INTERVAL > tx.now and found.state == PENDING:
        return SlowDown(f"This program polls too often. Wait {seconds} seconds between two polls.")
    return AuthorizationPending(
        f"The person has not decided yet. Wait {seconds} seconds, then poll again.",
        details={"interval": seconds},
    )
