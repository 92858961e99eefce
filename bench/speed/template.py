"""One of each thing that a large registry has many of, made by the registry's own verbs: what `fill.py` takes copies of."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import select

from sublet.accounts.add_user import add_user
from sublet.accounts.issue_token import issue_token
from sublet.audit import Actor
from sublet.credits.add_package import add_package
from sublet.credits.model import Payable
from sublet.credits.record_payment import PaymentMade, record_payment
from sublet.db import Database, Tx, open_database
from sublet.migrations import upgrade
from sublet.platform_domains.add_platform_domain import add_platform_domain
from sublet.platform_domains.offer_mode import offer_mode
from sublet.platform_domains.settings import PlatformDomainSettings
from sublet.registry.copy_store import list_copied
from sublet.subdomains.change_zone import change_zone
from sublet.subdomains.model import Register
from sublet.subdomains.publishing import Result, begin_publication, record_publication
from sublet.subdomains.register import register
from sublet.subdomains.store import list_names_held
from sublet.subdomains.sweep import sweep
from sublet.tickets.model import OpenTicket
from sublet.tickets.open_ticket import open_ticket
from sublet.tickets.reply import reply

ZONE = "example.test"
EMAIL = "templateuser@example.org"
CREDITS = 1_000_000_000
PRICE = 10
QUOTA = 1_000_000
OLD_DAYS, NEW_DAYS = 330, 10
"""How long ago names were registered: the renewal of the old ones is open, and that of the new ones is not."""
LABELS = {"old": "patternold", "plus": "patternplus", "free": "patternfree"}
PAID = ("old", "plus")
NAMESERVERS = ("ns1.provider.example", "ns2.provider.example")
OPERATOR = Actor(kind="operator", name="bench")
DOMAINS_AT_ONCE = 100
OF_NOBODY = ("forecasts", "clockwork", "zone_states")
"""Tables of the whole registry, or of a zone."""

Keys = set[tuple[Any, ...]]
Kinds = dict[str, dict[str, list[tuple[Any, ...]]]]
"""Of each kind of thing (`user`, `old`, `plus`, `free`, `ticket`) the primary keys of its rows, by table."""


def make_template(url: str, domains: int) -> Kinds:
    """Fill an empty database with `domains` platform domains, and one thing of each kind; return which rows are whose.

    All is at rest: published, and looked at by the sweep.
    """
    upgrade(url)
    return asyncio.run(_make(url, domains))


async def _make(url: str, domains: int) -> Kinds:
    start = datetime.now(UTC)
    now = [start - timedelta(days=OLD_DAYS)]
    database = open_database(url, lambda: now[0])
    kinds: Kinds = {}
    try:
        for first in range(0, domains, DOMAINS_AT_ONCE):
            await database.write(_furnish, range(first, min(first + DOMAINS_AT_ONCE, domains)))
        seen = await database.read(_keys)

        async def step(kind: str, verb: Callable[[Tx], object]) -> None:
            nonlocal seen
            await database.write(verb)
            await _publish(database)
            found = await database.read(_keys)
            kinds[kind] = {name: sorted(found[name] - seen[name]) for name in found}
            seen = found

        await step("user", _user)
        await step("old", lambda tx: _register(tx, "old"))
        now[0] = start - timedelta(days=NEW_DAYS)
        await step("plus", lambda tx: _register(tx, "plus"))
        await step("free", lambda tx: _register(tx, "free"))
        await step("ticket", _ask)
        now[0] = start - timedelta(hours=1)
        await _rest(database, kinds, seen)
    finally:
        await database.close()
    return kinds


def _keys(tx: Tx) -> dict[str, Keys]:
    return {
        table.name: {tuple(row) for row in tx.connection.execute(select(*table.primary_key.columns))}
        for table in list_copied()
        if table.name not in OF_NOBODY
    }


def _furnish(tx: Tx, numbers: range) -> None:
    for number in numbers:
        domain = ZONE if number == 0 else f"example{number}.test"
        add_platform_domain(
            tx, OPERATOR, domain, PlatformDomainSettings(public_name=domain), names_held=list_names_held
        )
        if number == 0:
            offer_mode(tx, OPERATOR, domain, "plus", price_credits=PRICE, renewal_price_credits=PRICE)
            add_package(tx, OPERATOR, "Large", CREDITS, "9.90", "EUR")


def _user(tx: Tx) -> None:
    add_user(tx, OPERATOR, EMAIL, "Template", free_quota=QUOTA)
    issue_token(tx, OPERATOR, EMAIL, "bench")
    record_payment(tx, OPERATOR, EMAIL, PaymentMade("pay-templateuser", package_id=1))


def _registrant() -> Actor:
    return Actor(kind="user", user_id=1, token_id=1, request_id="r-1")


def _register(tx: Tx, kind: str) -> None:
    command = Register(
        fqdn=f"{LABELS[kind]}.{ZONE}",
        registration_mode="plus" if kind in PAID else "free",
        nameservers=NAMESERVERS,
        payable=Payable(confirm=True),
    )
    register(tx, _registrant(), command, free_quota=QUOTA)


def _ask(tx: Tx) -> None:
    opened = open_ticket(tx, _registrant(), OpenTicket(subject="A question", message="Why?"))
    reply(tx, _registrant(), str(opened.id), "And what then?")


async def _publish(database: Database) -> None:
    """Publish what waits into the built-in name server's zone, as the publisher does."""

    def one(tx: Tx) -> bool:
        batch = begin_publication(tx, 1)
        if batch is None:
            return False
        changed = change_zone(tx, batch)
        results = {each.subdomain_id: Result(each, serial=changed.serial) for each in batch.items}
        record_publication(tx, results)
        return True

    while await database.write(one):
        pass


async def _rest(database: Database, kinds: Kinds, before: dict[str, Keys]) -> None:
    """Let the sweep look at all names; what it adds (milestones, mail, events) is of the old name, the only one with a date behind it."""
    while (await database.write(sweep)).more:
        pass
    found = await database.read(_keys)
    for name, keys in found.items():
        kinds["old"][name] += sorted(keys - before[name])

    def settle(tx: Tx) -> None:
        for statement in (
            "UPDATE mails SET next_attempt_at = NULL, logged_at = created_at WHERE next_attempt_at IS NOT NULL",
            "UPDATE clockwork SET seen_at = NULL",  # what the sweep saw was this file's clock
        ):
            tx.connection.exec_driver_sql(statement)

    await database.write(settle)
