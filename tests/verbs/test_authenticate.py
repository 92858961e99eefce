"""Authenticating a token: a malformed one causes no query, and a remembered one expires."""

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from sublet.accounts.authenticate import authenticate
from sublet.accounts.tokens.issue import new_token
from sublet.db import Database, Query
from sublet.errors import TokenInvalid
from sublet.secret import Secret


class NotAskedError(Exception):
    """The database was queried."""


class NoDatabase:
    """A database that must not be used."""

    async def fetch(self, _query: Query[Any], /, **_parameters: object) -> Any:
        raise NotAskedError

    async def fetch_remembered(self, _query: Query[Any], /, **_parameters: object) -> Any:
        raise NotAskedError

    def now(self) -> datetime:
        return datetime(2026, 11, 22, tzinfo=UTC)


def ask(token: Secret) -> None:
    asyncio.run(authenticate(cast("Database", NoDatabase()), token))


@pytest.mark.parametrize("change", ["", "x", "last", "first"])
def test_a_malformed_token_makes_no_query(change: str) -> None:
    token = new_token().reveal()
    other = "a" if token[-1] != "a" else "b"
    text = {"": "", "x": token + "x", "last": token[:-1] + other, "first": "Sublet_" + token[7:]}[change]
    with pytest.raises(TokenInvalid):
        ask(Secret(text))


def test_a_well_formed_token_makes_a_query() -> None:
    with pytest.raises(NotAskedError):
        ask(new_token())
