"""The processes of a service that is measured, and what the kernel and PostgreSQL count of them; for `bench_scale.py`."""

import asyncio
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from speed.servers import tree
from sqlalchemy import create_engine

from grown_registry import OPERATOR
from serving import free_address, wait_until
from sublet.accounts.issue_token import issue_token
from sublet.db import Tx, open_database, sqlite_engine, utc_now
from sublet.migrations import upgrade
from sublet.registry import copy_store

ROLES = ("api", "worker", "dns")
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Service:
    """A running service: its processes by role, where it answers, and the tokens of its users."""

    pids: dict[str, int]
    base_url: str
    dns: tuple[str, int]
    tokens: list[str]
    database: str = ""
    postmaster: int = 0
    """Of PostgreSQL; 0: there is none."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one request of a kind cost, milliseconds of processor time by process, and what PostgreSQL counted."""

    what: str
    ms: dict[str, float]
    commits: float
    wal_bytes: float


def cpu_ms(pid: int) -> float:
    """Return the processor time of a process with those of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) * TICK_MS


def megabytes(pid: int) -> float:
    """Return the memory of a process and those below it, what they share counted once (PSS)."""
    total = 0
    for each in tree(pid):
        rollup = Path(f"/proc/{each}/smaps_rollup").read_text()
        found = re.search(r"^Pss:\s+(\d+)", rollup, re.MULTILINE)
        total += int(found[1]) if found else 0
    return total / 1024


def backends(service: Service) -> dict[int, str]:
    """Return of each process of PostgreSQL for whom it works; `rest` writes logs, checkpoints and statistics."""
    if not service.postmaster:
        return {}
    with psycopg.connect(service.database) as connection:
        rows = connection.execute("SELECT pid, application_name FROM pg_stat_activity").fetchall()
    named = {pid: name for pid, name in rows if name in ROLES}
    return {pid: f"postgresql, {named[pid]}" if pid in named else "rest" for pid in tree(service.postmaster)}


def snapshot(service: Service) -> dict[tuple[str, int], float]:
    """Return the processor time of all processes so far."""
    found = {(role, each): cpu_ms(each) for role, pid in service.pids.items() for each in tree(pid)}
    return found | {(name, pid): cpu_ms(pid) for pid, name in backends(service).items()}


def counters(service: Service) -> tuple[int, int]:
    """Return the transactions committed so far, and the bytes of log."""
    if not service.postmaster:
        return 0, 0
    time.sleep(1.2)  # processes tell their counts once a second
    query = "SELECT xact_commit, pg_current_wal_insert_lsn() - '0/0' FROM pg_stat_database WHERE datname = current_database()"
    with psycopg.connect(service.database) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def measure(service: Service, what: str, count: int, load: Callable[[], object]) -> Cost:
    """Run a load of so many requests and return what one of them cost."""
    counted, before = counters(service), snapshot(service)
    load()
    after, counted_after = snapshot(service), counters(service)
    ms: defaultdict[str, float] = defaultdict(float)
    for key, value in after.items():
        ms[key[0]] += value - before.get(key, 0.0)
    print(what, {name: round(value / count, 2) for name, value in ms.items()}, file=sys.stderr)
    commits, wal = (b - a for a, b in zip(counted, counted_after, strict=True))
    return Cost(what, {name: value / count for name, value in ms.items()}, commits / count, wal / count)


def fill(path: Path, url: str) -> None:
    """Make the same registry in PostgreSQL, vacuumed."""
    upgrade(url)
    reading = sqlite_engine(f"sqlite:///{path}")
    writing = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with reading.connect() as rows, writing.begin() as connection:
        source, target = Tx(rows, utc_now()), Tx(connection, utc_now())
        copy_store.delete_seeds(target)
        for table in copy_store.list_copied():
            copy_store.add_rows(target, table, copy_store.read_rows(source, table))
        copy_store.set_last_ids(target, copy_store.find_last_ids(source))
    reading.dispose()
    writing.dispose()
    with psycopg.connect(url, autocommit=True) as plain:
        plain.execute("VACUUM ANALYZE")


def sizes(url: str) -> dict[str, tuple[int, int, int]]:
    """Return of each table its rows, its bytes, and those of its indexes."""
    query = (
        "SELECT relname, n_live_tup, pg_table_size(relid), pg_indexes_size(relid) FROM pg_stat_user_tables"
    )
    with psycopg.connect(url) as connection:
        return {row[0]: (row[1], row[2], row[3]) for row in connection.execute(query)}


REST = """
UPDATE subdomains SET due_at = NULL, loss_at = NULL;
UPDATE mails SET next_attempt_at = NULL, logged_at = created_at WHERE next_attempt_at IS NOT NULL;
UPDATE clockwork SET seen_at = NULL;
UPDATE users SET free_quota = 1000000;
UPDATE ledger_accounts SET balance = balance + 100000 WHERE kind = 'user'
"""
"""What lets all names rest: time has gone on since they were grown, and the sweep would have much to do meanwhile."""


def prepare(url: str, users: int) -> list[str]:
    """Let a filled registry rest, and give its first users tokens."""

    async def run() -> list[str]:
        database = open_database(url)
        try:

            def issue(tx: Tx) -> list[str]:
                for statement in REST.split(";"):
                    tx.connection.exec_driver_sql(statement)
                emails = [f"user{number}@example.org" for number in range(users)]
                return [issue_token(tx, OPERATOR, email, "bench").secret.reveal() for email in emails]

            return await database.write(issue)
        finally:
            await database.close()

    return asyncio.run(run())


@contextmanager
def running(words: list[str], environment: dict[str, str], log: Path) -> Iterator[int]:
    """Run `sublet WORDS` until it says that it serves, and end it by its process id."""
    with log.open("wb") as out:
        command = [sys.executable, "-m", "sublet.cli.main", *words]
        process = subprocess.Popen(command, env=os.environ | environment, stdout=out, stderr=out)
    try:
        wait_until(lambda: _serves(process, log), 60)
        yield process.pid
    finally:
        process.terminate()
        process.wait(30)


def _serves(process: "subprocess.Popen[bytes]", log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    return "serving" in log.read_text()


@contextmanager
def service_over(url: str, folder: Path, roles: tuple[str, ...], tokens: list[str]) -> Iterator[Service]:
    """Run each of these roles as a process of its own (of `api`: with one process below it)."""
    http, name_server = free_address(), free_address()
    shared = {
        "SUBLET_HTTP_LISTEN": f"{http[0]}:{http[1]}",
        "SUBLET_DNS_LISTEN": f"{name_server[0]}:{name_server[1]}",
        "SUBLET_DNS_SERVERS": f"{name_server[0]}:{name_server[1]}",
        "SUBLET_RATE_LIMITS": "off",
    }
    if roles == ("serve",):
        del shared["SUBLET_DNS_SERVERS"]
    with ExitStack() as stack:
        pids = {}
        for role in roles:
            own = {"SUBLET_DATABASE_URL": url if role == "serve" else f"{url}?application_name={role}"}
            words = [role, "--workers", "1"] if role == "api" else [role]
            pids[role] = stack.enter_context(running(words, shared | own, folder / f"{role}.log"))
        yield Service(pids, f"http://{http[0]}:{http[1]}/api/v1", name_server, tokens)
