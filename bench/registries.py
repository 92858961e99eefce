"""Registries to measure: grown by verbs, multiplied by copies of rows, moved to
PostgreSQL by `sublet copy`.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
from grown_registry import OPERATOR, ZONE, grow, multiply
from sqlalchemy import text

from sublet.accounts.tokens.issue import issue_token
from sublet.accounts.users import UserEdit, edit_user
from sublet.audit import Actor
from sublet.credits.entries import ExternalPayment, record_payment
from sublet.credits.model import Payable
from sublet.db import Tx, open_database
from sublet.subdomains.model import Register
from sublet.subdomains.register import register
from sublet.subdomains.sweep.sweep import sweep
from support.postgresql import fresh_database, run_postgresql

SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"
POSTGRESQL_SETTINGS = {"shared_buffers": "2GB", "max_wal_size": "4GB"}
GROWN = 1000
"""The verbs make this many names; copies of their rows make the rest."""
GROWN_DAYS = 340
SENDERS = 64
LISTED = 500
"""The free names of the user whose names are listed."""
QUOTA, CREDITS = 1_000_000, 1_000_000
NAMESERVERS = ("ns1.provider.example", "ns2.provider.example")
SETTLE = (
    "UPDATE clockwork SET seen_at = NULL",
    "UPDATE mails SET next_attempt_at = NULL, logged_at = created_at WHERE next_attempt_at IS NOT NULL",
)
"""Forget the test clock of the last sweep, and count waiting mail as logged, because no mail server runs
here.
"""


@dataclass(frozen=True, slots=True)
class Sender:
    """A user who sends requests: token, and names that can be read and changed."""

    token: str
    fqdns: list[str]


@dataclass(frozen=True, slots=True)
class Registry:
    """A filled registry. `bare_url` is an empty database of the same kind, for the bare commits."""

    url: str
    bare_url: str
    folder: Path
    senders: list[Sender]

    @property
    def reader(self) -> Sender:
        """The user with the names to list."""
        return self.senders[0]


@dataclass(frozen=True, slots=True)
class Copied:
    """The outcome of `sublet copy`: rows, whether the target was equal before, seconds, peak memory."""

    rows: int
    already: bool
    seconds: float
    peak_mib: float


def grown_file(folder: Path, names: int, grown: int = GROWN) -> Path:
    """Return an SQLite file with a registry of `names` names in this folder; make it if it is missing.

    The verbs make `grown` of them.
    """
    path = folder / f"grown-{names}.db"
    if path.exists():
        return path
    base = min(names, grown)
    if base < names:
        shutil.copyfile(grown_file(folder, base), path)
        multiply(path, names // base)
        return path
    url = f"sqlite:///{path}"
    grow(url, names, start=datetime.now(UTC) - timedelta(days=GROWN_DAYS, hours=1))
    asyncio.run(_settle(url))
    return path


async def _settle(url: str) -> None:
    """Run the sweep until nothing is due, as if it had run all the time."""
    database = open_database(url)
    try:
        await database.write(_execute, SETTLE)
        while (await database.write(sweep)).more:
            pass
        await database.write(_execute, SETTLE)
    finally:
        await database.close()


def _execute(tx: Tx, statements: tuple[str, ...]) -> None:
    for each in statements:
        tx.connection.execute(text(each))


def copy_registry(source: str, target: str) -> Copied:
    """Run `sublet copy` from one database to the other."""
    began = time.monotonic()
    words = [sys.executable, "-m", "sublet.cli.main", "copy", "--from", source, "--to", target, "--json"]
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(words, stdout=out)
        # wait4 gives the memory of this one process.
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        answer = out.read().decode()
    assert process.returncode == 0, answer
    found = json.loads(answer)
    rows = sum(each["rows"] for each in found["tables"])
    return Copied(rows, found["already"], time.monotonic() - began, used.ru_maxrss / 1024)


@contextmanager
def registry_on(database: str, names: int, folder: Path, grown: int = GROWN) -> Iterator[Registry]:
    """Fill a database with a registry of `names` names; `folder` keeps the grown files for the next one."""
    source = grown_file(folder, names, grown)
    # Not below `folder`: PostgreSQL runs as another user.
    with tempfile.TemporaryDirectory(prefix="sublet-bench-") as place, ExitStack() as stack:
        here = Path(place)
        url, bare_url = f"sqlite:///{here}/registry.db", f"sqlite:///{here}/bare.db"
        if database == SQLITE:
            shutil.copyfile(source, here / "registry.db")
        else:
            server = stack.enter_context(
                run_postgresql(here, durable=True, settings=POSTGRESQL_SETTINGS),
            )
            url, bare_url = (stack.enter_context(fresh_database(server)) for _ in range(2))
            copy_registry(f"sqlite:///{source}", url)
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("VACUUM ANALYZE")
                connection.execute("CHECKPOINT")
        senders = asyncio.run(_prepare(url))
        os.sync()
        yield Registry(url, bare_url, here, senders)


async def _prepare(url: str) -> list[Sender]:
    database = open_database(url)
    try:
        return await database.write(_choose_senders)
    finally:
        await database.close()


def _choose_senders(tx: Tx) -> list[Sender]:
    """Choose users from all over the registry, and give each a token, credits and a large quota.

    The first one also registers the names that are listed.
    """
    users = tx.connection.execute(text("SELECT id, email FROM users ORDER BY id")).all()
    names = text("SELECT fqdn FROM subdomains WHERE user_id = :id AND trashed_at IS NULL ORDER BY id")
    senders = []
    for user_id, email in users[:: max(1, len(users) // SENDERS)][:SENDERS]:
        edit_user(tx, OPERATOR, email, UserEdit(free_quota=QUOTA))
        paid = ExternalPayment(f"bench-{user_id}", credits=CREDITS, amount="1.00", currency="EUR")
        record_payment(tx, OPERATOR, email, paid)
        token = issue_token(tx, OPERATOR, email, "bench").secret.reveal()
        senders.append(Sender(token, list(tx.connection.execute(names, {"id": user_id}).scalars())))
    reader = Actor("user", user_id=users[0].id)
    for number in range(LISTED):
        command = Register(fqdn=f"listed{number}.{ZONE}", nameservers=NAMESERVERS, payable=Payable())
        register(tx, reader, command, free_quota=QUOTA)
    return senders
