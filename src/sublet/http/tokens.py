"""Handlers of the token endpoints, which extend the spec (docs/spec-choices.md, "Tokens")."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Concatenate, ParamSpec

from sublet.accounts.change_token import change_token
from sublet.accounts.create_token import create_token
from sublet.accounts.model import Token
from sublet.accounts.own_tokens import (
    acting_credential_of,
    find_acting_credential,
    find_own_token,
    list_own_tokens,
)
from sublet.accounts.revoke_own_token import revoke_own_token
from sublet.accounts.rotate_token import rotate_token
from sublet.accounts.tokens import IssuedToken
from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.http import response_structs
from sublet.http.conditional import only_if_match
from sublet.http.endpoints import Answer, Call
from sublet.http.idempotency import WriteResult, write_once
from sublet.http.paging import read_page
from sublet.http.render import token_shape
from sublet.http.request_structs import (
    ChangeTokenBody,
    NoBody,
    PageQuery,
    RotateBody,
    TokenBody,
    sent_restrictions,
)
from sublet.ids import Position
from sublet.organizations.token_notices import notify_of_token
from sublet.secret import Secret

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class _WithSecret(Outcome):
    """An outcome with a secret. The secret isn't stored, so a repeated request doesn't get it."""

    secret: Secret | None = None


async def list_tokens(call: Call[None, PageQuery]) -> Answer[response_structs.TokensAnswer]:
    """List tokens.

    Returns the user's tokens, newest first, also revoked and expired ones, but none that may do more than the token of the request.
    """

    def find(
        tx: Tx, limit: int, after: Position | None
    ) -> Iterator[tuple[Position, response_structs.TokenDetailShape]]:
        found = list_own_tokens(tx, find_acting_credential(tx, call.actor()), after)
        for each in islice(found, limit):
            yield Position(each.created_at, each.id), token_shape(each, call.registrant.user)

    items, page, headers = await read_page(call, "tokens", find)
    return Answer(response_structs.TokensAnswer(tokens=items, page=page), headers)


async def create_token_(call: Call[TokenBody, None]) -> Answer[response_structs.SecretAnswer]:
    """Create a token.

    The new token may do no more than the token of the request. `name` and `scopes` are required. A restriction that is left out is copied
    from the token of the request. Without `expires_at` the token expires in 30 days; it lives at most 365. Mails the user, and the owners of
    its organization. With `organization_id` it is for the names and credits
    of this organization, as far as the user's role there allows. Only this answer shows the secret.
    """
    body = call.body
    done = await write_once(
        call,
        201,
        _with_secret(create_token, "was created", call.client.public_url),
        call.actor(),
        body.name,
        sent_restrictions(body),
        body.organization_id,
    )
    return await _secret_answer(call, done)


async def get_token(call: Call[None, None]) -> Answer[response_structs.TokenAnswer]:
    """Get a token.

    Returns the token with this id. A token with more rights than the request's token is not found.
    """
    return Answer(await call.context.db.read(_answer, call, call.path["id"]))


async def change_token_(call: Call[ChangeTokenBody, None]) -> Answer[response_structs.TokenAnswer]:
    """Change a token.

    Changes the token's name and restrictions. A member that is left out keeps its value; null lifts the restriction. A new
    `expires_at` is at most 365 days from now. If the token may do more than before, mails the user, and the owners of its organization.
    """
    verb = _if_match(call, _change(call.client.public_url))
    done = await write_once(
        call, 200, verb, call.actor(), call.path["id"], call.body.name, sent_restrictions(call.body)
    )
    return await _token_answer(call, done)


async def revoke_token_(call: Call[NoBody, None]) -> Answer[response_structs.TokenAnswer]:
    """Revoke a token.

    The API refuses a revoked token. A token may revoke itself. The tokens that it created stay valid.
    """
    done = await write_once(call, 200, _if_match(call, _revoke), call.actor(), call.path["id"])
    return await _token_answer(call, done)


async def rotate_token_(call: Call[RotateBody, None]) -> Answer[response_structs.SecretAnswer]:
    """Give a token a new secret.

    The current secret stays valid for `overlap_seconds`. A secret that was replaced earlier becomes invalid now. A token may rotate itself.
    Mails the user, and the owners of its organization.
    """
    verb = _if_match(call, _with_secret(rotate_token, "got a new secret", call.client.public_url))
    done = await write_once(call, 200, verb, call.actor(), call.path["id"], call.body.overlap_seconds)
    return await _secret_answer(call, done)


def _with_secret(
    verb: Callable[Concatenate[Tx, P], IssuedToken], what: str, public_url: str
) -> Callable[Concatenate[Tx, P], Outcome]:
    """Return a verb that also mails what happened to the token."""

    def run(tx: Tx, /, *args: P.args, **kwargs: P.kwargs) -> Outcome:
        issued = verb(tx, *args, **kwargs)
        notify_of_token(tx, issued.user, issued.token, what, public_url)
        return _WithSecret(issued.token.id, secret=issued.secret)

    return run


def _change(
    public_url: str,
) -> Callable[[Tx, Actor, str, str | None, dict[str, Any]], Outcome]:
    """Return a verb that changes a token, and mails if the token may do more than before."""

    def run(tx: Tx, actor: Actor, identifier: str, name: str | None, changes: dict[str, Any]) -> Outcome:
        done = change_token(tx, actor, identifier, name, changes)
        if done.widened:
            what = f"may do more than before, by {', '.join(done.widened)}"
            notify_of_token(tx, done.user, done.token, what, public_url)
        return Outcome(done.token.id)

    return run


def _revoke(tx: Tx, actor: Actor, identifier: str) -> Outcome:
    return Outcome(revoke_own_token(tx, actor, identifier).id)


def _if_match(
    call: Call[Any, Any], verb: Callable[Concatenate[Tx, P], Outcome]
) -> Callable[Concatenate[Tx, P], Outcome]:
    return only_if_match(call, verb, lambda tx: _answer(tx, call, call.path["id"]))


def _answer(tx: Tx, call: Call[Any, Any], identifier: str) -> response_structs.TokenAnswer:
    acting = find_acting_credential(tx, call.actor())
    return response_structs.TokenAnswer(token=_shape(call, find_own_token(tx, acting, identifier)))


def _shape(call: Call[Any, Any], token: Token) -> response_structs.TokenDetailShape:
    return token_shape(token, call.registrant.user)


async def _token_answer(call: Call[Any, Any], done: WriteResult) -> Answer[response_structs.TokenAnswer]:
    shape = await _read_token(call, done)
    return done.answer(response_structs.TokenAnswer(token=shape))


async def _secret_answer(call: Call[Any, Any], done: WriteResult) -> Answer[response_structs.SecretAnswer]:
    shape = await _read_token(call, done)
    secret = done.outcome.secret if isinstance(done.outcome, _WithSecret) else None
    answer = response_structs.SecretAnswer(
        token=shape, secret=secret.reveal() if secret is not None else None
    )
    return done.answer(answer)


async def _read_token(call: Call[Any, Any], done: WriteResult) -> response_structs.TokenDetailShape:
    """Return the shape of the token that was just written, with the rights that the acting token had before the write."""

    def read(tx: Tx) -> response_structs.TokenDetailShape:
        token = find_own_token(tx, acting_credential_of(call.registrant), str(done.outcome.id))
        return _shape(call, token)

    return await call.context.db.read(read)
