"""Issuing and revoking tokens as the operator."""

from pathlib import Path

import pytest

from sublet.accounts.authenticate import authenticate
from sublet.accounts.tokens.issue import issue_token, revoke_token
from sublet.errors import TokenExpired, TokenRevoked
from sublet.restrictions import SCOPES
from support.operator_registry import ANNA, Registry, small_registry


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return small_registry(tmp_path)


def test_a_token_is_valid_until_it_expires_or_is_revoked_and_its_secret_is_not_stored(
    registry: Registry,
) -> None:
    issued = registry.do(
        issue_token, ANNA, "t", scopes=["tickets:read", "account:read", "tickets:read"], expires_in_days=30
    )
    assert issued.token.scopes == ("account:read", "tickets:read")
    assert registry.use(lambda database: authenticate(database, issued.secret)).user.email == ANNA
    assert issued.secret.reveal() not in str(registry.rows())
    registry.pass_days(30)
    with pytest.raises(TokenExpired):
        registry.use(lambda database: authenticate(database, issued.secret))
    forever = registry.do(issue_token, ANNA, "forever")
    assert forever.token.scopes == SCOPES
    assert forever.token.expires_at is None
    registry.do(revoke_token, forever.token.id)
    with pytest.raises(TokenRevoked):
        registry.use(lambda database: authenticate(database, forever.secret))
