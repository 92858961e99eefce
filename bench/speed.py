"""The part `speed`: rates beside bare references, delays at half load, start and memory of one registry."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import psycopg
from grown_registry import ZONE
from registries import Registry
from servers import Service, reference_running, service_running
from workloads import WORKLOADS, Requests
from wrk import CLIENTS, LEAD_SECONDS, Load, Request, run_load

MANY_CLIENTS = 64
"""The clients for the most that is possible: registrations wait for their publication, and others must use
that time.
"""
REST_SECONDS = 120.0
WAITING = "SELECT 1 FROM subdomains WHERE generation <> published_generation LIMIT 1"
DUE = (
    "UPDATE subdomains SET due_at = created_at WHERE id IN (SELECT id FROM subdomains WHERE trashed_at IS "
    "NULL ORDER BY id DESC LIMIT 10000)"
)
NOT_DUE = "UPDATE subdomains SET due_at = NULL WHERE due_at = created_at"
BARE_TABLE = "CREATE TABLE IF NOT EXISTS bare (id INTEGER, name TEXT)"
BARE_INSERT = "INSERT INTO bare VALUES (1, 'a name')"


@dataclass(frozen=True, slots=True)
class Effort:
    """How long the measurements take: rounds of `seconds` for each workload, of `delay_seconds` for each
    situation.
    """

    rounds: int = 3
    seconds: int = 2
    delay_seconds: int = 4
    starts: int = 3


@dataclass(frozen=True, slots=True)
class Results:
    """The figures of one registry by name: `get` (per second), `get_ratio`, `get_hellos`, `check_read_p99_ms`
    and so on.
    """

    database: str
    names: int
    values: dict[str, float] = field(default_factory=dict)


def say(text: str) -> None:
    """Report progress on stderr."""
    print(text, file=sys.stderr, flush=True)


def measure(database: str, registry: Registry, names: int, effort: Effort) -> Results:
    """Measure one registry."""
    results = Results(database, names)
    requests = Requests(registry)
    with (
        reference_running(registry.folder, "hello") as hello,
        reference_running(registry.folder, "by_hand", registry.url) as by_hand,
        service_running(registry.url, registry.folder) as service,
    ):
        rest(service)
        say(f"{database}, {names:,}: rates")
        results.values.update(_rates(registry, service, (hello, by_hand), requests, effort))
        say(f"{database}, {names:,}: delays")
        results.values.update(_delays(service, requests, effort))
        results.values["memory_mib"] = service.memory_mib()
    ready = []
    for _ in range(effort.starts):
        with service_running(registry.url, registry.folder) as service:
            ready.append(service.ready_seconds)
    results.values["ready_seconds"] = median(ready)
    return results


def _rates(
    registry: Registry, service: Service, references: tuple[str, str], requests: Requests, effort: Effort
) -> dict[str, float]:
    """Measure the references and all workloads in turn, round after round; return medians over the rounds.

    `NAME_ratio` is the rate divided by its reference's of the same round, `NAME_hellos` by the bare hello's.
    """
    rounds: defaultdict[str, list[float]] = defaultdict(list)
    hello, by_hand = references
    _run_hello(hello, 1)
    _run_by_hand(by_hand, requests, 1)
    for workload in WORKLOADS[:2]:
        workload.run(service, requests, 1)  # the first second is slower
    for _ in range(effort.rounds):
        rounds["hello"].append(_run_hello(hello, effort.seconds))
        rounds["by_hand"].append(_run_by_hand(by_hand, requests, effort.seconds))
        rounds["commits"].append(bare_commits(registry.bare_url, effort.seconds))
        for each in WORKLOADS:
            rounds[each.name].append(each.run(service, requests, effort.seconds).per_second / each.requests)
        rest(service)
    values = {name: median(rates) for name, rates in rounds.items()}
    for each in WORKLOADS:
        for suffix, reference in (("ratio", each.reference), ("hellos", "hello")):
            pairs = zip(rounds[each.name], rounds[reference], strict=True)
            values[f"{each.name}_{suffix}"] = median(own / other for own, other in pairs)
    pairs = zip(rounds["get"], rounds["by_hand"], strict=True)
    values["get_by_hand_ratio"] = median(own / other for own, other in pairs)
    return values


def _run_hello(url: str, seconds: int) -> float:
    return run_load(url, [Request("GET", "/")], seconds, again=True).per_second


def _run_by_hand(url: str, requests: Requests, seconds: int) -> float:
    load = run_load(url, requests.get(2000), seconds, again=True)
    assert not load.refused, f"by hand: {load.refused} of {load.requests} requests were refused"
    return load.per_second


def bare_commits(url: str, seconds: float) -> float:
    """Return how many times a second the bare driver inserts one row and commits.

    SQLite: one connection, with WAL and `synchronous=FULL` as in the service. PostgreSQL: 16 connections at
    once.
    """
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            for pragma in ("journal_mode=WAL", "synchronous=FULL"):
                connection.execute(f"PRAGMA {pragma}")
            connection.execute(BARE_TABLE)
            return _count_for(seconds, lambda: connection.execute(BARE_INSERT)) / seconds
    with psycopg.connect(url, autocommit=True) as connected:
        connected.execute(BARE_TABLE)
    with ThreadPoolExecutor(CLIENTS) as threads:
        return sum(threads.map(lambda _: _commit_on(url, seconds), range(CLIENTS))) / seconds


def _commit_on(url: str, seconds: float) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        return _count_for(seconds, lambda: connection.execute(BARE_INSERT))


def _count_for(seconds: float, once: Callable[[], object]) -> int:
    ends, count = time.perf_counter() + seconds, 0
    while time.perf_counter() < ends:
        once()
        count += 1
    return count


def _delays(service: Service, requests: Requests, effort: Effort) -> dict[str, float]:
    """Measure p99 at half load: half of the most that is possible of nine reads to one registration.

    Beside lists only reads are sent, since the lists themselves are load.
    """
    seconds = effort.delay_seconds
    most = median(_most(service, requests, effort.seconds) for _ in range(effort.rounds))
    values = {"most": most}
    situations: dict[str, Callable[[], AbstractContextManager[None]]] = {
        "alone": nullcontext,
        "sweep": lambda: sweeping(service),
        "check": lambda: checking(service),
        "lists": lambda: listing(service, requests, seconds),
    }
    for name, beside in situations.items():
        rates = {"read": 0.45 * most} | ({"write": 0.05 * most} if name != "lists" else {})
        rounds = [_at_rates(service, requests, rates, seconds, beside) for _ in range(effort.rounds)]
        for kind in rates:
            values[f"{name}_{kind}_p99_ms"] = median(each[kind].p99_ms for each in rounds)
    return values


def _most(service: Service, requests: Requests, seconds: int) -> float:
    prepared = requests.mixed(seconds * 10_000)
    load = run_load(service.origin, prepared, seconds, clients=MANY_CLIENTS, again=False)
    assert not load.refused, f"{load.refused} of {load.requests} requests were refused"
    rest(service)
    return load.per_second


def _at_rates(
    service: Service,
    requests: Requests,
    rates: dict[str, float],
    seconds: int,
    beside: Callable[[], AbstractContextManager[None]],
) -> dict[str, Load]:
    """Send reads, and registrations with nameservers, at their rates, while the service does something else
    too.
    """
    prepared = {"read": requests.get(2000)}
    if "write" in rates:
        prepared["write"] = requests.register_delegated(int(rates["write"] * seconds * 2) + 200)
    with beside(), ThreadPoolExecutor(2) as threads:
        running = {
            kind: threads.submit(
                run_load, service.origin, prepared[kind], seconds, rate=rate, again=kind == "read"
            )
            for kind, rate in rates.items()
        }
        loads = {kind: each.result() for kind, each in running.items()}
    assert not any(each.refused for each in loads.values()), f"requests were refused: {loads}"
    rest(service)
    return loads


@contextmanager
def sweeping(service: Service) -> Iterator[None]:
    """Make 10,000 names due; the sweep looks at them and finds nothing to do."""
    first_value(service.database_url, DUE)
    yield
    first_value(service.database_url, NOT_DUE)


@contextmanager
def checking(service: Service) -> Iterator[None]:
    """Run `sublet zone check` again and again."""
    ended = threading.Event()

    def run() -> None:
        command = [sys.executable, "-m", "sublet.cli.main", "zone", "check", ZONE]
        environment = os.environ | {"SUBLET_DATABASE_URL": service.database_url}
        while not ended.is_set():
            with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
                while process.poll() is None:
                    if ended.wait(0.1):
                        process.terminate()
                        return
                # 1: the zone changed during the check.
                assert process.returncode in (0, 1), f"zone check ended with {process.returncode}"

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(run)
        try:
            yield
        finally:
            ended.set()
        running.result()


@contextmanager
def listing(service: Service, requests: Requests, seconds: int) -> Iterator[None]:
    """Have two clients read the slowest lists."""
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(
            run_load, service.origin, requests.slow_lists(), seconds + LEAD_SECONDS, clients=2, again=True
        )
        yield
        running.result()


def first_value(url: str, statement: str) -> Any:
    """Run an SQL statement beside the service; return the first column of its first
    row, None without a row.
    """
    if url.startswith("sqlite"):
        with closing(
            sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30, isolation_level=None)
        ) as connection:
            connection.execute("PRAGMA wal_autocheckpoint=0")  # the service alone may write into the file
            row = connection.execute(statement).fetchone()
    else:
        with psycopg.connect(url, autocommit=True) as connected:
            cursor = connected.execute(statement.encode())
            row = None if cursor.description is None else cursor.fetchone()
    return None if row is None else row[0]


def rest(service: Service) -> None:
    """Wait until everything is published."""
    ends = time.monotonic() + REST_SECONDS
    while first_value(service.database_url, WAITING):
        assert time.monotonic() < ends, "names are still unpublished"
        time.sleep(0.1)
