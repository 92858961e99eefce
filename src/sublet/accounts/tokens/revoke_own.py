"""Revoke one of the user's own tokens (DELETE /tokens/{id}, an extension; docs/spec-choices.md, "Tokens")."""

from sublet.accounts.find import lock_acting_user
from sublet.accounts.model import Token
from sublet.accounts.tokens.issue import revoke
from sublet.accounts.tokens.own import find_acting_credential, find_own_token
from sublet.audit import Actor
from sublet.db import Tx


def revoke_own_token(tx: Tx, actor: Actor, identifier: str) -> Token:
    """Revoke a token permanently, starting with the next request, and return it.

    Revoking it again changes nothing.

    A token may revoke itself. Tokens that it created stay valid.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        TokenRevoked, TokenExpired, SessionInvalid: the request's own token or session ended after it was
            authenticated.
        TokenNotFound: the user has no such token, or the token may do more than the token of the request.
    """
    lock_acting_user(tx, actor)
    token = find_own_token(tx, find_acting_credential(tx, actor), identifier)
    return token if token.revoked_at is not None else revoke(tx, actor, token)
