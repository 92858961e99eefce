"""Create a token with another one (POST /tokens, an extension; docs/spec-choices.md, "Tokens")."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sublet.accounts import store
from sublet.accounts.fields import check_text
from sublet.accounts.find import lock_acting_user
from sublet.accounts.own_tokens import Acting, excess_errors, find_acting
from sublet.accounts.recent_sign_in import require_recent_sign_in
from sublet.accounts.tokens import IssuedToken, add_token
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, FieldError, validation_failed
from sublet.restrictions import check_restrictions

LIVE_TOKENS_MAX = 100
"""The most tokens of a user that are neither revoked nor expired. Those that the operator issues count, but are not limited."""
LIFE_DEFAULT = timedelta(days=30)


def create_token(
    tx: Tx, actor: Actor, name: str | None, given: Mapping[str, Any], organization_id: int | None = None
) -> IssuedToken:
    """Create a token that may do no more than the token or session of the request, and return it with its secret.

    It is for the organization with this id, by default for that of the acting token. The user's own organization stands for the user. A token
    for an organization can't create one for the user or another organization.

    `given` has restrictions by the names of their fields; None lifts one. Without a value the token gets that of the acting token, but
    `scopes` are required, and `expires_at` is at most 30 days from now.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        TokenRevoked, TokenExpired, SessionInvalid: the token or session of the request was valid a moment ago.
        ValidationFailed: all invalid fields: name, restrictions and organization_id; then those in which it would be allowed more
            (`exceeds_token`).
        SignInRequired: the token may spend credits, and the session was not signed in within the last ten minutes.
        Conflict: the user has the maximum number of tokens.
    """
    user = lock_acting_user(tx, actor)
    acting = find_acting(tx, actor)
    name, errors = check_text("name", name)
    default = replace(
        acting.restrictions, scopes=(), expires_at=_default_expiry(acting.restrictions.expires_at, tx.now)
    )
    restrictions, restriction_errors = check_restrictions(replace(default, **given), tx.now)
    organization_id = organization_id or acting.organization_id
    if organization_id == user.organization_id:
        organization_id = None
    organization_errors = _organization_errors(tx, acting, organization_id)
    errors = [*errors, *restriction_errors, *organization_errors] or excess_errors(acting, restrictions)
    if errors:
        raise validation_failed(errors)
    if "credits:spend" in restrictions.scopes:
        require_recent_sign_in(tx, actor)
    if store.count_live_tokens(tx, user.id) >= LIVE_TOKENS_MAX:
        raise Conflict(f"You have {LIVE_TOKENS_MAX} tokens. Delete one that you don't need.")
    return add_token(
        tx,
        actor,
        user,
        name,
        restrictions,
        budget_token_id=acting.budget_id,
        organization_id=organization_id,
    )


def _organization_errors(tx: Tx, acting: Acting, organization_id: int | None) -> list[FieldError]:
    if organization_id == acting.organization_id:
        return []
    if acting.organization_id is not None:
        sentence = "This request acts for another organization. Use a token of your own, or a session without Sublet-Organization."
        return [FieldError("organization_id", "exceeds_token", sentence)]
    if organization_id is None or store.find_role(tx, acting.user_id, organization_id) is None:
        sentence = "You are no member of such an organization. Check the id; GET /organizations lists yours."
        return [FieldError("organization_id", "value_invalid", sentence)]
    return []


def _default_expiry(of_acting: datetime | None, now: datetime) -> datetime:
    default = now + LIFE_DEFAULT
    return default if of_acting is None else min(default, of_acting)
