"""A registry for tests of the operator's verbs and commands. Only the test moves its clock."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import select

from sublet.accounts.users import add_user
from sublet.audit import Actor
from sublet.credits.entries import grant_credits
from sublet.credits.model import Payable
from sublet.db import Database, Tx, open_database
from sublet.migrations import upgrade
from sublet.platform_domains.offers import offer_mode
from sublet.platform_domains.platform_domain import add_platform_domain
from sublet.schema import metadata
from sublet.subdomains.model import Register
from sublet.subdomains.register import register
from sublet.subdomains.store import list_unreleased_names
from support.databases import on_postgresql, registry_address, template
from support.reading import reading, writing_sqlite

P = ParamSpec("P")
R = TypeVar("R")
OPERATOR = Actor(kind="operator", name="olga", reason="because")
ANNA, BOB = "anna@example.net", "bob@example.net"


def _address(folder: Path, *, like: str | None = None) -> str:
    """Return the address of a folder's registry, which is a copy of the registry `like`."""
    if on_postgresql():
        return registry_address(folder, like=like)
    if like is not None:
        shutil.copy(like.removeprefix("sqlite:///"), folder / "sublet.db")
    return f"sqlite:///{folder}/sublet.db"


@cache
def _template() -> str:
    url = _address(template("template"))
    upgrade(url)
    return url


@dataclass(slots=True)
class Registry:
    """A database. `now` is the instant of all its transactions."""

    url: str
    now: datetime = field(default_factory=lambda: datetime(2026, 3, 1, 12, tzinfo=UTC))

    @property
    def path(self) -> Path:
        """The path of an SQLite registry."""
        assert self.url.startswith("sqlite:///")
        return Path(self.url.removeprefix("sqlite:///"))

    def use(self, fn: Callable[[Database], Awaitable[R]]) -> R:
        """Run a function that takes the database."""

        async def run() -> R:
            database = open_database(self.url, lambda: self.now, may_lose_writes=True)
            try:
                return await fn(database)
            finally:
                await database.close()

        return asyncio.run(run())

    def do(self, verb: Callable[Concatenate[Tx, Actor, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a verb as the operator."""
        return self.write(verb, OPERATOR, *args, **kwargs)

    def read(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        with reading(self.url) as connection:
            return fn(Tx(connection, self.now), *args, **kwargs)

    def write(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        if not self.url.startswith("sqlite:"):
            return self.use(lambda database: database.write(fn, *args, **kwargs))
        with writing_sqlite(self.url) as connection:
            return fn(Tx(connection, self.now), *args, **kwargs)

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return all rows of all tables, to check that a refusal changed nothing."""

        def ask(tx: Tx) -> dict[str, list[tuple[Any, ...]]]:
            return {
                name: [tuple(row) for row in tx.connection.execute(select(table))]
                for name, table in metadata.tables.items()
            }

        return self.read(ask)

    def events(self) -> list[dict[str, Any]]:
        """Return all audit events, oldest first."""
        table = metadata.tables["audit_events"]

        def ask(tx: Tx) -> list[dict[str, Any]]:
            return [dict(row) for row in tx.connection.execute(select(table).order_by(table.c.id)).mappings()]

        return self.read(ask)

    def pass_days(self, days: int) -> None:
        self.now += timedelta(days=days)

    def register(self, user_id: int, fqdn: str, mode: str | None = None, *nameservers: str) -> int:
        """Register a name for a user, with confirmation."""
        command = Register(
            fqdn=fqdn, registration_mode=mode, nameservers=nameservers, payable=Payable(confirm=True)
        )
        actor = Actor(kind="user", user_id=user_id)
        return self.write(lambda tx: register(tx, actor, command, free_quota=5)).id


def empty_registry(folder: Path) -> Registry:
    """Return a newly initialised registry."""
    return Registry(_address(folder, like=_template()))


def small_registry(folder: Path) -> Registry:
    """Return a registry with Anna (id 1, 100 credits), Bob (id 2, of Acme), and example.test with `free` and
    `plus` for 10 credits.

    Anna has two names: `alpha` (id 1) is free and delegated, `beta` (id 2) was charged (transfer 2) and isn't
    delegated.
    """
    return Registry(_address(folder, like=_small_template()))


@cache
def _small_template() -> str:
    registry = empty_registry(template("template"))
    registry.do(add_user, ANNA, "Anna")
    registry.do(add_user, BOB, "Bob", "Acme")
    registry.do(add_platform_domain, "example.test", {}, names_held=list_unreleased_names)
    registry.do(offer_mode, "example.test", "plus", price_credits=10)
    registry.do(grant_credits, ANNA, 100, "welcome")
    registry.register(1, "alpha.example.test", "free", "ns1.example.org", "ns2.example.org")
    registry.register(1, "beta.example.test", "plus")
    return registry.url
