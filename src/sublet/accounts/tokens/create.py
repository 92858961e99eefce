"""Create a token with a token or session (POST /tokens, an extension; docs/spec-choices.md, "Tokens")."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sublet.accounts import store
from sublet.accounts.fields import check_text
from sublet.accounts.find import lock_acting_user
from sublet.accounts.tokens.issue import IssuedToken, add_token
from sublet.accounts.tokens.own import ActingCredential, excess_errors, find_acting_credential
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, FieldError, validation_failed
from sublet.restrictions import Restrictions, check_restrictions

LIVE_TOKENS_MAX = 100
"""The maximum number of a user's tokens that are neither revoked nor expired. The operator may exceed it."""
LIFE_DEFAULT = timedelta(days=30)
OWN_LIFE_MAX = timedelta(days=365, hours=1)
"""The longest life of a token that its user creates or changes: a year, and an hour for clients whose clock
is ahead.

Only the operator issues tokens that live longer.
"""


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
    The id of the user's own organization means the user. A token of an organization can create tokens only
    for this organization.

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
    if acting.organization_id is not None:
        sentence = (
            "This request acts for another organization. Use a token of your own, or a session without "
            "Sublet-Organization."
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
