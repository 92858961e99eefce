"""What a request and a name cost, in processor time, statements, bytes and memory: `make bench-scale`.

Each role is a process of its own over a PostgreSQL with 100,000 names, and a `sublet serve` over the same names in SQLite. It counts what the
kernel and PostgreSQL have counted, no wall time, so other work on the machine doesn't matter much. The load is small: some thousand
requests over loopback. It prints a page for docs/reports/scale.md; what follows for larger registries is reckoned by `scale_model.py`.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dns.message
import dns.query
import httpx
import psycopg
from sqlalchemy import create_engine

sys.path.append(str(Path(__file__).parents[1] / "tests"))

import scale_model
from grown_registry import OPERATOR, ZONE, grow, multiply
from postgresql import fresh_database, run_postgresql
from serving import free_address, wait_until
from sublet.accounts.issue_token import issue_token
from sublet.db import Tx, open_database, sqlite_engine, utc_now
from sublet.migrations import upgrade
from sublet.registry import copy_store

GROWN = 2000
"""Names that are grown by verbs; the rest are these again, under other names and numbers."""
CLIENTS = 8
ROLES = ("api", "worker", "dns")
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
NAMESERVERS = ["ns1.provider.example", "ns2.provider.example"]
OTHERS = ["ns1.moved.example", "ns2.moved.example"]


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


# What the kernel counts.


def cpu_ms(pid: int) -> float:
    """Return the processor time of a process with those of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) * TICK_MS


def tree(pid: int) -> list[int]:
    """Return the ids of a process and of all below it."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # it has ended
        return []
    return [pid, *(each for child in children for each in tree(int(child)))]


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
    query = (
        "SELECT xact_commit, pg_current_wal_insert_lsn() - '0/0' FROM pg_stat_database WHERE datname = current_database()"
    )
    with psycopg.connect(service.database) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def measure(service: Service, what: str, count: int, load: Callable[[], object]) -> Cost:
    """Run a load of so many requests and return what one of them cost."""
    counted, before = counters(service), snapshot(service)
    load()
    after, counted_after = snapshot(service), counters(service)
    ms: Counter[str] = Counter()
    for key, value in after.items():
        ms[key[0]] += value - before.get(key, 0.0)
    print(what, {name: round(value / count, 2) for name, value in ms.items()}, file=sys.stderr)
    commits, wal = (b - a for a, b in zip(counted, counted_after, strict=True))
    return Cost(what, {name: value / count for name, value in ms.items()}, commits / count, wal / count)


# Loads.


def requests(
    service: Service, count: int, one: Callable[[httpx.AsyncClient, int], Any], clients: int = CLIENTS
) -> Callable[[], object]:
    """Return a load of `count` requests from clients that each send one after the other, each as a user of its own."""

    async def run() -> None:
        numbers = iter(range(count))

        async def client(place: int) -> None:
            head = {"Authorization": f"Bearer {service.tokens[place]}"}
            async with httpx.AsyncClient(base_url=service.base_url, headers=head, timeout=60) as session:
                for number in numbers:
                    answer = await one(session, number)
                    assert answer.is_success, answer.text

        await asyncio.gather(*(client(place) for place in range(clients)))

    return lambda: asyncio.run(run())


def register(prefix: str, mode: str) -> Callable[[httpx.AsyncClient, int], Any]:
    """Return a request that registers the next name."""

    def one(session: httpx.AsyncClient, number: int) -> Any:
        body = {"fqdn": f"{prefix}{number}.{ZONE}", "nameservers": NAMESERVERS, "registration_mode": mode}
        return session.post("/subdomains", json=body | {"confirm": True})

    return one


def measure_requests(service: Service, count: int) -> list[Cost]:
    """Measure each kind of request. One client changes names one by one, so that it is asked for its own."""
    fqdns = [f"own{number}.{ZONE}" for number in range(count)]

    def put(session: httpx.AsyncClient, number: int) -> Any:
        return session.put(f"/subdomains/{fqdns[number]}/nameservers", json={"nameservers": OTHERS})

    def get(path: Callable[[int], str]) -> Callable[[httpx.AsyncClient, int], Any]:
        return lambda session, number: session.get(path(number))

    def ask() -> None:
        for number in range(4 * count):
            query = dns.message.make_query(f"own{number % count}.{ZONE}", "NS")
            dns.query.udp(query, service.dns[0], port=service.dns[1], timeout=10)

    requests(service, 50, register("warm", "free"))()
    loads: list[tuple[str, int, Callable[[], object]]] = [
        ("nothing, a second", 10, lambda: time.sleep(10)),
        ("registration, free, one at a time", count, requests(service, count, register("own", "free"), 1)),
        (f"registration, free, {CLIENTS} at a time", count, requests(service, count, register("f", "free"))),
        (f"registration, paid, {CLIENTS} at a time", count, requests(service, count, register("p", "plus"))),
        ("nameserver update, one at a time", count, requests(service, count, put, 1)),
        (
            "GET /subdomains/{fqdn}",
            4 * count,
            requests(service, 4 * count, get(lambda n: f"/subdomains/{fqdns[n % count]}"), 1),
        ),
        (
            "GET /subdomains, 20 of them",
            count,
            requests(service, count, get(lambda _: "/subdomains?limit=20")),
        ),
        ("a question to the built-in name server", 4 * count, ask),
    ]
    return [measure(service, what, number, load) for what, number, load in loads]


@dataclass(frozen=True, slots=True)
class Statements:
    """What one registration sends to PostgreSQL: how many statements by role, and how many while it holds the house's account."""

    counts: dict[str, float]
    house: int


