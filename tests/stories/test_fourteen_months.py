"""Fourteen months of a registry with a thousand names (80 of them in `make test`), day by day: every
transition is in the table, each mail is sent once.

The table, the days and the mail that is due are written here a second time, apart from the code.
"""

import random
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import RowMapping, select

from long.machine.real import fast_folder
from sublet.accounts.store import update_user
from sublet.audit import audit_events
from sublet.config import Settings
from sublet.credits.model import Payable
from sublet.db import Tx
from sublet.doctor.running import check_sweep
from sublet.mail.mailer import Mailer
from sublet.mail.smtp import SmtpTransport
from sublet.mail.smtp import smtp_server as chosen_server
from sublet.mail.store import mails
from sublet.platform_domains.offers import offer_mode
from sublet.subdomains.dates.set_auto_renew import set_auto_renew
from sublet.subdomains.delete import delete
from sublet.subdomains.renew import renew
from sublet.subdomains.restore import restore
from sublet.subdomains.store import subdomains
from sublet.subdomains.suspend import suspend, unsuspend
from sublet.subdomains.sweep.store import milestones
from support.registry import OPERATOR, Prepared, Registry, open_registry
from support.repetitions import share
from support.smtp_server import Mailbox, smtp_server

pytestmark = pytest.mark.slow

SEED = 20261121
DAYS = 427
DAY = timedelta(days=1)
USERS = 40
REMINDERS = {"expires_in_30_days": 30, "expires_in_7_days": 7, "expires_in_1_day": 1}

MAIL_DEPENDS_ON = ("id", "user_id", "fqdn", "registered_at", "last_renewed_at", "expires_at", "trashed_at")


@dataclass(frozen=True)
class Rules:
    """The days of a platform domain; `names` of it are registered, one after the
    other, within `begin_days`.
    """

    names: int
    begin_days: int
    period: int
    window: int
    grace: int
    trash: int
    cooling_off: int


DOMAINS = {
    "year.test": Rules(share(30, whole=400), 60, 365, 60, 30, 30, 7),
    "quarter.test": Rules(share(30, whole=350), 250, 90, 30, 10, 14, 3),
    "month.test": Rules(share(20, whole=250), 350, 30, 10, 5, 6, 2),
}
NAMES = sum(rules.names for rules in DOMAINS.values())
TABLE = {
    "live": {
        **dict.fromkeys(
            ("publish", "renew", "set_auto_renew", "open_renewal", "remind", "expire", "auto_renew_failed"),
            "live",
        ),
        "delete": "trash",
        "trash": "trash",
        "suspend": "held",
    },
    "held": {"publish": "held", "unsuspend": "live"},
    "trash": {"publish": "trash", "remind": "trash", "restore": "live", "purge": "purged"},
    "purged": {"publish": "purged", "release": "free"},
    "free": {},
}
"""From which state which event leads to which."""


