"""Revoke a token with another one, or with itself (DELETE /tokens/{id}, an extension; docs/spec-choices.md, "Tokens")."""

from sublet.accounts.find import lock_acting_user
from sublet.accounts.model import Token
from sublet.accounts.own_tokens import find_acting, find_own_token
from sublet.accounts.tokens import revoke
from sublet.audit import Actor
from sublet.db import Tx


def revoke_own_token(tx: Tx, actor: Actor, identifier: str) -> Token:
    """Revoke a token permanently, from the next request on. Revoking it again changes nothing.

    Tokens that it created stay.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        TokenRevoked, TokenExpired, SessionInvalid: the token or session of the request was valid a moment ago.
        TokenNotFound: the user has no such token, or it may do more than the token of the request.
    """
    lock_acting_user(tx, actor)
    token = find_own_token(tx, find_acting(tx, actor), identifier)
    return token if token.revoked_at is not None else revoke(tx, actor, token)
