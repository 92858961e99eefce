"""Rotating a token's secret; on both databases."""

import pytest

from sublet.accounts.authenticate import authenticate
from sublet.accounts.tokens.issue import issue_token, revoke_token
from sublet.accounts.tokens.tokens import rotate_token
from sublet.errors import Conflict, TokenInvalid, TokenNotFound, ValidationFailed
from sublet.secret import Secret
from support.acting_tokens import acting, issue
from support.registry import OPERATOR, Registry


def is_valid(registry: Registry, secret: Secret) -> bool:
    try:
        registry.run(authenticate(registry.db, secret))
    except TokenInvalid:
        return False
    return True


@pytest.mark.parametrize(("overlap_seconds", "lasts_seconds"), [(None, 3600), (60, 60), (86_400, 86_400)])
def test_the_former_secret_is_valid_for_the_overlap(
    registry: Registry, overlap_seconds: int | None, lasts_seconds: int
) -> None:
    first = registry.write(issue_token, OPERATOR, "ann@example.org", "token", names=["a.example.test"])
    rotated = registry.write(rotate_token, acting(first.token), str(first.token.id), overlap_seconds)
    assert rotated.token == first.token
    assert rotated.secret.reveal() not in str(registry.dump())
    assert is_valid(registry, first.secret)
    registry.advance(seconds=lasts_seconds - 1)
    assert is_valid(registry, first.secret)
    registry.advance(seconds=1)
    assert not is_valid(registry, first.secret)
    assert is_valid(registry, rotated.secret)
    assert registry.doctor() == []


def test_at_most_two_secrets_are_valid(registry: Registry) -> None:
    first = registry.write(issue_token, OPERATOR, "ann@example.org", "token")
    actor, identifier = acting(first.token), str(first.token.id)
    second = registry.write(rotate_token, actor, identifier)
    third = registry.write(rotate_token, actor, identifier)
    assert [is_valid(registry, each.secret) for each in (first, second, third)] == [False, True, True]
    fourth = registry.write(rotate_token, actor, identifier, 0)
    assert [is_valid(registry, each.secret) for each in (second, third, fourth)] == [False, False, True]


def test_refusals(registry: Registry) -> None:
    acting_token, token = issue(registry), issue(registry)
    actor = acting(acting_token)
    for seconds in (-1, 86_401):
        registry.refused(ValidationFailed, rotate_token, actor, str(token.id), seconds)
    # The rotation would give the secret of a token that may do more.
    limited = acting(issue(registry, scopes=["tokens:write"]))
    registry.refused(TokenNotFound, rotate_token, limited, str(token.id))
    registry.write(revoke_token, OPERATOR, token.id)
    registry.refused(Conflict, rotate_token, actor, str(token.id))
