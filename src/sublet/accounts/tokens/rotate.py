"""Give a token a new secret (POST /tokens/{id}/rotate, an extension; docs/spec-choices.md, "Tokens")."""

from datetime import timedelta

from sublet import audit
from sublet.accounts import store
from sublet.accounts.find import lock_acting_user
from sublet.accounts.tokens.issue import IssuedToken, digest, new_token
from sublet.accounts.tokens.own import find_acting_credential, find_own_token, refuse_ended
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, FieldError, validation_failed

OVERLAP_SECONDS_DEFAULT = 3_600
OVERLAP_SECONDS_MAX = 86_400


def rotate_token(tx: Tx, actor: Actor, identifier: str, overlap_seconds: int | None = None) -> IssuedToken:
    """Give a token a new secret, and return both.

    The present secret stays valid for `overlap_seconds`, by default an hour.

    A secret that an earlier rotation replaced becomes invalid now, so that a token has at most two valid
    secrets.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        TokenRevoked, TokenExpired, SessionInvalid: the request's own token or session ended after it was
            authenticated.
        TokenNotFound: the user has no such token, or the token may do more than the token of the request.
        Conflict: the token was revoked or has expired, or is an update key.
        ValidationFailed: `overlap_seconds` is below 0 or more than a day.
    """
    user = lock_acting_user(tx, actor)
    token = find_own_token(tx, find_acting_credential(tx, actor), identifier)
    refuse_ended(tx, token)
    if token.is_update_key:
        raise Conflict(
            "This is an update key, whose secret can't change. Create another key, then revoke this one."
        )
    overlap = OVERLAP_SECONDS_DEFAULT if overlap_seconds is None else overlap_seconds
    if not 0 <= overlap <= OVERLAP_SECONDS_MAX:
        message = f"Give 0 to {OVERLAP_SECONDS_MAX:,} seconds."
        raise validation_failed([FieldError("overlap_seconds", "value_invalid", message)])
    secret = new_token()
    until = tx.now + timedelta(seconds=overlap)
    audit.record(tx, actor, "token.rotate", token.id, after={"former_until": until.isoformat()})
    return IssuedToken(secret, store.replace_secret(tx, token.id, digest(secret.reveal()), until), user)
