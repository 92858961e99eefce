"""What else a service has to do while its delays are measured: a sweep, a check of the zone, slow lists."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import psycopg

from speed.load import run_load
from speed.servers import Service
from speed.template import ZONE
from speed.workloads import Sender

DUE = (
    "CREATE TABLE bench_due AS SELECT id, due_at FROM subdomains WHERE trashed_at IS NULL AND last_renewed_at IS NULL ORDER BY id LIMIT 10000",
    "UPDATE subdomains SET due_at = created_at WHERE id IN (SELECT id FROM bench_due)",
)
NOT_DUE = (
    "UPDATE subdomains SET due_at = bench_due.due_at FROM bench_due WHERE bench_due.id = subdomains.id AND subdomains.due_at = subdomains.created_at",
    "DROP TABLE bench_due",
)
"""Names are due, and those at which nobody has looked meanwhile are not any more."""

REOPEN = {
    "sqlite": "strftime('%Y-%m-%dT%H:%M:%S', substr(expires_at, 1, 19), '-365 days', '1 second') || substr(expires_at, 20)",
    "postgresql": "expires_at - interval '365 days' + interval '1 second'",
}
WAITING = "SELECT 1 FROM subdomains WHERE generation <> published_generation LIMIT 1"
REST_SECONDS = 60.0


def run_statement(url: str, statement: str) -> bool:
    """Run a statement of the bench's own over a registry that is served meanwhile; tell whether it gave a row."""
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
            return connection.execute(statement).fetchone() is not None
    with psycopg.connect(url, autocommit=True) as connected:
        cursor = connected.execute(statement.encode())
        return cursor.description is not None and cursor.fetchone() is not None


def reopen(service: Service) -> None:
    """Open the renewal of all names that were renewed, past the service: as before, but a second later, since no two terms begin at once."""
    expires_at = REOPEN[service.url.partition(":")[0]]
    run_statement(
        service.url,
        f"UPDATE subdomains SET last_renewed_at = NULL, expires_at = {expires_at} WHERE last_renewed_at IS NOT NULL",  # noqa: S608 - our own
    )


@contextmanager
def sweeping(service: Service) -> Iterator[None]:
    """Make names due, at each of which the sweep then looks, and finds nothing to do; it takes longer than a round."""
    for statement in DUE:
        run_statement(service.url, statement)
    yield
    for statement in NOT_DUE:  # what is measured next is not measured beside the rest of it
        run_statement(service.url, statement)


@contextmanager
def checking(service: Service) -> Iterator[None]:
    """Check the whole zone against the registry, again and again, as the operator's command does, beside the service."""
    ended = threading.Event()
    faults: list[str] = []

    def run() -> None:
        while not ended.is_set():
            command = [sys.executable, "-m", "sublet.cli.main", "zone", "check", ZONE]
            environment = os.environ | {"SUBLET_DATABASE_URL": service.url}
            process = subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            while process.poll() is None:
                if ended.wait(0.1):
                    process.terminate()
                    process.wait(30)
                    return
            output = process.stdout.read() if process.stdout else ""
            # 1: names are on their way into the zone while it is checked.
            if process.returncode not in (0, 1):
                faults.append(output)
                return

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert not faults, faults


@contextmanager
def listing(service: Service, sender: Sender, seconds: int) -> Iterator[None]:
    """Have two clients ask for the slowest lists, each one after the other, for so many seconds and one more."""
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(run_load, service.origin, sender.slow(0), seconds + 1, clients=2, again=True)
        yield
        running.result()


def rest(service: Service) -> float:
    """Wait until all that was changed is published; return how many seconds that took, at most `REST_SECONDS`."""
    began = time.monotonic()
    while run_statement(service.url, WAITING) and time.monotonic() - began < REST_SECONDS:
        time.sleep(0.2)
    return time.monotonic() - began
