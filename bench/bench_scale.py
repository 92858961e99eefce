"""What a request and a name cost, in processor time, statements, bytes and memory: `make bench-scale`.

Each role is a process of its own over a PostgreSQL with 100,000 names, and a `sublet serve` over the same names in SQLite. It counts what the
kernel and PostgreSQL have counted, no wall time. The load is small: some thousand requests over loopback. It prints a page for
docs/reports/scale.md; what follows for other rates is reckoned by `scale_model.py`.
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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dns.message
import dns.query
import httpx
import psycopg

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from scale_processes import (
    ROLES,
    Cost,
    Service,
    cpu_ms,
    fill,
    measure,
    megabytes,
    prepare,
    service_over,
    sizes,
)
from scale_report import print_page
from speed.servers import tree

from grown_registry import ZONE, grow, multiply
from postgresql import fresh_database, run_postgresql
from serving import wait_until

GROWN = 2000
"""Names that are grown by verbs; the rest are these again, under other names and numbers."""
CLIENTS = 8
NAMESERVERS = ["ns1.provider.example", "ns2.provider.example"]
OTHERS = ["ns1.moved.example", "ns2.moved.example"]


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

    configure(b"ALTER SYSTEM SET log_statement = 'all'", b"ALTER SYSTEM SET log_line_prefix = '@%a|%p|'")
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


def measure_publishing(service: Service, names: int) -> Cost:
    """Have so many names published anew at once, and measure what one costs in full batches."""

    def load() -> None:
        with psycopg.connect(service.database, autocommit=True) as connection:
            connection.execute(
                "UPDATE subdomains SET generation = generation + 1, generation_at = now() WHERE id IN "
                "(SELECT id FROM subdomains WHERE trashed_at IS NULL AND nameserver_count > 0 ORDER BY id LIMIT %s)",
                [names],
            )
            count = "SELECT count(*) FROM subdomains WHERE generation <> published_generation"
            wait_until(lambda: connection.execute(count).fetchone() == (0,), 300)

    return measure(service, "publication, 100 at a time", names, load)


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
            found["publishing"] = measure_publishing(service, 2000)
            found["check"] = measure_command(service, "zone", "check", ZONE)
            found["doctor"] = measure_command(service, "doctor")
    return found


def on_sqlite(path: Path, folder: Path, count: int) -> list[Cost]:
    """Measure the requests with one `sublet serve` over SQLite."""
    url = f"sqlite:///{path}"
    tokens = prepare(url, CLIENTS)
    with service_over(url, folder, ("serve",), tokens) as service:
        return measure_requests(service, count)


def main() -> None:
    """Grow a registry, or take one, measure, print the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--names", type=int, default=100_000)
    parser.add_argument(
        "--registry", type=Path, help="a grown registry, instead of growing one; it is changed"
    )
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
