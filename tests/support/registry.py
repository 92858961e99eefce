"""A registry for tests of verbs: a new database with a clock that only the test moves.

No service runs. Only the verbs that the test calls run, and only `publish` publishes.
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
from sublet.audit import Actor, audit_events
from sublet.credits.coupons import CouponTerms, add_coupon
from sublet.credits.entries import grant_credits
from sublet.credits.model import Outcome, Payable
from sublet.credits.store import find_balance
from sublet.db import Database, Tx, open_database
from sublet.dns.types import Record
from sublet.doctor.model import Violation
from sublet.errors import Refusal
from sublet.mail.model import Mail
from sublet.mail.store import list_mails
from sublet.migrations import upgrade
from sublet.operations.idempotency_store import idempotency_keys  # noqa: F401 - the dump has every table
from sublet.platform_domains.offers import offer_mode
from sublet.platform_domains.platform_domain import add_platform_domain
from sublet.platform_domains.store import update_platform_domain
from sublet.primaries.publisher_transactions import Batch, Result, begin_publication, record_publication
from sublet.primaries.update import plan_changes
from sublet.schema import metadata
from sublet.subdomains import store
from sublet.subdomains.lifecycle import SweepDates
from sublet.subdomains.model import OperatorPermission, Register, Subdomain
from sublet.subdomains.register import register
from sublet.subdomains.store import list_unreleased_names
from sublet.subdomains.sweep.sweep import Swept, sweep
from support.declared_members import refuse_undeclared
from support.reading import find_faults, reading

P = ParamSpec("P")
R = TypeVar("R")

START = datetime(2026, 11, 21, 9, 30, 0, 123456, tzinfo=UTC)
OPERATOR = Actor(kind="operator", name="olga")
FREE_QUOTA = 2
Dump = dict[str, list[tuple[Any, ...]]]


@dataclass
class Registry:
    """A database with a frozen clock (`now`), with its users and platform domains by name."""

    run: Callable[[Any], Any]
    url: str = ""
    is_kept: bool = False
    """Other tests use the same database later, so that it keeps what is compiled."""
    db: Database = field(init=False)
    now: datetime = START
    users: dict[str, int] = field(default_factory=dict)
    organizations: dict[str, int] = field(default_factory=dict)
    domains: dict[str, int] = field(default_factory=dict)
    sent: dict[str, set[Record]] = field(default_factory=dict)
    """The records that `publish` has sent to each zone on a primary."""

    def read(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function in a reading transaction."""
        result: R = self.run(self.db.read(fn, *args, **kwargs))
        return result

    def write(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a verb in a writing transaction. Raises its refusal."""
        result: R = self.run(self.db.write(fn, *args, **kwargs))
        return result

    def mails(self, *, waiting: bool = False, user_id: int | None = None, limit: int = 100) -> list[Mail]:
        """Return the mails, the newest first."""
        return self.read(list_mails, waiting=waiting, user_id=user_id, limit=limit)

    def changes(self, action: str) -> list[tuple[Any, Any]]:
        """Return `before` and `after` of the audit events with this action, the oldest first."""
        events = audit_events.c
        query = select(events.before, events.after).where(events.action == action).order_by(events.id)
        return self.read(lambda tx: [(before, after) for before, after in tx.connection.execute(query)])

    def advance(self, **by: float) -> None:
        """Advance the clock: `days=30`, `hours=1` …"""
        self.now += timedelta(**by)

    def actor(self, name: str = "ann") -> Actor:
        """Return the actor of a user's request with a token."""
        return Actor(kind="user", user_id=self.users[name], token_id=1, request_id="r-1")

    def add_user(self, name: str, *, credit_count: int = 0, free_quota: int | None = None) -> None:
        """Add a user, by default without credits."""
        member = self.write(add_user, OPERATOR, f"{name}@example.org", name.title(), free_quota=free_quota)
        self.users[name], self.organizations[name] = member.user.id, member.organization.id
        if credit_count:
            self.grant(name, credit_count)

    def grant(self, name: str, credit_count: int) -> None:
        """Grant credits to a user."""
        self.write(grant_credits, OPERATOR, f"{name}@example.org", credit_count, "test")

    def add_domain(self, domain: str = "example.test", *, force: bool = False, **settings: Any) -> None:
        """Add a platform domain with the modes free, plus (10 credits), premium (40) and special (70).

        A renewal costs 1 credit more.
        """
        added = self.write(
            add_platform_domain,
            OPERATOR,
            domain,
            settings,
            names_held=list_unreleased_names,
            force=force,
        )
        self.domains[domain] = added.platform_domain.id
        for mode, price in (("plus", 10), ("premium", 40), ("special", 70)):
            self.write(
                offer_mode, OPERATOR, domain, mode, price_credits=price, renewal_price_credits=price + 1
            )

    def add_coupon(self, code: str = "SPRING", **terms: Any) -> None:
        """Add a coupon, by default of 30 percent."""
        self.write(add_coupon, OPERATOR, code, CouponTerms(**(terms or {"percent": 30})))

    def register(self, fqdn: str, name: str = "ann", **members: Any) -> Subdomain:
        """Register a name, which must succeed. A charge is confirmed."""
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
        """Move a zone to a primary that exists only in the test."""
        domain_id = self.domains[domain]
        self.write(lambda tx: update_platform_domain(tx, domain_id, primary=primary))

    def subdomain(self, subdomain_id: int) -> Subdomain:
        """Return a stored subdomain."""
        found = self.read(store.find_subdomain, subdomain_id)
        assert found is not None
        return found

    def dates(self) -> dict[int, SweepDates]:
        """Return the stored dates of all names that aren't released, by id."""
        columns = (store.subdomains.c.id, store.subdomains.c.due_at, store.subdomains.c.loss_at)
        query = select(*columns).where(store.subdomains.c.released_at.is_(None))
        return self.read(lambda tx: {row[0]: SweepDates(*row[1:]) for row in tx.connection.execute(query)})

    def balance(self, name: str = "ann") -> int:
        """Return a user's balance in credits."""
        return self.read(find_balance, self.users[name])

    def sweep(self) -> Swept:
        """Sweep until no name is due. Return the sum of the steps, or the reason why the sweep stopped."""
        done: Counter[str] = Counter()
        while (swept := self.write(sweep)).more:
            done += swept.done
        return Swept(done + swept.done, stopped_reason=swept.stopped_reason)

    def live(self, *, days: int, step_days: int = 6) -> Counter[str]:
        """Advance the clock by days.

        Sweep and publish whenever a name is due, and after each step. Return the sum of the sweeps' steps.
        """
        done: Counter[str] = Counter()
        end = self.now + timedelta(days=days)
        while self.now < end:
            # Nothing is due in between, but the sweep must run often enough to believe the clock.
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
        """Publish a batch of a zone on a primary like the publisher, or fail with this error.

        Return the subdomains' ids.
        """
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
        """Apply a batch to `sent`, as a primary applies an UPDATE message."""
        changes = plan_changes(
            batch.zone,
            (owner for item in batch.items for owner in item.owners),
            (record for item in batch.items for record in item.desired),
        )
        kept = {each for each in self.sent.get(batch.zone, set()) if each.owner not in changes.delete_owners}
        self.sent[batch.zone] = kept | set(changes.adds)

    def dump(self) -> Dump:
        """Return all rows of all tables, as the driver has them, without the commit marks, which each write
        adds.
        """
        return self._examine(_rows_by_table)

    @contextmanager
    def refuses(self, refusal: type[Refusal]) -> Iterator[list[Refusal]]:
        """Check that the block raises exactly this refusal and changes no row.

        Yield a list that gets the refusal.
        """
        before = self.dump()
        caught: list[Refusal] = []
        with pytest.raises(Refusal) as raised:
            yield caught
        assert type(raised.value) is refusal, raised.value.message
        assert self.dump() == before
        caught.append(raised.value)

    def refused(
        self,
        refusal: type[Refusal],
        fn: Callable[Concatenate[Tx, P], object],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Refusal:
        """Check that a verb raises exactly this refusal and changes no row. Return the refusal."""
        with self.refuses(refusal) as caught:
            self.write(fn, *args, **kwargs)
        return caught[0]

    def doctor(self) -> list[Violation]:
        """Return every broken invariant. Fail if an audit event has an undeclared member."""

        def check(tx: Tx) -> list[Violation]:
            refuse_undeclared(tx)
            return find_faults(tx, FREE_QUOTA)

        return self._examine(check)

    def _examine(self, fn: Callable[[Tx], R]) -> R:
        if self.is_kept:
            return self.read(fn)
        with reading(self.url) as connection:
            return fn(Tx(connection, self.now))


def _rows_by_table(tx: Tx) -> Dump:
    cursor = tx.connection.connection.cursor()
    names = [table.name for table in metadata.sorted_tables if table.name != "commit_marks"]
    return {name: sorted(cursor.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in names}  # noqa: S608


@dataclass(frozen=True)
class Prepared:
    """A database with the initial content of each test's registry.

    Copying it is much faster than filling a new database.
    """

    url: str
    users: dict[str, int]
    organizations: dict[str, int]
    domains: dict[str, int]


@contextmanager
def _opened(url: str) -> Iterator[Registry]:
    with asyncio.Runner() as runner:
        registry = Registry(runner.run, url)
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
