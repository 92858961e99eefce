"""Changing a token with itself or with another token; on both databases."""

from datetime import timedelta
from typing import Any

from sublet.accounts.model import Token
from sublet.accounts.tokens.issue import revoke_token
from sublet.accounts.tokens.tokens import change_token
from sublet.errors import Conflict, TokenNotFound, ValidationFailed
from support.acting_tokens import acting, issue, stored
from support.registry import OPERATOR, Registry


def change(
    registry: Registry, acting_token: Token, token: Token, name: str | None = None, **given: Any
) -> Token:
    return registry.write(change_token, acting(acting_token), str(token.id), name, given).token


def test_given_values_change_and_all_others_stay(registry: Registry) -> None:
    acting_token = issue(registry)
    token = issue(registry, names=["a.example.test"], daily_credits=5)
    expires_at = registry.now + timedelta(days=9)
    changed = change(registry, acting_token, token, "ci", daily_credits=7, names=None, expires_at=expires_at)
    assert changed == stored(registry, token)
    assert (changed.name, changed.names, changed.daily_credits) == ("ci", None, 7)
    assert (changed.scopes, changed.expires_at, changed.created_at) == (
        token.scopes,
        expires_at,
        token.created_at,
    )
    before = registry.dump()
    assert change(registry, acting_token, token, "ci", daily_credits=7) == changed
    assert registry.dump() == before
    assert registry.doctor() == []


def test_a_token_may_narrow_itself_and_not_widen_itself_again(registry: Registry) -> None:
    token = issue(registry)
    narrowed = change(registry, token, token, scopes=("tokens:write",), names=("a.example.test",))
    for wider in ({"scopes": ("account:read",)}, {"names": None}, {"names": ("*.example.test",)}):
        with registry.refuses(ValidationFailed) as caught:
            change(registry, narrowed, token, **wider)
        assert [each.code for each in caught[0].errors] == ["exceeds_token"]
        # A request that was authenticated before the change can't do it either.
        with registry.refuses(ValidationFailed):
            change(registry, token, token, **wider)


def test_refusals(registry: Registry) -> None:
    acting_token, token = issue(registry), issue(registry)
    with registry.refuses(ValidationFailed) as caught:
        change(registry, acting_token, token, " ", scopes=(), expires_at=registry.now)
    assert [each.field for each in caught[0].errors] == ["name", "scopes", "expires_at"]
    limited = issue(registry, scopes=["tokens:write"])
    for other in (token, issue(registry, "ben")):
        with registry.refuses(TokenNotFound):
            change(registry, limited, other, "mine")
    registry.write(revoke_token, OPERATOR, token.id)
    with registry.refuses(Conflict):
        change(registry, acting_token, token, "late")