@dataclass
class Registry14:
    """The registry, what its users do on which day, and the mail that they are due."""

    registry: Registry
    random: random.Random
    plans: dict[int, list[tuple[str, str, str]]] = field(default_factory=lambda: defaultdict(list))
    due_mail: Counter[str] = field(default_factory=Counter)
    suspended: set[int] = field(default_factory=set)
    silent_users: set[int] = field(default_factory=set)
    in_trash: set[int] = field(default_factory=set)

    def prepare(self) -> None:
        for domain, rules in DOMAINS.items():
            self.registry.add_domain(
                domain,
                renewal_window_days=rules.window,
                grace_days=rules.grace,
                trash_days=rules.trash,
                cooling_off_days=rules.cooling_off,
            )
            for mode, price in (("free", 0), ("plus", 2)):
                self.registry.write(
                    offer_mode,
                    OPERATOR,
                    domain,
                    mode,
                    price_credits=price,
                    renewal_price_credits=price,
                    period_days=rules.period,
                )
        for number in range(USERS):
            self.registry.add_user(f"u{number}", credit_count=60, free_quota=1000)
            if number % 10 == 0:
                user_id = self.registry.users[f"u{number}"]
                self.silent_users.add(user_id)
                self.registry.write(lambda tx, user_id=user_id: update_user(tx, user_id, reminders=False))  # type: ignore[misc]
        for domain, rules in DOMAINS.items():
            for number in range(rules.names):
                self._plan(f"n{number}.{domain}", rules, number * rules.begin_days // rules.names)

    def _plan(self, name: str, rules: Rules, first_day: int) -> None:
        chosen, user = self.random, f"u{self.random.randrange(USERS)}"
        self.plans[first_day].append(("register", user, name))
        what = chosen.choices(("lapse", "renew", "auto", "delete", "suspend"), (45, 25, 15, 10, 5))[0]
        ends = first_day + rules.period
        if what == "renew":
            while ends < DAYS:
                self.plans[chosen.randrange(ends - rules.window + 1, ends + rules.grace)].append(
                    ("renew", user, name)
                )
                ends += rules.period
        elif what == "auto":
            self.plans[first_day + 1].append(("auto", user, name))
        elif what == "delete":
            day = chosen.randrange(first_day + 1, ends)
            self.plans[day].append(("delete", user, name))
            if chosen.random() < 0.5:
                self.plans[day + chosen.randrange(1, rules.trash)].append(("restore", user, name))
        elif what == "suspend":
            day = chosen.randrange(first_day + 1, ends + rules.grace)
            self.plans[day].append(("suspend", user, name))
            self.plans[day + 30].append(("unsuspend", user, name))

    def act(self, day: int) -> Counter[str]:
        """Do what users and operator do on a day; all of it must succeed."""
        registry, done = self.registry, Counter[str]()
        for action, user, name in self.plans[day]:
            actor = registry.actor(user)
            done[action] += 1
            if action == "register":
                mode = self.random.choice(("free", "plus"))
                if registry.balance(user) < 2:
                    mode = "free"
                nameservers = ("ns1.provider.example",) if self.random.random() < 0.8 else ()
                registry.register(name, user, registration_mode=mode, nameservers=nameservers)
            elif action == "renew":
                registry.grant(user, 2)
                registry.write(renew, actor, name, Payable(confirm=True))
            elif action == "auto":
                registry.write(set_auto_renew, actor, name, self.random.choice((0, 2)), may_spend=True)
            elif action == "delete":
                registry.write(delete, actor, name)
            elif action == "restore":
                registry.grant(user, 2)
                registry.write(restore, actor, name, Payable(confirm=True), free_quota=1000)
            elif action == "suspend":
                self.suspended.add(registry.write(suspend, OPERATOR, name).id)
            elif action == "unsuspend":
                registry.write(unsuspend, OPERATOR, name)
        return done

    def rows(self) -> dict[int, RowMapping]:
        """Every name's row, as far as mail depends on it."""
        query = select(*(subdomains.c[name] for name in MAIL_DEPENDS_ON)).where(
            subdomains.c.purged_at.is_(None)
        )
        found = self.registry.read(lambda tx: tx.connection.execute(query).mappings().all())
        return {each["id"]: each for each in found}

    def expect(self, before: dict[int, RowMapping], after: dict[int, RowMapping]) -> None:
        """Reckon which mail this day's sweep owed: by the row as it found it, and what became of it."""
        now = self.registry.now
        for subdomain_id, row in before.items():
            if row["user_id"] in self.silent_users or subdomain_id in self.suspended:
                continue
            rules = DOMAINS[row["fqdn"].partition(".")[2]]
            later = after.get(subdomain_id, row)  # purged by now
            if row["trashed_at"] is not None:
                reminded_at = row["trashed_at"] + (rules.trash - min(7, rules.trash / 2)) * DAY
                if now - DAY < reminded_at <= now:
                    self._owe("trash_ends", subdomain_id, row["trashed_at"])
            elif later["trashed_at"] is not None:
                self._owe("trashed", subdomain_id, later["trashed_at"])
            elif later["expires_at"] == row["expires_at"]:  # else it was renewed by itself
                self._owe_reminder(row, now)
                expires_at = row["expires_at"]
                if now - DAY < expires_at <= now:
                    self._owe("expired", subdomain_id, expires_at)

        self.in_trash = {each["id"] for each in before.values() if each["trashed_at"] is not None}

    def _owe_reminder(self, row: RowMapping, now: datetime) -> None:
        """The reminder of this day; of a name just restored the last one that its time in the trash
        swallowed.
        """
        began_at = row["last_renewed_at"] or row["registered_at"]
        days_passed = [
            days for days in REMINDERS.values() if began_at < row["expires_at"] - days * DAY <= now
        ]
        if not days_passed or row["expires_at"] <= now:
            return
        last = min(days_passed)
        if row["expires_at"] - last * DAY > now - DAY or row["id"] in self.in_trash:
            kind = next(kind for kind, days in REMINDERS.items() if days == last)
            if self._reference(kind, row["id"], row["expires_at"]) not in self.due_mail:
                self._owe(kind, row["id"], row["expires_at"])

    @staticmethod
    def _reference(kind: str, subdomain_id: int, about: datetime) -> str:
        return f"{kind}:{subdomain_id}:{about:%Y%m%dT%H%M%S.%fZ}"

    def _owe(self, kind: str, subdomain_id: int, about: datetime) -> None:
        self.due_mail[self._reference(kind, subdomain_id, about)] += 1


@contextmanager
def a_registry(folder: Path, prepared: Prepared) -> Iterator[Registry]:
    """A copy of the prepared registry in a folder."""
    shutil.copy(prepared.url.removeprefix("sqlite:///"), folder / "registry.db")
    with open_registry(f"sqlite:///{folder}/registry.db", prepared) as opened:
        yield opened


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where the thousands of commits cost no disk."""
    with tempfile.TemporaryDirectory(prefix="sublet-months-", dir=fast_folder()) as name:
        yield Path(name)


def test_fourteen_months(folder: Path, sqlite_registry: Prepared) -> None:
    print(f"seed {SEED}")  # noqa: T201 - what a failure is replayed with
    mailbox = Mailbox()
    with a_registry(folder, sqlite_registry) as registry, smtp_server(mailbox) as port:
        settings = Settings(
            mail_transport="smtp",
            smtp_host="127.0.0.1",
            smtp_port=port,
            smtp_security="none",
            mail_from="names@year.test",
        )
        mailer = Mailer(registry.db, SmtpTransport(chosen_server(settings)))
        world = Registry14(registry, random.Random(SEED))  # noqa: S311 - a simulation, no secret
        world.prepare()
        for domain in DOMAINS:
            registry.move(domain=domain)
        acted, swept = Counter[str](), Counter[str]()
        for day in range(DAYS):
            acted += world.act(day)
            before = world.rows()
            found = registry.sweep()
            assert found.stopped_reason is None, found.stopped_reason
            swept += found.done
            world.expect(before, world.rows())
            for domain in DOMAINS:
                while registry.publish(domain):
                    pass
            if day % 7 == 0:
                _send_all(registry, mailer)
            if day % 60 == 0:
                assert registry.doctor() == []
            if day < DAYS - 1:
                registry.now += DAY
        _send_all(registry, mailer)
        print(f"done by users: {dict(acted)}; by time: {dict(swept)}; mails: {len(mailbox.taken)}")  # noqa: T201
        _check_everything_happened(acted, swept)
        _check_transitions(registry)
        _check_dates(registry, world.suspended)
        _check_mail(registry, world, mailbox)
        assert registry.doctor() == []
        assert registry.read(check_sweep) == []


def _send_all(registry: Registry, mailer: Mailer) -> None:
    while registry.run(mailer.send_due()):
        pass


def _check_everything_happened(acted: Counter[str], swept: Counter[str]) -> None:
    assert acted["register"] == NAMES
    assert all(
        acted[action] > NAMES / 100
        for action in ("renew", "auto", "delete", "restore", "suspend", "unsuspend")
    )
    kinds = ("renewal_opens", *REMINDERS, "expired", "trashed", "trash_ends", "purged", "released")
    assert all(swept[kind] > NAMES / 10 for kind in kinds), swept
    assert swept["auto_renewed"] > NAMES / 20
    assert swept["auto_renew_failed"] > NAMES / 100


def _events(registry: Registry) -> dict[int, list[tuple[str, datetime, str]]]:
    def ask(tx: Tx) -> list[Any]:
        query = (
            select(
                audit_events.c.object_id, audit_events.c.action, audit_events.c.at, audit_events.c.actor_kind
            )
            .where(audit_events.c.object_type == "subdomain")
            .order_by(audit_events.c.id)
        )
        return list(tx.connection.execute(query))

    found = defaultdict(list)
    for subdomain_id, action, at, actor_kind in registry.read(ask):
        found[subdomain_id].append((action.removeprefix("subdomain."), at, actor_kind))
    return found


def _check_transitions(registry: Registry) -> None:
    """Each name's events lead through the table, and end where its row is."""
    rows = registry.read(lambda tx: tx.connection.execute(select(subdomains)).mappings().all())
    events = _events(registry)
    assert len(rows) == len(events) == NAMES
    for row in rows:
        story = events[row["id"]]
        assert story[0][0] == "register"
        state = "live"
        for (before, began_at, _), (action, at, _) in pairwise(story):
            if before == action == "restore" and began_at == at:
                continue  # a restore that renews has two: the term, and the way back
            assert action in TABLE[state], (row["fqdn"], state, action, at, story)
            state = TABLE[state][action]
        facts = (
            ("free", row["released_at"]),
            ("purged", row["purged_at"]),
            ("trash", row["trashed_at"]),
            ("held", row["suspended_at"]),
        )
        wanted = next((name for name, at in facts if at is not None), "live")
        assert state == wanted, (row["fqdn"], story)


def _check_dates(registry: Registry, suspended: set[int]) -> None:
    """What time took, it took on the day on which it was due: the sweep comes by once a day."""
    rows = registry.read(lambda tx: tx.connection.execute(select(subdomains)).mappings().all())
    events = _events(registry)
    for row in rows:
        if row["id"] in suspended:
            continue
        rules = DOMAINS[row["fqdn"].partition(".")[2]]
        by_system = {action: at for action, at, actor_kind in events[row["id"]] if actor_kind == "system"}
        due = {
            "trash": row["expires_at"] + rules.grace * DAY,
            "purge": row["trashed_at"] + rules.trash * DAY if row["trashed_at"] else None,
            "release": row["purged_at"] + rules.cooling_off * DAY if row["purged_at"] else None,
        }
        for action, due_at in due.items():
            if action in by_system and row["trashed_at"] is not None:
                assert due_at is not None
                assert timedelta() <= by_system[action] - due_at < DAY, (row["fqdn"], action)
            elif (
                due_at is not None
                and action not in by_system
                and not (action == "trash" and row["trashed_at"])
            ):
                assert due_at > registry.now, (row["fqdn"], action, due_at)


def _check_mail(registry: Registry, world: Registry14, mailbox: Mailbox) -> None:
    stored = registry.read(lambda tx: tx.connection.execute(select(mails)).mappings().all())
    users = {f"{name}@example.org": user_id for name, user_id in registry.users.items()}
    assert all(each["sent_at"] is not None for each in stored)
    # Who wants no reminders is told of automatic renewals all the same: that is about money.
    reminded = {
        users[each["recipient"]] for each in stored if not each["reference"].startswith("auto_renew:")
    }
    assert not reminded & world.silent_users
    reminders = Counter(
        each["reference"] for each in stored if not each["reference"].startswith("auto_renew:")
    )
    assert _not_of(world.suspended, reminders) == _not_of(world.suspended, world.due_mail)
    assert max(reminders.values()) == 1
    # Automatic renewals are told, and of failures before one expiry the first.
    told = Counter(each["reference"].split(":")[0] for each in stored)
    by_itself = registry.read(
        lambda tx: Counter(
            tx.connection.execute(
                select(milestones.c.kind).where(milestones.c.mail_id.is_not(None))
            ).scalars()
        )
    )
    assert told["auto_renew"] == by_itself["auto_renewed"] + by_itself["auto_renew_failed"]
    # What arrived is what was written, each once.
    taken = Counter(str(message["Message-ID"]) for message in mailbox.messages())
    assert len(taken) == len(stored)
    assert max(taken.values()) == 1
    arrived = Counter((str(m["To"]), str(m["Subject"])) for m in mailbox.messages())
    assert arrived == Counter((each["recipient"], each["subject"]) for each in stored)


def _not_of(ids: set[int], references: Counter[str]) -> Counter[str]:
    """Leave out the mail about names that were ever suspended: its days are other ones."""
    return Counter({each: n for each, n in references.items() if int(each.split(":")[1]) not in ids})
