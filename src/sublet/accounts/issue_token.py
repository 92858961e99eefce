"""Issue a token (the operator's `sublet token issue`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sublet import audit
from sublet.accounts import store
from sublet.accounts.fields import check_text
from sublet.accounts.find import find_user
from sublet.accounts.model import SCOPES, Token, User
from sublet.accounts.tokens import digest, new_token
from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.names import shown
from sublet.errors import FieldError, validation_failed
from sublet.secret import Secret

EXPIRES_IN_DAYS_MAX = 36_500


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token: the one time that its secret is there to be shown."""

    secret: Secret
    token: Token
    user: User


def issue_token(
    tx: Tx,
    actor: Actor,
    identifier: str,
    name: str,
    *,
    scopes: Sequence[str] = (),
    expires_in_days: int | None = None,
) -> IssuedToken:
    """Issue a token to a user, suspended or not (it may then read). No scopes means all, no days no expiry.

    Only the secret's digest is stored; the audit has neither.

    Raises, in this order:
        NotFound: no such user.
        ValidationFailed: all wrong fields: name, scopes, expires_in_days.
    """
    user = find_user(tx, identifier)
    name, errors = check_text("name", name)
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown:
        message = f"`{shown(unknown[0])}` is no scope; there are {', '.join(SCOPES)}."
        errors = [*errors, FieldError("scopes", "value_invalid", message)]
    if expires_in_days is not None and not 1 <= expires_in_days <= EXPIRES_IN_DAYS_MAX:
        message = f"A token expires in 1 to {EXPIRES_IN_DAYS_MAX} days; leave it out for one that doesn't."
        errors = [*errors, FieldError("expires_in_days", "value_invalid", message)]
    if errors:
        raise validation_failed(errors)
    secret = new_token()
    allowed = tuple(scope for scope in SCOPES if scope in scopes) if scopes else SCOPES
    expires_at = tx.now + timedelta(days=expires_in_days) if expires_in_days is not None else None
    token_id = store.insert_token(tx, user.id, name, digest(secret.reveal()), allowed, expires_at)
    audit.record(
        tx,
        actor,
        "token.issue",
        "token",
        token_id,
        after={
            "user_id": user.id,
            "name": name,
            "scopes": list(allowed),
            "expires_at": expires_at.isoformat() if expires_at else None,
        },
    )
    token = store.find_token(tx, token_id)
    assert token is not None  # noqa: S101 - just added
    return IssuedToken(secret, token, user)
