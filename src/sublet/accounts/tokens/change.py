"""Change the name and restrictions of a token (PATCH /tokens/{id}, an extension; docs/spec-choices.md,
"Tokens").
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from sublet import audit
from sublet.accounts import store
from sublet.accounts.fields import check_text
from sublet.accounts.find import lock_acting_user
from sublet.accounts.model import Token, User
from sublet.accounts.tokens.create import life_errors
from sublet.accounts.tokens.issue import restrictions_for_audit
from sublet.accounts.tokens.own import excess_errors, find_acting_credential, find_own_token, refuse_ended
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import validation_failed
from sublet.restrictions import check_restrictions


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
