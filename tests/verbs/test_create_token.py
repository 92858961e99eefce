"""Creating a token with a token or session; on both databases."""

from datetime import timedelta
from typing import Any

import pytest

from sublet.accounts.authenticate import authenticate
from sublet.accounts.model import Token
from sublet.accounts.tokens.issue import revoke_token
from sublet.accounts.tokens.tokens import (
    LIFE_DEFAULT,
    LIVE_TOKENS_MAX,
    OWN_LIFE_MAX,
    create_token,
    find_acting_credential,
    list_own_tokens,
)
from sublet.errors import Conflict, TokenRevoked, ValidationFailed
from sublet.restrictions import Restrictions
from support.acting_tokens import acting, issue
from support.registry import OPERATOR, Registry

READ = {"scopes": ("account:read",)}


def create(registry: Registry, token: Token, **given: Any) -> Token:
    return registry.write(create_token, acting(token), "child", READ | given).token


def test_a_token_is_created_with_the_given_values(registry: Registry) -> None:
    parent = issue(registry)
    given = {
        "scopes": ("tickets:read", "account:read"),
        "names": ("A.example.test",),
        "domains": ("example.test",),
        "networks": ("192.0.2.0/24",),
        "daily_credits": 5,
        "expires_at": registry.now + OWN_LIFE_MAX,
    }
    issued = registry.write(create_token, acting(parent), " ci ", given)
    assert (issued.token.name, issued.token.user_id) == ("ci", parent.user_id)
    assert issued.token.restrictions == Restrictions(
        ("account:read", "tickets:read"),
        ("a.example.test",),
        ("example.test",),
        ("192.0.2.0/24",),
        5,
        registry.now + OWN_LIFE_MAX,
    )
    found = registry.run(authenticate(registry.db, issued.secret))
    assert found.token == issued.token
    assert issued.secret.reveal() not in str(registry.dump())
    assert registry.doctor() == []


def test_missing_values_are_copied_from_the_creating_token(registry: Registry) -> None:
    free = create(registry, issue(registry))
    assert free.restrictions == Restrictions(("account:read",), expires_at=registry.now + LIFE_DEFAULT)
    parent = issue(
        registry,
        names=["*.example.test"],
        domains=["example.test"],
        networks=["192.0.2.0/24"],
        daily_credits=5,
        expires_in_days=3,
    )
    child = create(registry, parent)
    assert child.restrictions == Restrictions(
        ("account:read",),
        ("*.example.test",),
        ("example.test",),
        ("192.0.2.0/24",),
        5,
        registry.now + timedelta(days=3),
    )
    assert (free.budget_token_id, child.budget_token_id) == (None, parent.id)
    grandchild = create(registry, create(registry, parent, scopes=("account:read", "tokens:write")))
    assert grandchild.budget_token_id == parent.id


@pytest.mark.parametrize(
    "more", [{"scopes": ("credits:spend",)}, {"names": None}, {"daily_credits": 6}], ids=str
)
def test_a_token_can_not_create_a_token_that_may_do_more(registry: Registry, more: dict[str, Any]) -> None:
    parent = issue(
        registry, scopes=["account:read", "tokens:write"], names=["*.example.test"], daily_credits=5
    )
    with registry.refuses(ValidationFailed) as caught:
        create(registry, parent, **more)
    assert [(each.field, each.code) for each in caught[0].errors] == [(*more, "exceeds_token")]


def test_refusals(registry: Registry) -> None:
    parent = issue(registry)
    caught = registry.refused(ValidationFailed, create_token, acting(parent), None, {"daily_credits": -1})
    assert [each.field for each in caught.errors] == ["name", "scopes", "daily_credits"]
    for _ in range(LIVE_TOKENS_MAX - 1):
        last = create(registry, parent)
    with registry.refuses(Conflict):
        create(registry, parent)
    registry.write(revoke_token, OPERATOR, last.id)
    create(registry, parent)
    registry.advance(days=31)
    create(registry, parent)  # The other tokens have expired.
    registry.write(revoke_token, OPERATOR, parent.id)
    with registry.refuses(TokenRevoked):
        create(registry, parent)


def test_a_token_sees_the_tokens_that_may_do_no_more(registry: Registry) -> None:
    every = issue(registry)
    issue(registry, "ben")
    named = issue(registry, names=["*.example.test"])
    narrower = issue(registry, scopes=["account:read"], names=["a.example.test"])
    budget = issue(registry, daily_credits=5)
    smaller = issue(registry, daily_credits=4)
    shared = create(registry, budget)

    def seen(token: Token) -> set[int]:
        return {
            each.id
            for each in registry.read(
                lambda tx: list(list_own_tokens(tx, find_acting_credential(tx, acting(token)), None))
            )
        }

    assert seen(every) == {each.id for each in (every, named, narrower, budget, smaller, shared)}
    assert seen(named) == {named.id, narrower.id}
    assert seen(narrower) == {narrower.id}
    # With the secret of `smaller` it could spend 4 credits more.
    assert seen(budget) == {budget.id, shared.id}
