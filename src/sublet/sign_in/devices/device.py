"""The sign-in of a program: store its request for a token, let the signed-in person decide, issue the token
(POST /auth/device, POST /auth/device/token; RFC 8628, section 3).
"""

from msgspec import Struct

from sublet import audit
from sublet.accounts.fields import check_text
from sublet.accounts.find import lock_acting_user
from sublet.accounts.model import User
from sublet.accounts.store import count_live_tokens, lock_user
from sublet.accounts.tokens.issue import IssuedToken, add_token, digest
from sublet.accounts.tokens.tokens import LIVE_TOKENS_MAX
from sublet.audit import Actor
from sublet.db import LockedKind, Tx, lock_text
from sublet.errors import (
    AccessDenied,
    AuthorizationPending,
    Conflict,
    DeviceNotFound,
    ExpiredToken,
    Refusal,
    SlowDown,
    validation_failed,
)
from sublet.limits import PROGRAMS_OF_NETWORK
from sublet.mail.letter import quoted
from sublet.restrictions import SCOPES, Restrictions
from sublet.secret import Secret
from sublet.sign_in.devices import store as device_store
from sublet.sign_in.devices.model import (
    ALLOWED,
    INTERVAL,
    PENDING,
    REFUSED,
    TOKEN_LIFE,
    USED,
    VALID_FOR,
    DeviceRequest,
    is_expired,
    new_device_code,
    new_user_code,
    user_code_digest,
)
from sublet.sign_in.notices import notify


class StartedDevice(Struct, frozen=True):
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


def find_device(tx: Tx, user_code: str) -> DeviceRequest:
    """Return the undecided request of a program, by the code that a person typed.

    Raises:
        DeviceNotFound: the code is wrong or expired, or the request is decided already.
    """
    return _require_pending(tx, device_store.find_by_user_code(tx, user_code_digest(user_code)))


def allow_device(tx: Tx, actor: Actor, user_code: str, *, may_spend: bool, public_url: str) -> DeviceRequest:
    """Allow a program to get a token of the acting user, and mail the user.

    The program's next poll issues the token.

    Raises, in this order:
        SessionInvalid: the session ended after the request was authenticated.
        AccountSuspended: the user is suspended.
        DeviceNotFound: the code is wrong or expired, or the request is decided already.
        Conflict: the user has the maximum number of tokens.
    """
    user = lock_acting_user(tx, actor)
    found = _require_pending(tx, device_store.lock_by_user_code(tx, user_code_digest(user_code)))
    if count_live_tokens(tx, user.id) >= LIVE_TOKENS_MAX:
        raise Conflict(
            f"You have {LIVE_TOKENS_MAX} tokens, which is the maximum. Delete a token that you don't need."
        )
    device_store.update_request(tx, found.id, state=ALLOWED, user_id=user.id, may_spend=may_spend)
    audit.record(tx, actor, "device.allow", found.id, after={"name": found.name, "may_spend": may_spend})
    sentence = f"A program called {quoted(found.name)} got a token of your account."
    notify(tx, user, "device", found.id, sentence, public_url)
    return found


def refuse_device(tx: Tx, actor: Actor, user_code: str) -> DeviceRequest:
    """Refuse a program's request for a token. Suspended users may refuse too.

    Raises:
        DeviceNotFound: the code is wrong or expired, or the request is decided already.
    """
    found = _require_pending(tx, device_store.lock_by_user_code(tx, user_code_digest(user_code)))
    device_store.update_request(tx, found.id, state=REFUSED, user_id=actor.user_id)
    audit.record(tx, actor, "device.refuse", found.id, after={"name": found.name})
    return found


def _require_pending(tx: Tx, found: DeviceRequest | None) -> DeviceRequest:
    if found is None or found.state != PENDING or is_expired(found, tx.now):
        raise DeviceNotFound(
            "No program waits with this code: the code is wrong, too old or already decided. Check the "
            "code that the program shows."
        )
    return found


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
