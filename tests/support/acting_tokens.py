"""Tokens of the users of `support.registry`, and the actors that send requests with them."""

from typing import Any

from sublet.accounts import store
from sublet.accounts.model import Token
from sublet.accounts.tokens.issue import issue_token
from sublet.audit import Actor
from support.registry import OPERATOR, Registry


def issue(registry: Registry, name: str = "ann", **restrictions: Any) -> Token:
    """Issue a token as the operator."""
    return registry.write(issue_token, OPERATOR, f"{name}@example.org", "token", **restrictions).token


def acting(token: Token) -> Actor:
    """Return the actor of a request with this token."""
    return Actor("user", token.user_id, token.id, restrictions=token.restrictions)


def stored(registry: Registry, token: Token) -> Token:
    """Return the stored token."""
    found = registry.read(store.find_token, token.id)
    assert found is not None
    return found
