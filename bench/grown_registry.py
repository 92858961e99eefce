"""Fill a registry of any size from a seed: names with their ledger, trash, tickets, mail and zone.

The registry's verbs create ten thousand names in minutes. `multiply` then copies all users with their names
in seconds.
"""

import asyncio
import hashlib
import random
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Table

from sublet.accounts.tokens.issue import issue_token
from sublet.accounts.users import add_user
from sublet.audit import Actor
from sublet.credits.coupons import CouponTerms, add_coupon
from sublet.credits.entries import ExternalPayment, record_payment
from sublet.credits.model import Payable
from sublet.credits.packages import add_package
from sublet.db import Database, Tx, open_database
from sublet.dns.look_alikes import stored_skeleton
from sublet.dns.types import GlueEntry, Record
from sublet.migrations import upgrade
from sublet.platform_domains import zone_store
from sublet.platform_domains.labels import set_label
from sublet.platform_domains.offers import offer_mode
from sublet.platform_domains.platform_domain import add_platform_domain
from sublet.registry.copy_store import list_copied
from sublet.subdomains.delete import delete
from sublet.subdomains.model import Register, UpdateNameservers
from sublet.subdomains.register import register
from sublet.subdomains.renew import renew
from sublet.subdomains.restore import restore
from sublet.subdomains.store import list_unreleased_names
from sublet.subdomains.sweep.sweep import sweep
from sublet.subdomains.update_nameservers import update_nameservers
from sublet.tickets.model import TicketRequest
from sublet.tickets.open_ticket import open_ticket
from sublet.tickets.reply import reply

ZONE = "example.test"
START = datetime(2025, 11, 3, 9, 30, 0, 123456, tzinfo=UTC)
OPERATOR = Actor(kind="operator", name="olga", reason="grown for a test")
NAMES_OF_A_USER = 25
AT_ONCE = 500
"""The number of verbs in a transaction, because each transaction waits for the disk."""
Verb = Callable[..., object]
"""A verb that takes only `tx`."""
PAID = Payable(confirm=True)
TEXTS = ("Grüße aus Köln", "日本語のメモ", "plain words", "quotes ' \" \\ and\nlines", "🌱 emoji")


