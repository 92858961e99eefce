"""Sessions of browsers: their secrets, how long they are valid, and which sign-in is enough for what (rules; no SQL)."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from sublet.accounts.model import Session
from sublet.errors import SessionInvalid
from sublet.secret import Secret

MAIL, PASSKEY, OPERATOR = "mail", "passkey", "operator"
HOW = (MAIL, PASSKEY, OPERATOR)
"""The ways to sign in: a mailed code or link, a passkey, a link that the operator made."""
RECENT = timedelta(minutes=10)
"""How long after a sign-in a session may do what is sensitive."""
RECOVERY_WAIT = timedelta(hours=24)
"""How long after it was asked for a recovery begins to count."""
RECOVERY_OPEN = timedelta(days=7)
"""How long it then counts."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """The wish of a user who has lost the passkeys: from `ready_at` to `ends_at` a sign-in by mail is as good as one with a passkey."""

    user_id: int
    asked_at: datetime
    ready_at: datetime
    ends_at: datetime


@dataclass(frozen=True, slots=True)
class SignIn:
    """The last sign-in of a session: when and how, whether its user has passkeys, and the user's recovery."""

    signed_in_at: datetime
    how: str
    has_passkeys: bool
    recovery: Recovery | None


def new_session_secret() -> Secret:
    """Return a new secret of a session: 256 random bits."""
    return Secret(secrets.token_urlsafe(32))


def check_session(session: Session | None, now: datetime, idle: timedelta) -> Session:
    """Return the session if it is valid now: not expired, and used within `idle`.

    `last_used_at` may be up to an hour old, so an idle session ends up to an hour early.

    Raises:
        SessionInvalid: it isn't, or there is none.
    """
    if session is None or session.expires_at <= now or session.last_used_at + idle <= now:
        raise SessionInvalid("This session has ended. Sign in again.")
    return session


def sufficient_sign_in_methods(last: SignIn, now: datetime) -> tuple[str, ...]:
    """Return the ways to sign in that are enough for what is sensitive.

    Who has a passkey needs it: a thief of the mailbox could otherwise remove it. A recovery that is ready lifts this.
    """
    recovery = last.recovery
    is_recovering = recovery is not None and recovery.ready_at <= now < recovery.ends_at
    return HOW if not last.has_passkeys or is_recovering else (PASSKEY, OPERATOR)
