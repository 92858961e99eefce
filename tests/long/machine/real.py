"""The real registry of the machine: an SQLite file copied from a prepared one, a clock that the machine
moves, and the verbs.
"""

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Engine

import sublet.db.sqlite
from long.machine.time_model import Registry
from long.machine.verbs import CALLS
from sublet.accounts.users import add_user
from sublet.audit import Actor
from sublet.credits.entries import grant_credits
from sublet.db import Database, Tx, open_database
from sublet.dns.types import Record
from sublet.errors import Refusal
from sublet.migrations import upgrade
from sublet.operations.idempotency import WriteResult, write_once
from sublet.platform_domains import zone_store
from sublet.platform_domains.labels import set_label
from sublet.platform_domains.offers import offer_mode, withdraw_offer
from sublet.platform_domains.platform_domain import add_platform_domain, grant_platform_domain
from sublet.subdomains.store import list_unreleased_names

START = datetime(2026, 11, 21, 9, 30, 0, 123456, tzinfo=UTC)
_make_engine = sublet.db.sqlite.sqlite_engine
OPERATOR = Actor(kind="operator", name="olga")


class Crash(Exception):  # noqa: N818 - no error of the code: it is made to happen
    """The process dies after the verb, before the commit."""


@dataclass(frozen=True)
class Got:
    """The outcome of a verb: its result, a refusal, or a crash."""

    result: Any = None
    refusal: Refusal | None = None
    crashed: bool = False
    replayed: bool = False


class Real:
    """An open database with its clock. `ids` has the platform domains' and users' ids by their names.

    `zones` and `fences` are what the primary of each platform domain has.
    """

    def __init__(self) -> None:
        template, self.ids, self.audit_before = _prepared()
        self.path = template.with_name("registry.db")
        shutil.copy(template, self.path)
        self.now = START
        self.attempts = 0
        places = Registry(START).places
        self.zones = {
            domain: {_foreign(domain, label) for label in place.foreign} for domain, place in places.items()
        }
        self.fences: dict[str, str | None] = dict.fromkeys(places)
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self.db = self._open()

    def _open(self) -> Database:
        # The engine is kept for the next machine and the next restart: it has no connection once it is
        # closed, only compiled statements; compiling them each time would be a third of the machine's time
        make, sublet.db.sqlite.sqlite_engine = sublet.db.sqlite.sqlite_engine, _kept_engine
        try:
            return open_database(f"sqlite:///{self.path}", lambda: self.now)
        finally:
            sublet.db.sqlite.sqlite_engine = make

    def restart(self) -> None:
        """Close the database and open it again, like a restarted process."""
        self._loop.run_until_complete(self.db.close())
        self.db = self._open()

    def close(self) -> None:
        """Close for good."""
        self._loop.run_until_complete(self.db.close())
        self._runner.close()
        self.path.unlink()
        assert list(self.path.parent.glob("registry.db*")) == [], "a connection was left open"

    def read(self, fn: Callable[[Tx], Any]) -> Any:
        """Ask a question."""
        return self._loop.run_until_complete(self.db.read(fn))

    def write(self, fn: Callable[[Tx], Any]) -> Any:
        """Run a function in a writing transaction."""
        return self._loop.run_until_complete(self.db.write(fn))

    def send(self, verb: str, who: str | None, key: str | None, args: dict[str, Any], *, crash: bool) -> Got:
        """Run a verb as a user, with the store of `Idempotency-Key`s, or (`who` None) as the operator."""
        actor = Actor(kind="user", user_id=self.ids[who], token_id=1) if who is not None else OPERATOR
        call = CALLS[verb]

        def run(tx: Tx) -> Any:
            result = call(tx, actor, self.ids, args)
            if crash:
                raise Crash
            return result

        try:
            if who is None:
                return Got(self.write(run))
            request: Any = SimpleNamespace(
                context=SimpleNamespace(db=self.db, running_keys=set()),
                idempotency_key=key,
                registrant=SimpleNamespace(user=SimpleNamespace(id=self.ids[who])),
                status=200,
                fingerprint=sha256(repr((verb, args)).encode()).hexdigest(),
            )
            done: WriteResult = self._loop.run_until_complete(write_once(request, run))
            return Got(done.outcome, replayed=done.replayed)
        except Refusal as refusal:
            return Got(refusal=refusal)
        except Crash:
            return Got(crashed=True)


def _foreign(domain: str, label: str) -> Record:
    return Record(f"host.{label}.{domain}", "A", 3600, "8.8.8.8")


@cache
def _kept_engine(path: Path, **options: Any) -> Engine:
    return _make_engine(path, **options)


@cache
def _prepared() -> tuple[Path, dict[str, int], Counter[str]]:
    """Make the world of the model in a database to be copied; give its path, the ids by name, the events so
    far.
    """
    # Its folder exists until the process ends: every machine copies from it.
    folder = tempfile.TemporaryDirectory(prefix="sublet-machine-", dir=fast_folder())
    _kept.append(folder)
    path = Path(folder.name) / "prepared.db"
    upgrade(f"sqlite:///{path}")
    model = Registry(START)
    ids: dict[str, int] = {}

    def build(tx: Tx) -> None:
        for who, person in model.people.items():
            email = f"{who}@example.org"
            member = add_user(tx, OPERATOR, email, who.title(), person.organization, free_quota=person.quota)
            ids[who] = member.user.id
            if person.balance:
                grant_credits(tx, OPERATOR, email, person.balance, "at first")
        for domain, place in model.places.items():
            settings = {**place.settings, "primary": "main"}
            added = add_platform_domain(tx, OPERATOR, domain, settings, names_held=list_unreleased_names)
            ids[domain] = added.platform_domain.id
            for mode, offer in place.offers.items():
                offer_mode(
                    tx,
                    OPERATOR,
                    domain,
                    mode,
                    price_credits=offer.price,
                    renewal_price_credits=offer.renewal_price,
                    period_days=offer.days,
                )
                if offer.withdrawn:
                    withdraw_offer(tx, OPERATOR, domain, mode)
            for label, listed in place.labels.items():
                set_label(
                    tx,
                    OPERATOR,
                    domain,
                    label,
                    listed.kind,
                    price_credits=listed.price,
                    renewal_price_credits=listed.renewal_price,
                    organizations=listed.organizations,
                )
            for organization in place.granted:
                grant_platform_domain(tx, OPERATOR, domain, organization)
            for label in place.foreign:
                zone_store.insert_records(tx, ids[domain], [_foreign(domain, label)])
        for code, coupon in model.coupons.items():
            CALLS["add_coupon"](tx, OPERATOR, ids, {"code": code, "coupon": coupon})

    def count(tx: Tx) -> Counter[str]:
        return Counter({row[0]: row[1] for row in tx.connection.exec_driver_sql(AUDITED)})

    with asyncio.Runner() as runner:
        db = open_database(f"sqlite:///{path}", lambda: START)
        runner.run(db.write(build))
        events = runner.run(db.read(count))
        runner.run(db.close())
    return path, ids, events


AUDITED = "SELECT action, count(*) FROM audit_events GROUP BY action"
_kept: list[tempfile.TemporaryDirectory[str]] = []


def fast_folder() -> Path | None:
    """Return a folder for temporary files in memory, or None for the default one."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
    return memory if memory.is_dir() else None
