"""Allow or refuse a program that requested a token, as the signed-in person (RFC 8628, section 3.3)."""

from sublet import audit
from sublet.accounts.find import lock_acting_user
from sublet.accounts.store import count_live_tokens
from sublet.accounts.tokens.create import LIVE_TOKENS_MAX
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, DeviceNotFound
from sublet.mail.letter import quoted
from sublet.sign_in.devices import store as device_store
from sublet.sign_in.devices.model import (
    ALLOWED,
    PENDING,
    REFUSED,
    DeviceRequest,
    is_expired,
    user_code_digest,
)
from sublet.sign_in.notices import notify


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
