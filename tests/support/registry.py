"""A registry for tests of verbs: a fresh database with a clock that only the test moves.

There is no service: only the verbs that the test calls run, and only `publish` publishes.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Concatenate, ParamSpec, TypeVar

import pytest
from sqlalchemy import func, select

from sublet.accounts.users import add_user
from sublet.audit import Actor
from sublet.credits.coupons import CouponTerms, add_coupon
from sublet.credits.model import Outcome, Payable
from sublet.credits.movements import grant_credits
from sublet.credits.store import find_balance
from sublet.db import Database, Tx, open_database
from sublet.dns.types import Record
from sublet.doctor.checks import check_all
from sublet.doctor.model import Violation
from sublet.errors import Refusal
from sublet.http.idempotency_store import idempotency_keys  # noqa: F401 - the dump has every table
from sublet.migrations import upgrade
from sublet.platform_domains.offers import offer_mode
from sublet.platform_domains.platform_domain import add_platform_domain
from sublet.platform_domains.store import update_platform_domain
from sublet.primaries.plan import plan_changes
from sublet.primaries.publishing import Batch, Result, begin_publication, record_publication
from sublet.schema import metadata
from sublet.subdomains import store
from sublet.subdomains.milestones import SweepDates
from sublet.subdomains.model import OperatorPermission, Register, Subdomain
from sublet.subdomains.register import register
from sublet.subdomains.store import list_names_held
from sublet.subdomains.sweep.sweep import Swept, sweep

P = ParamSpec("P")
R = TypeVar("R")

START = datetime(2026, 11, 21, 9, 30, 0, 123456, tzinfo=UTC)
OPERATOR = Actor(kind="operator", name="olga")
FREE_QUOTA = 2
Dump = dict[str, list[tuple[Any, ...]]]


@dataclass
class Registry:
    """A database with a frozen clock (`now`), users by their short names, platform domains by theirs."""

    run: Callable[[Any], Any]
    db: Database = field(init=False)
    now: datetime = START
    users: dict[str, int] = field(default_factory=dict)
    organizations: dict[str, int] = field(default_factory=dict)
    domains: dict[str, int] = field(default_factory=dict)
    sent: dict[str, set[Record]] = field(default_factory=dict)
    """What `publish` left in each zone on a primary."""

    def read(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a question."""
        result: R = self.run(self.db.read(fn, *args, **kwargs))
        return result

    def write(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a verb; a refusal comes through."""
        result: R = self.run(self.db.write(fn, *args, **kwargs))
        return result

    def advance(self, **by: float) -> None:
        """Let time pass: `days=30`, `hours=1` …"""
        self.now += timedelta(**by)

    def actor(self, name: str = "ann") -> Actor:
        """A registrant, with a token and a request."""
        return Actor(kind="user", user_id=self.users[name], token_id=1, request_id="r-1")

    def add_user(self, name: str, *, credit_count: int = 0, free_quota: int | None = None) -> None:
        """Add a user, perhaps with credits."""
        member = self.write(add_user, OPERATOR, f"{name}@example.org", name.title(), free_quota=free_quota)
        self.users[name], self.organizations[name] = member.user.id, member.organization.id
        if credit_count:
            self.grant(name, credit_count)

    def grant(self, name: str, credit_count: int) -> None:
        """Give a user credits."""
        self.write(grant_credits, OPERATOR, f"{name}@example.org", credit_count, "test")

    def add_domain(self, domain: str = "example.test", *, force: bool = False, **settings: Any) -> None:
        """Add a platform domain that offers free, and plus, premium and special for 10, 40 and 70 credits (renewal 1 more)."""
        added = self.write(
            add_platform_domain,
            OPERATOR,
            domain,
            settings,
            names_held=list_names_held,
            force=force,
        )
        self.domains[domain] = added.platform_domain.id
        for mode, price in (("plus", 10), ("premium", 40), ("special", 70)):
            self.write(
                offer_mode, OPERATOR, domain, mode, price_credits=price, renewal_price_credits=price + 1
            )

    def add_coupon(self, code: str = "SPRING", **terms: Any) -> None:
        """Add a coupon of 30 percent, or of the terms given."""
        self.write(add_coupon, OPERATOR, code, CouponTerms(**(terms or {"percent": 30})))

    def register(self, fqdn: str, name: str = "ann", **members: Any) -> Subdomain:
        """Register a name, which must succeed; paid ones are confirmed."""
        members.setdefault("payable", Payable(confirm=True))
        outcome: Outcome = self.write(
            register, self.actor(name), Register(fqdn=fqdn, **members), free_quota=FREE_QUOTA
        )
        return self.subdomain(outcome.id)

    def register_by_operator(
        self, fqdn: str, name: str = "ann", *, mode: str = "admin", **members: Any
    ) -> Subdomain:
        """Register a name as the operator for a user."""
        permission = OperatorPermission(f"{name}@example.org", mode)
        command = Register(fqdn=fqdn, **members)
        outcome = self.write(register, OPERATOR, command, free_quota=FREE_QUOTA, permission=permission)
        return self.subdomain(outcome.id)

    def move(self, primary: str = "main", domain: str = "example.test") -> None:
        """Say that a zone is on a primary, which only the test knows."""
        domain_id = self.domains[domain]
        self.write(lambda tx: update_platform_domain(tx, domain_id, primary=primary))

    def subdomain(self, subdomain_id: int) -> Subdomain:
        """Return a stored subdomain."""
        found = self.read(store.find_subdomain, subdomain_id)
        assert found is not None
        return found

    def dates(self) -> dict[int, SweepDates]:
        """The stored dates of all names that aren't released, by id."""
        columns = (store.subdomains.c.id, store.subdomains.c.due_at, store.subdomains.c.loss_at)
        query = select(*columns).where(store.subdomains.c.released_at.is_(None))
        return self.read(lambda tx: {row[0]: SweepDates(*row[1:]) for row in tx.connection.execute(query)})

    def balance(self, name: str = "ann") -> int:
        """A user's credits."""
        return self.read(find_balance, self.users[name])

    def sweep(self) -> Swept:
        """Sweep until no name is due; return the sum of the steps, or the reason of a stop."""
        done: Counter[str] = Counter()
        while (swept := self.write(sweep)).more:
            done += swept.done
        return Swept(done + swept.done, stopped_reason=swept.stopped_reason)

    def live(self, *, days: int, step_days: int = 6) -> Counter[str]:
        """Advance the clock by days; sweep and publish whenever a name is due, and after each step. Return the sum of the sweeps' steps."""
        done: Counter[str] = Counter()
        end = self.now + timedelta(days=days)
        while self.now < end:
            # Nothing happens in between; but the sweep must not be away for long.
            self.now = min(end, self.now + timedelta(days=step_days), self._next_due_at() or end)
            swept = self.sweep()
            assert swept.stopped_reason is None, swept.stopped_reason
            done += swept.done
            for domain in self.domains:
                self.publish(domain)
        del done["looked"]
        return done

    def _next_due_at(self) -> datetime | None:
        columns = (store.subdomains.c.due_at, store.subdomains.c.loss_at)

        def ask(tx: Tx) -> datetime | None:
            found = [
                tx.connection.execute(select(func.min(column)).where(column > tx.now)).scalar_one()
                for column in columns
            ]
            return min((each for each in found if each is not None), default=None)

        return self.read(ask)

    def publish(self, domain: str = "example.test", *, error: str | None = None) -> list[int]:
        """Do one batch of a zone on a primary as the publisher does: published, or failed with this error; return the subdomains' ids."""
        batch = self.write(begin_publication, self.domains[domain])
        if batch is None:
            return []
        if error is None:
            self.send(batch)
        results = {
            each.subdomain_id: Result(each, error=error) if error is not None else Result(each, serial=2)
            for each in batch.items
        }
        self.write(record_publication, results, batch)
        return list(results)

    def send(self, batch: Batch) -> None:
        """Apply a batch to `sent`, as a primary applies its message."""
        changes = plan_changes(
            batch.zone,
            (owner for item in batch.items for owner in item.owners),
            (record for item in batch.items for record in item.desired),
        )
        kept = {each for each in self.sent.get(batch.zone, set()) if each.owner not in changes.delete_owners}
        self.sent[batch.zone] = kept | set(changes.adds)

    def dump(self) -> Dump:
        """Return all rows of all tables without the commit marks, which each write adds."""

        def rows(tx: Tx) -> Dump:
            return {
                table.name: sorted((tuple(row) for row in tx.connection.execute(select(table))), key=repr)
                for table in metadata.sorted_tables
                if table.name != "commit_marks"
            }

        return self.read(rows)

    @contextmanager
    def refuses(self, refusal: type[Refusal]) -> Iterator[list[Refusal]]:
        """Expect exactly this refusal, which must change no row; yield a list that receives it."""
        before = self.dump()
        caught: list[Refusal] = []
        with pytest.raises(Refusal) as raised:
            yield caught
        assert type(raised.value) is refusal, raised.value.message
        assert self.dump() == before
        caught.append(raised.value)

    def doctor(self) -> list[Violation]:
        """Every broken invariant."""
        return self.read(check_all, free_quota=FREE_QUOTA)


@dataclass(frozen=True)
class Prepared:
    """A database with what every registry of the tests begins with, to be copied: far faster than to be made again."""

    url: str
    users: dict[str, int]
    organizations: dict[str, int]
    domains: dict[str, int]


@contextmanager
def _opened(url: str) -> Iterator[Registry]:
    with asyncio.Runner() as runner:
        registry = Registry(runner.run)
        registry.db = open_database(url, lambda: registry.now, may_lose_writes=True)
        try:
            yield registry
        finally:
            runner.run(registry.db.close())


def prepare(url: str) -> Prepared:
    """Create a registry in an empty database: `ann` with 100 credits, `ben` without, and example.test."""
    upgrade(url)
    with _opened(url) as registry:
        registry.add_user("ann", credit_count=100)
        registry.add_user("ben")
        registry.add_domain()
    return Prepared(url, registry.users, registry.organizations, registry.domains)


@contextmanager
def open_registry(url: str, prepared: Prepared) -> Iterator[Registry]:
    """Open a copy of a prepared database."""
    with _opened(url) as registry:
        registry.users = dict(prepared.users)
        registry.organizations = dict(prepared.organizations)
        registry.domains = dict(prepared.domains)
        yield registry