def count_statements(service: Service, log: Path, prefix: str, mode: str, count: int = 40) -> Statements:
    """Have PostgreSQL log every statement for some registrations, one at a time, and count them."""

    def configure(*statements: bytes) -> None:
        with psycopg.connect(service.database, autocommit=True) as connection:
            for each in (*statements, b"SELECT pg_reload_conf()"):
                connection.execute(each)
        time.sleep(1)

    configure(
        b"ALTER SYSTEM SET log_statement = 'all'", b"ALTER SYSTEM SET log_line_prefix = '@%a|%p|'"
    )
    begins = log.stat().st_size
    requests(service, count, register(prefix, mode), 1)()
    ends = log.stat().st_size
    configure(b"ALTER SYSTEM RESET log_statement")
    logged = log.read_bytes()[begins:ends].decode(errors="replace")
    lines = re.findall(r"^@(\w*)\|(\d+)\|LOG:  (?:statement|execute [^:]*): (.*)", logged, re.MULTILINE)
    counts = Counter(role for role, _, _ in lines)
    return Statements({role: counts[role] / count for role in ROLES}, _held_for(lines))


def _held_for(lines: list[tuple[str, str, str]]) -> int:
    """Return how many statements a transaction sends from its change of the house's account to its COMMIT, that included."""
    moved: dict[str, list[int]] = {}
    held = 0
    for role, pid, statement in lines:
        if role != "api":
            continue
        if statement.startswith(("BEGIN", "COMMIT", "ROLLBACK")):
            if statement.startswith("COMMIT") and len(moved.get(pid, [])) > 1:
                held = max(held, moved[pid][-1] + 1)
            moved[pid] = []
            continue
        moved[pid] = [each + 1 for each in moved.get(pid, [])]
        if statement.startswith("UPDATE ledger_accounts"):
            moved[pid].append(0)
    return held


# The databases and the processes.


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
    query = "SELECT relname, n_live_tup, pg_table_size(relid), pg_indexes_size(relid) FROM pg_stat_user_tables"
    with psycopg.connect(url) as connection:
        return {row[0]: (row[1], row[2], row[3]) for row in connection.execute(query)}


REST = """
UPDATE subdomains SET due_at = NULL, loss_at = NULL;
UPDATE mails SET next_attempt_at = NULL, logged_at = created_at WHERE next_attempt_at IS NOT NULL;
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
                return [issue_token(tx, OPERATOR, email, "bench").secret for email in emails]

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


# The whole.


def measure_sweep(service: Service, names: int) -> Cost:
    """Make so many names due, and measure what the sweep's look at one costs, where there is nothing to do to it."""

    def load() -> None:
        with psycopg.connect(service.database, autocommit=True) as connection:
            connection.execute(
                "UPDATE subdomains SET expires_at = now() + interval '200 days', due_at = now() WHERE id IN "
                "(SELECT id FROM subdomains WHERE trashed_at IS NULL AND suspended_at IS NULL ORDER BY id LIMIT %s)",
                [names],
            )
            count = "SELECT count(*) FROM subdomains WHERE due_at <= now()"
            wait_until(lambda: connection.execute(count).fetchone() == (0,), 300)

    return measure(service, "a look of the sweep at a name", names, load)


