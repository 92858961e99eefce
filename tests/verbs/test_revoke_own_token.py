"""Revoking a token with itself or with another token; on both databases."""

from sublet.accounts.tokens.tokens import revoke_own_token
from sublet.errors import TokenNotFound
from support.acting_tokens import acting, issue
from support.registry import Registry


def test_a_token_is_revoked_once(registry: Registry) -> None:
    actor, token = acting(issue(registry)), issue(registry)
    revoked = registry.write(revoke_own_token, actor, str(token.id))
    assert revoked.revoked_at == registry.now
    registry.advance(hours=1)
    before = registry.dump()
    assert registry.write(revoke_own_token, actor, str(token.id)) == revoked
    assert registry.dump() == before
    assert registry.doctor() == []


def test_refusals(registry: Registry) -> None:
    token = issue(registry)
    for other in (acting(issue(registry, scopes=["tokens:write"])), acting(issue(registry, "ben"))):
        registry.refused(TokenNotFound, revoke_own_token, other, str(token.id))
