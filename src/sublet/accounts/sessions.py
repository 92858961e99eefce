"""Sessions of browsers: their secrets, how long they are valid, and the recent sign-in that sensitive changes
need (docs/spec-choices.md, "Signing in").
"""

import secrets
from datetime import datetime, timedelta

from sublet.accounts import session_store
from sublet.accounts.model import Session, SignIn
from sublet.audit import Actor
from sublet.dates import is_future
from sublet.db import Tx
from sublet.errors import SessionInvalid, SignInRequired
from sublet.secret import Secret

MAIL, PASSKEY, OPERATOR = "mail", "passkey", "operator"
SIGN_IN_METHODS = (MAIL, PASSKEY, OPERATOR)
"""The sign-in methods: a mailed code or link, a passkey, a link that the operator made."""
RECENT_SIGN_IN = timedelta(minutes=10)
"""How long a session may make sensitive changes after a sign-in."""
RECOVERY_WAIT = timedelta(hours=24)
"""The time between the request for a recovery and its effect."""
RECOVERY_WINDOW = timedelta(days=7)
"""How long a recovery has effect."""


def new_session_secret() -> Secret:
    """Return a new secret for a session: 256 random bits."""
    return Secret(secrets.token_urlsafe(32))


def check_session(session: Session | None, now: datetime, idle: timedelta) -> Session:
    """Return the session if it is valid now: not expired, and used within `idle`.

    `last_used_at` is stored once an hour, so an idle session ends up to an hour early.

    Raises:
        SessionInvalid: the session is None or not valid.
    """
    if session is None or session.expires_at <= now or session.last_used_at + idle <= now:
        raise SessionInvalid("This session has ended. Sign in again.")
    return session


def sufficient_sign_in_methods(last: SignIn, now: datetime) -> tuple[str, ...]:
    """Return the sign-in methods after which a session may make sensitive changes.

    A user with passkeys must use a passkey, because otherwise a thief of the mailbox could remove the
    passkeys. While a recovery has effect, mail is enough.
    """
    recovery = last.recovery
    is_recovering = recovery is not None and recovery.ready_at <= now < recovery.ends_at
    return SIGN_IN_METHODS if not last.has_passkeys or is_recovering else (PASSKEY, OPERATOR)


def require_recent_sign_in(tx: Tx, actor: Actor, *, any_method: bool = False) -> None:
    """Raise an error unless the last sign-in of the request's session is at most ten minutes ago.

    Requests with a token pass.

    Called before the body of a sensitive operation is read (`operations/operation.py`), and by the verbs that
    charge credits, which know the price. With `any_method`, which recoveries use, a sign-in by mail is enough
    even if the user has passkeys.

    Raises, in this order:
        SessionInvalid: the session ended after the request was authenticated.
        SignInRequired: the last sign-in is too old, is in the future because the clock was set back, or was
            by mail although the user has passkeys.
    """
    if actor.session_id is None:
        return
    last = session_store.find_sign_in(tx, actor.session_id)
    if last is None:
        raise SessionInvalid("This session has ended. Sign in again.")
    methods = SIGN_IN_METHODS if any_method else sufficient_sign_in_methods(last, tx.now)
    is_recent = tx.now - last.signed_in_at <= RECENT_SIGN_IN and not is_future(last.signed_in_at, tx.now)
    if last.how in methods and is_recent:
        return
    minutes = int(RECENT_SIGN_IN.total_seconds() // 60)
    sentence = f"This needs a sign-in within the last {minutes} minutes. Sign in again, then try again."
    if last.how not in methods:
        sentence = (
            f"This needs a sign-in with a passkey within the last {minutes} minutes. Sign in with a "
            "passkey, then try again. If you have lost your passkeys, start their recovery."
        )
    details = {"limit_seconds": int(RECENT_SIGN_IN.total_seconds()), "how": list(methods)}
    raise SignInRequired(sentence, details=details)