def measure_command(service: Service, *words: str) -> tuple[float, float, float]:
    """Return the processor seconds of a command of the operator's, those of PostgreSQL for it, and its most memory in MB."""
    before = sum(cpu_ms(pid) for pid in tree(service.postmaster))
    environment = os.environ | {"SUBLET_DATABASE_URL": service.database}
    command = [sys.executable, "-m", "sublet.cli.main", *words]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    theirs = sum(cpu_ms(pid) for pid in tree(service.postmaster)) - before
    return used.ru_utime + used.ru_stime, theirs / 1000, used.ru_maxrss / 1024


def on_postgresql(path: Path, folder: Path, count: int) -> dict[str, Any]:
    """Measure everything with one process of each role over PostgreSQL."""
    with run_postgresql(folder / "cluster", durable=True) as server, fresh_database(server) as url:
        fill(path, url)
        found: dict[str, Any] = {"sizes": sizes(url)}
        tokens = prepare(url, CLIENTS)
        with service_over(url, folder, ROLES, tokens) as service:
            service.database = url
            postmaster = (folder / "cluster" / "data" / "postmaster.pid").read_text()
            service.postmaster = int(postmaster.split()[0])
            found["requests"] = measure_requests(service, count)
            found["memory"] = {role: megabytes(pid) for role, pid in service.pids.items()}
            with psycopg.connect(url) as connection:
                rows = connection.execute(
                    "SELECT application_name, count(*) FROM pg_stat_activity GROUP BY 1"
                ).fetchall()
            found["connections"] = {name: number for name, number in rows if name in ROLES}
            log = folder / "cluster" / "log"
            found["statements"] = {
                mode: count_statements(service, log, f"s{mode}", mode) for mode in ("free", "plus")
            }
            found["sweep"] = measure_sweep(service, 2000)
            found["check"] = measure_command(service, "zone", "check", ZONE)
            found["doctor"] = measure_command(service, "doctor")
    return found


def on_sqlite(path: Path, folder: Path, count: int) -> list[Cost]:
    """Measure the requests with one `sublet serve` over SQLite."""
    url = f"sqlite:///{path}"
    tokens = prepare(url, CLIENTS)
    with service_over(url, folder, ("serve",), tokens) as service:
        return measure_requests(service, count)


def print_page(found: dict[str, Any], names: int, sqlite_bytes: int) -> None:
    """Print the report."""
    print("# What a request and a name cost\n")
    print(f"`make bench-scale`, {datetime.now(UTC):%Y-%m-%d}, Python {sys.version.split()[0]}: a registry of {names:,} names, PostgreSQL with fsync,")
    print("one process of each role, the built-in name server. Processor time as the kernel counts it, on a machine with two cores that had other")
    print("work too; so it is a little more than on a quiet one.\n")
    print("## Processor time, milliseconds a request\n")
    columns = [*ROLES, *(f"postgresql, {role}" for role in ROLES), "rest"]
    print(f"| | {' | '.join([*ROLES, *(f'PostgreSQL for {role}' for role in ROLES), 'its own work'])} | sum | commits | log, bytes | SQLite: serve |")
    print("|---|" + "---:|" * (len(columns) + 4))
    for cost, other in zip(found["requests"], found["sqlite"], strict=True):
        cells = [f"{cost.ms.get(name, 0):.2f}" for name in columns]
        counted = f"{cost.commits:.1f} | {cost.wal_bytes:,.0f} | {other.ms['serve']:.2f}"
        print(f"| {cost.what} | {' | '.join(cells)} | {sum(cost.ms.values()):.2f} | {counted} |")
    print("\nThe first line is milliseconds a second, the others include it.")
    print("\n## Statements of one registration, one at a time\n")
    print("| | " + " | ".join(ROLES) + " | with the house's account locked, COMMIT included |\n|---|" + "---:|" * 4)
    for mode, counts in found["statements"].items():
        cells = [f"{counts.counts[role]:.0f}" for role in ROLES]
        print(f"| {'paid' if mode == 'plus' else 'free'} | {' | '.join(cells)} | {counts.house or '-'} |")
    print_names(found, names, sqlite_bytes)
    print("\n## Other rates, simulated\n")
    costs = costs_of(found)
    print(f"`bench/scale_model.py` with {costs}\n")
    scale_model.print_table(costs, scale_model.ZONE_MS)


