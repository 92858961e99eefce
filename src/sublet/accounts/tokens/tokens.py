"""The verbs of tokens: create, change, rotate and revoke them, and which tokens a token sees."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from msgspec import Struct

from sublet import audit
from sublet.accounts import store
from sublet.accounts.fields import check_text
from sublet.accounts.find import lock_acting_user, refuse_ended_session
from sublet.accounts.model import Registrant, Token, User
from sublet.accounts.tokens.issue import (
    IssuedToken,
    add_token,
    check_token,
    digest,
    new_token,
    restrictions_for_audit,
    revoke,
)
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, FieldError, TokenNotFound, validation_failed
from sublet.ids import Position, parse_id
from sublet.restrictions import UNRESTRICTED, Restrictions, check_restrictions
from sublet.structs import replace

LIVE_TOKENS_MAX = 100
"""The maximum number of a user's tokens that are neither revoked nor expired. The operator may exceed it."""
LIFE_DEFAULT = timedelta(days=30)
OWN_LIFE_MAX = timedelta(days=365, hours=1)
"""The longest life of a token that its user creates or changes: a year, and an hour for clients whose clock
is ahead.

Only the operator issues tokens that live longer.
"""
OVERLAP_SECONDS_DEFAULT = 3_600
OVERLAP_SECONDS_MAX = 86_400


class ActingCredential(Struct, frozen=True):
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
    if acting.organization_id != token.organization_id and not _may_act_for_others(acting):
        return False
    # A rotation reveals a secret. With the secret of a token of another budget, the acting token could exceed
    # its own budget.
    same_budget = acting.budget_id is None or acting.budget_id == budget_of(token)
    return same_budget and not acting.restrictions.exceeded_by(token.restrictions)


def _may_act_for_others(acting: ActingCredential) -> bool:
    """True if the credential may create and see tokens of the user for all organizations.

    A token that is restricted to some names may not, because organizations hold other names.
    """
    return acting.organization_id is None and acting.restrictions.allows_all_names


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


def create_token(
    tx: Tx,
    actor: Actor,
    name: str | None,
    wanted: Mapping[str, Any],
    organization_id: int | None = None,
    *,
    is_update_key: bool = False,
) -> IssuedToken:
    """Create a token that may do no more than the token or session of the request, and return it with its
    secret.

    The new token acts for the organization with this id, by default for the organization of the acting token.
    The id of the user's own organization means the user. A token of an organization, or for some names, can
    create tokens only for the organization that it acts for itself.

    `wanted` maps fields of `Restrictions` to their values; None lifts a restriction. A missing value is
    copied from the acting token, except that `scopes` are required, and `expires_at` is at most 30 days from
    now. A token lives at most a year.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        TokenRevoked, TokenExpired, SessionInvalid: the request's own token or session ended after it was
            authenticated.
        ValidationFailed: the name, restrictions or organization_id are invalid; or, if they are valid,
            restrictions allow more than the acting token (`exceeds_token`).
        Conflict: the user has the maximum number of tokens.
    """
    user = lock_acting_user(tx, actor)
    acting = find_acting_credential(tx, actor)
    name, errors = check_text("name", name)
    default = replace(
        acting.restrictions, scopes=(), expires_at=_default_expiry(acting.restrictions.expires_at, tx.now)
    )
    restrictions, restriction_errors = check_restrictions(replace(default, **wanted), tx.now)
    organization_id = organization_id or acting.organization_id
    if organization_id == user.organization_id:
        organization_id = None
    organization_errors = _organization_errors(tx, acting, organization_id)
    errors = [*errors, *restriction_errors, *organization_errors]
    if errors := errors or excess_errors(acting, restrictions) or life_errors(restrictions, tx.now):
        raise validation_failed(errors)
    if store.count_live_tokens(tx, user.id) >= LIVE_TOKENS_MAX:
        raise Conflict(
            f"You have {LIVE_TOKENS_MAX} tokens, which is the maximum. Delete a token that you don't need."
        )
    return add_token(
        tx,
        actor,
        user,
        name,
        restrictions,
        budget_token_id=acting.budget_id,
        organization_id=organization_id,
        is_update_key=is_update_key,
    )


def life_errors(restrictions: Restrictions, now: datetime) -> list[FieldError]:
    """Return an error if a token would live longer than `OWN_LIFE_MAX`."""
    latest = now + OWN_LIFE_MAX
    if restrictions.expires_at is not None and restrictions.expires_at <= latest:
        return []
    sentence = (
        f"A token lives at most {OWN_LIFE_MAX.days} days. Give {latest:%Y-%m-%dT%H:%M:%SZ} or earlier, or "
        "ask the operator for a longer token."
    )
    return [FieldError("expires_at", "value_invalid", sentence)]


def _organization_errors(tx: Tx, acting: ActingCredential, organization_id: int | None) -> list[FieldError]:
    if organization_id == acting.organization_id:
        return []
    if not _may_act_for_others(acting):
        sentence = (
            "This request acts for another organization, or its token is for some names only. Use a token of "
            "your own for all names, or a session without Sublet-Organization."
        )
        return [FieldError("organization_id", "exceeds_token", sentence)]
    if organization_id is None or store.find_role(tx, acting.user_id, organization_id) is None:
        sentence = (
            "You are not a member of this organization. Check its id in the list of your organizations."
        )
        return [FieldError("organization_id", "value_invalid", sentence)]
    return []


def _default_expiry(acting_expires_at: datetime | None, now: datetime) -> datetime:
    default = now + LIFE_DEFAULT
    return default if acting_expires_at is None else min(default, acting_expires_at)


class ChangedToken(NamedTuple):
    """A token after a change, its user, and the restrictions that allow more than before."""

    token: Token
    user: User
    widened: list[str]


def change_token(
    tx: Tx, actor: Actor, identifier: str, name: str | None, changes: Mapping[str, Any]
) -> ChangedToken:
    """Change a token, and return it.

    `changes` maps fields of `Restrictions` to their new values; None lifts a restriction.

    The change applies from the next request on. A missing or equal value changes nothing and leaves no audit
    event. A new `expires_at` is at most a year from now.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        TokenRevoked, TokenExpired, SessionInvalid: the request's own token or session ended after it was
            authenticated.
        TokenNotFound: the user has no such token, or the token may do more than the token of the request.
        Conflict: the token was revoked or has expired.
        ValidationFailed: the name or restrictions are invalid; or, if they are valid, restrictions allow more
            than the request's token (`exceeds_token`).
    """
    user = lock_acting_user(tx, actor)
    acting = find_acting_credential(tx, actor)
    token = find_own_token(tx, acting, identifier)
    refuse_ended(tx, token)
    name, errors = (token.name, []) if name is None else check_text("name", name)
    restrictions, restriction_errors = check_restrictions(replace(token.restrictions, **changes), tx.now)
    errors = [*errors, *restriction_errors] or excess_errors(acting, restrictions)
    if not errors and restrictions.expires_at != token.expires_at:
        errors = life_errors(restrictions, tx.now)
    if errors:
        raise validation_failed(errors)
    before = {"name": token.name, **restrictions_for_audit(token.restrictions)}
    after = {"name": name, **restrictions_for_audit(restrictions)}
    changed = {field: value for field, value in after.items() if value != before[field]}
    if not changed:
        return ChangedToken(token, user, [])
    audit.record(
        tx, actor, "token.change", token.id, before={field: before[field] for field in changed}, after=changed
    )
    stored = store.update_token(tx, token.id, name=name, **store.restriction_columns(restrictions))
    return ChangedToken(stored, user, token.restrictions.exceeded_by(restrictions))


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
