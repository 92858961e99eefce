"""Find the tokens that a token or session may see and change (docs/spec-choices.md, "Tokens").

A token sees its user's tokens that may do no more than the token itself. A session sees all its user's
tokens; if the session acts for an organization, only the tokens for that organization.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sublet.accounts import store
from sublet.accounts.find import refuse_ended_session
from sublet.accounts.model import Registrant, Token, User
from sublet.accounts.tokens.issue import check_token
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, FieldError, TokenNotFound
from sublet.ids import Position, parse_id
from sublet.restrictions import UNRESTRICTED, Restrictions


@dataclass(frozen=True, slots=True)
class ActingCredential:
    """The token or session of a request: its user, and what it may do.

    `organization_id` is None if the credential acts for its user. `budget_id` is the `budget_token_id` of the
    tokens that the credential creates, None without `daily_credits`.
    """

    user_id: int
    restrictions: Restrictions
    budget_id: int | None = None
    organization_id: int | None = None


def find_acting_credential(tx: Tx, actor: Actor) -> ActingCredential:
    """Return the request's token or session as it is stored now, because it may have changed after the
    request was authenticated.

    Raises:
        TokenRevoked, TokenExpired: the token was revoked or has expired after the request was authenticated.
        SessionInvalid: the session has ended after the request was authenticated.
    """
    if actor.session_id is not None and actor.user_id is not None:
        refuse_ended_session(tx, actor)
        account = store.find_user(tx, actor.account_id) if actor.account_id is not None else None
        return _of_session(actor.user_id, account)
    token = store.find_token(tx, actor.token_id) if actor.token_id is not None else None
    return _of_token(check_token(token, tx.now))


def acting_credential_of(registrant: Registrant) -> ActingCredential:
    """Return the request's token or session as it was stored when the request was authenticated."""
    if registrant.token is None:
        return _of_session(registrant.user.id, registrant.account)
    return _of_token(registrant.token)


def _of_session(user_id: int, account: User | None) -> ActingCredential:
    return ActingCredential(user_id, UNRESTRICTED, None, None if account is None else account.organization_id)


def _of_token(token: Token) -> ActingCredential:
    budget_id = budget_of(token) if token.daily_credits is not None else None
    return ActingCredential(token.user_id, token.restrictions, budget_id, token.organization_id)


def list_own_tokens(tx: Tx, acting: ActingCredential, after: Position | None) -> Iterator[Token]:
    """Yield the tokens that the acting token may see, including revoked and expired
    tokens, the newest first.
    """
    return (each for each in store.stream_tokens(tx, acting.user_id, after) if _may_act_on(acting, each))


def find_own_token(tx: Tx, acting: ActingCredential, identifier: str) -> Token:
    """Return the token with this id, if the acting token may see it.

    Raises:
        TokenNotFound: no token has this id, or the acting token may not see it. The message is the same.
    """
    token_id = parse_id(identifier)
    token = store.find_token(tx, token_id) if token_id is not None else None
    if token is None or token.user_id != acting.user_id or not _may_act_on(acting, token):
        raise TokenNotFound("You have no such token. Check its id in the list of your tokens.")
    return token


def _may_act_on(acting: ActingCredential, token: Token) -> bool:
    if acting.organization_id not in (None, token.organization_id):
        return False
    # A rotation reveals a secret. With the secret of a token of another budget, the acting token could exceed
    # its own budget.
    same_budget = acting.budget_id is None or acting.budget_id == budget_of(token)
    return same_budget and not acting.restrictions.exceeded_by(token.restrictions)


def budget_of(token: Token) -> int:
    """Return the id under which a token's charges are counted."""
    return token.budget_token_id or token.id


def refuse_ended(tx: Tx, token: Token) -> None:
    """Raise `Conflict` if a token was revoked or has expired."""
    if token.revoked_at is not None or (token.expires_at is not None and token.expires_at <= tx.now):
        raise Conflict("This token was revoked or has expired. Use another token, or create one.")


def excess_errors(acting: ActingCredential, wanted: Restrictions) -> list[FieldError]:
    """Return an error for each restriction in `wanted` that allows more than the acting token."""
    return [
        FieldError(
            field,
            "exceeds_token",
            f"This allows more than the token of this request. Give no more than that token's `{field}`.",
        )
        for field in acting.restrictions.exceeded_by(wanted)
    ]