def print_names(found: dict[str, Any], names: int, sqlite_bytes: int) -> None:
    """Print what names and processes take of disk, memory and time."""
    print("\n## Bytes in the database\n")
    print("| Table | rows a name | table, bytes a name | indexes, bytes a name |\n|---|---:|---:|---:|")
    tables = sorted(found["sizes"].items(), key=lambda each: -sum(each[1][1:]))
    for table, (rows, own, indexes) in tables[:8]:
        print(f"| {table} | {rows / names:.2f} | {own / names:.0f} | {indexes / names:.0f} |")
    own, indexes = (sum(each[place] for _, each in tables) / names for place in (1, 2))
    print(f"| all | | {own:.0f} | {indexes:.0f} |")
    print(f"\nThe same in SQLite: {sqlite_bytes / names:.0f} bytes a name, all in all.")
    print("\n## Processes\n\n| | memory (PSS), MB | connections |\n|---|---:|---:|")
    for role in ROLES:
        print(f"| {role} | {found['memory'][role]:.0f} | {found['connections'].get(role, 0)} |")
    print("\n## The whole\n\n| | its processor time, s | PostgreSQL's, s | memory, MB |\n|---|---:|---:|---:|")
    for what in ("check", "doctor"):
        own, theirs, memory = found[what]
        name = "sublet zone check" if what == "check" else "sublet doctor"
        print(f"| `{name}`, {names:,} names | {own:.0f} | {theirs:.0f} | {memory:.0f} |")
    sweep = found["sweep"]
    own, theirs = sweep.ms["worker"] * names / 1e6, sweep.ms["postgresql, worker"] * names / 1e6
    print(f"| a look of the sweep at each of {names:,} names | {own * 1000:.0f} | {theirs * 1000:.0f} | |")


def costs_of(found: dict[str, Any]) -> scale_model.Costs:
    """Return what the simulation needs of what was measured."""
    _, single, many, paid, _, read, _, _ = (each.ms for each in found["requests"])
    by_name = min(many["worker"], single["worker"])
    statements = found["statements"]["free"].counts["api"]
    house = found["statements"]["plus"].house - 1
    return scale_model.Costs(
        api=paid["api"],
        postgresql=paid["postgresql, api"],
        read_api=read["api"],
        read_postgresql=read["postgresql, api"],
        batch=max(0.0, single["worker"] - by_name),
        name=by_name,
        published=many["postgresql, worker"] + many["postgresql, dns"],
        # A statement takes the API and PostgreSQL their share of the whole request's time.
        house=(many["api"] + many["postgresql, api"]) * house / statements,
    )


def main() -> None:
    """Grow a registry, or take one, measure, print the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--names", type=int, default=100_000)
    parser.add_argument("--registry", type=Path, help="a grown registry, instead of growing one; it is changed")
    parser.add_argument("--count", type=int, default=400, help="requests of each kind")
    parser.add_argument("--json", type=Path, help="a file for what was measured")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sublet-bench-scale-") as name:
        folder = Path(name)
        (folder / "cluster").mkdir()
        path = chosen.registry or folder / "grown.db"
        if chosen.registry is None:
            grow(f"sqlite:///{path}", GROWN)
            multiply(path, chosen.names // GROWN)
        size = path.stat().st_size
        found = on_postgresql(path, folder, chosen.count)
        found["sqlite"] = on_sqlite(path, folder, chosen.count)
    if chosen.json:
        chosen.json.write_text(json.dumps(found, default=_plain))
    print_page(found, chosen.names, size)


def _plain(value: Any) -> Any:
    return {name: getattr(value, name) for name in value.__slots__}


if __name__ == "__main__":
    main()
