"""Sessions of browsers: their secrets, how long they are valid, and which sign-in methods allow sensitive
changes (rules; no SQL).
"""

import secrets
from datetime import datetime, timedelta

from msgspec import Struct

from sublet.accounts.model import Session
from sublet.errors import SessionInvalid
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


class Recovery(Struct, frozen=True):
    """The recovery of a user who has lost the passkeys: from `ready_at` to `ends_at` a sign-in by mail is
    enough.
    """

    user_id: int
    asked_at: datetime
    ready_at: datetime
    ends_at: datetime


class SignIn(Struct, frozen=True):
    """The last sign-in of a session. `has_passkeys` and `recovery` are about the session's user."""

    signed_in_at: datetime
    how: str
    has_passkeys: bool
    recovery: Recovery | None


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