@dataclass
class Growing:
    """A registry while it is filled. `now` is its clock, which each verb advances."""

    db: Database
    draws: random.Random
    now: list[datetime]
    users: list[int] = field(default_factory=list)
    names: list[tuple[int, str, str]] = field(default_factory=list)
    """The user, the name and the mode of each registration."""

    async def do(self, verbs: list[Verb]) -> None:
        """Run verbs in order, `AT_ONCE` in a transaction."""
        for first in range(0, len(verbs), AT_ONCE):
            part = verbs[first : first + AT_ONCE]

            def run(tx: Tx, part: list[Verb] = part) -> None:
                for place, verb in enumerate(part):
                    verb(tx=Tx(tx.connection, tx.now + timedelta(milliseconds=place)))

            await self.db.write(run)
            self.now[0] += timedelta(seconds=1)

    async def furnish(self, names: int) -> None:
        """Add the platform domain, a package, a coupon, and paying users."""

        def offer(tx: Tx) -> None:
            added = add_platform_domain(tx, OPERATOR, ZONE, {}, names_held=list_unreleased_names)
            adopted = Record(f"office.{ZONE}", "A", 3600, "192.0.2.1")
            zone_store.insert_records(tx, added.platform_domain.id, [adopted])
            offer_mode(tx, OPERATOR, ZONE, "plus", price_credits=10, renewal_price_credits=11)
            add_package(tx, OPERATOR, "Large", 1000, "9.90", "EUR")
            set_label(tx, OPERATOR, ZONE, "gold", "premium", price_credits=500)
            set_label(tx, OPERATOR, ZONE, "admin", "reserved")
            add_coupon(tx, OPERATOR, "SPRING", CouponTerms(percent=30))

        def user(number: int) -> Verb:
            def run(tx: Tx) -> None:
                email = f"user{number}@example.org"
                member = add_user(
                    tx, OPERATOR, email, self.draws.choice(TEXTS[:3]), free_quota=NAMES_OF_A_USER
                )
                self.users.append(member.user.id)
                issue_token(tx, OPERATOR, email, "first")
                record_payment(tx, OPERATOR, email, ExternalPayment(f"pay-{number}", package_id=1))

            return run

        await self.do([offer])
        await self.do([user(number) for number in range(-(-names // NAMES_OF_A_USER))])

    async def register(self, names: int) -> None:
        """Register names. Most are paid, some are free, and a few use a coupon."""

        def one(number: int) -> Verb:
            mode = "plus" if self.draws.random() < 0.7 else "free"
            fqdn, user_id = f"n{number}.{ZONE}", self.users[number // NAMES_OF_A_USER]
            self.names.append((user_id, fqdn, mode))
            coupon = "SPRING" if mode == "plus" and self.draws.random() < 0.2 else None
            hosts = [f"ns{self.draws.randrange(1000)}.provider.example", "ns.other.example"]
            inside = self.draws.random() < 0.2
            command = Register(
                fqdn=fqdn,
                registration_mode=mode,
                nameservers=(*hosts, *((f"ns.{fqdn}",) if inside else ())),
                glue=(GlueEntry(f"ns.{fqdn}", "9.9.9.9", "2620:fe::fe"),) if inside else (),
                payable=Payable(confirm=True, coupon_code=coupon),
            )
            return partial(_do, register, _acting(user_id), command, free_quota=NAMES_OF_A_USER)

        await self.do([one(number) for number in range(names)])

    async def live(self) -> None:
        """Simulate eleven months with renewals, changes, deletions, restorations, tickets and reminders."""
        self.now[0] += timedelta(days=340)
        verbs: list[Verb] = []
        for user_id, fqdn, mode in self.names:
            drawn = self.draws.random()
            by = _acting(user_id)
            if drawn < 0.4:
                verbs.append(partial(_do, renew, by, fqdn, PAID))
            elif drawn < 0.5:
                moved = UpdateNameservers(nameservers=("ns1.moved.example", "ns2.moved.example"))
                verbs.append(partial(_do, update_nameservers, by, fqdn, moved))
            elif drawn < 0.6:
                verbs.append(partial(_do, delete, by, fqdn))
                if drawn < 0.55 and mode == "free":
                    verbs.append(partial(_do, restore, by, fqdn, PAID, free_quota=NAMES_OF_A_USER))
            elif drawn < 0.63:
                verbs.append(partial(_do, _ask, by, fqdn, self.draws.choice(TEXTS)))
        await self.do(verbs)
        for _ in range(3):
            await self.db.write(sweep)
            self.now[0] += timedelta(seconds=1)


def _acting(user_id: int) -> Actor:
    return Actor(kind="user", user_id=user_id, token_id=1, request_id="r-1")


def _do(verb: Callable[..., object], actor: Actor, *args: object, tx: Tx, **kwargs: object) -> None:
    verb(tx, actor, *args, **kwargs)


def _ask(tx: Tx, actor: Actor, fqdn: str, text: str) -> None:
    opened = open_ticket(tx, actor, TicketRequest(subject="About a name", message=text, fqdn=fqdn))
    reply(tx, actor, str(opened.id), f"{text}\n{text}")


def grow(url: str, names: int, seed: int = 1, start: datetime = START) -> None:
    """Fill an empty database with `names` names, and simulate 340 days from `start`.

    The same seed gives the same registry, except for tokens.
    """
    upgrade(url)

    async def run() -> None:
        now = [start]
        database = open_database(url, lambda: now[0], may_lose_writes=True)
        try:
            growing = Growing(database, random.Random(seed), now)  # noqa: S311 - not a secret
            await growing.furnish(names)
            await growing.register(names)
            await growing.live()
        finally:
            await database.close()

    asyncio.run(run())


SHARED = (
    *(
        "platform_domains",
        "signing_keys",
        "zone_records",
        "offers",
        "labels",
        "coupons",
        "packages",
        "clockwork",
        "health_brake",
        "forecasts",
    ),
)
"""The tables that `multiply` doesn't copy. It only changes their counters."""
OBJECTS = {
    "user": "users",
    "organization": "organizations",
    "token": "tokens",
    "subdomain": "subdomains",
    "ticket": "tickets",
    "transfer": "transfers",
    "name_transfer": "name_transfers",
}
"""The tables of the objects of audit events."""
_NAME = re.compile(r"\b(n\d+\.example\.test|user\d+(?=@|-example)|pay-\d+)")
_LABEL = re.compile(r"n\d+")
_REFERENCE = re.compile(r"^(\w+):(\d+):")
_NUMBER = re.compile(r'"(user|organization|subdomain|message|mail)_id": ?(\d+)')


def multiply(path: Path, times: int) -> None:
    """Copy the rows of every user until the registry is `times` as large."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        tables = [table for table in list_copied() if table.name not in SHARED]
        last = {
            table.name: connection.execute(f"SELECT max(id) FROM {table.name}").fetchone()[0] or 0  # noqa: S608 - our own names
            for table in tables
            if "id" in table.columns
        }
        house = connection.execute("SELECT max(id) FROM ledger_accounts WHERE kind <> 'user'").fetchone()[0]
        rows = {
            table.name: connection.execute(f"SELECT {_columns(table)} FROM {table.name}").fetchall()  # noqa: S608 - as above
            for table in tables
        }
        for again in range(1, times):
            for table in tables:
                added = [
                    values
                    for row in rows[table.name]
                    if (values := _again(table, row, again, last, house)) is not None
                ]
                places = ", ".join("?" for _ in table.columns)
                statement = f"INSERT INTO {table.name} ({_columns(table)}) VALUES ({places})"  # noqa: S608 - as above
                connection.executemany(statement, added)
        connection.execute("UPDATE coupons SET uses = uses * ?", (times,))
        connection.execute("UPDATE ledger_accounts SET balance = balance * ? WHERE kind <> 'user'", (times,))
        connection.commit()


def _columns(table: Table) -> str:
    return ", ".join(f'"{column.name}"' for column in table.columns)


def _again(
    table: Table, row: tuple[Any, ...], again: int, last: dict[str, int], house: int
) -> tuple[Any, ...] | None:
    """Return the copy of a row, or None if the row is not copied."""
    values = dict(zip(table.columns.keys(), row, strict=True))
    if table.name == "ledger_accounts" and values["kind"] != "user":
        return None
    if table.name == "audit_events" and values["object_type"] not in OBJECTS:
        return None
    for name, value in values.items():
        if isinstance(value, str):
            renamed = _NAME.sub(lambda found: f"k{again}{found[1]}", value)
            values[name] = _NUMBER.sub(
                lambda found: f'"{found[1]}_id": {int(found[2]) + again * last[f"{found[1]}s"]}', renamed
            )
    _move_ids(table, values, again, last, house)
    if "reference" in values:
        values["reference"] = _REFERENCE.sub(
            lambda found: f"{found[1]}:{int(found[2]) + again * last['subdomains']}:", values["reference"]
        )
    if table.name == "subdomains":
        values["label"] = _LABEL.sub(lambda found: f"k{again}{found[0]}", values["label"])
        values["skeleton"] = stored_skeleton(values["label"])
    if table.name == "tokens":
        values["digest"] = hashlib.sha256(f"{values['digest']}{again}".encode()).hexdigest()
    return tuple(values.values())


def _move_ids(table: Table, values: dict[str, Any], again: int, last: dict[str, int], house: int) -> None:
    """Let a copied row have an id of its own, and refer to the copies of other rows."""
    targets = {
        column.name: next((each.column.table.name for each in column.foreign_keys), "")
        for column in table.columns
    }
    if "id" in targets:
        targets["id"] = table.name
    if table.name == "audit_events":
        targets |= {"object_id": OBJECTS[values["object_type"]], "user_id": "users", "owner_id": "users"}
    if table.name in ("coupon_uses", "transfers"):
        targets["subdomain_id"] = "subdomains"
    for name, target in targets.items():
        number = values[name]
        is_shared = target == "ledger_accounts" and number is not None and number <= house
        if number is not None and target in last and not is_shared:
            values[name] = number + again * last[target]
