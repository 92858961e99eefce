"""Revoke a token (the operator's `sublet token revoke`)."""

from sublet import audit
from sublet.accounts import store
from sublet.accounts.model import Token
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, NotFound


def revoke_token(tx: Tx, actor: Actor, token_id: int) -> Token:
    """Make a token worthless from the next request on; for ever.

    Raises, in this order:
        NotFound: no such token.
        Conflict: revoked already.
    """
    token = store.find_token(tx, token_id)
    if token is None:
        raise NotFound(f"There is no token {token_id}. See `sublet token list`.")
    if token.revoked_at is not None:
        raise Conflict(f"The token {token_id} was revoked already. No action needed.")
    store.revoke_token(tx, token_id)
    audit.record(
        tx,
        actor,
        "token.revoke",
        "token",
        token_id,
        after={"user_id": token.user_id, "name": token.name, "revoked_at": tx.now.isoformat()},
    )
    revoked = store.find_token(tx, token_id)
    assert revoked is not None  # noqa: S101 - tokens are never deleted
    return revoked
