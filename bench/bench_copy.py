"""`sublet copy` of a large registry from SQLite to PostgreSQL and back, checked and measured: `make bench-copy`.

It prints a page for docs/reports/copy.md. The PostgreSQL is one of its own that waits for the disk.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, insert, text
from sqlalchemy.engine import make_url

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from grown_registry import grow, multiply
from postgresql import fresh_database, run_postgresql
from sublet.db import Tx, sqlite_engine, utc_now
from sublet.registry import copy_store
from sublet.registry.copy_store import list_copied

GROWN = 2000
"""Names that are grown by verbs; the rest are these again, under other names and numbers."""
INSERTED = ("transfers", "audit_events")


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command answered, how long it took, and the most memory that it had."""

    value: Any
    seconds: float
    megabytes: float


def run(*words: str, url: str = "", expect: int = 0) -> Ran:
    """Run a command of the operator's with --json."""
    started = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "sublet.cli.main", *words, "--json"],
            env=os.environ | ({"SUBLET_DATABASE_URL": url} if url else {}),
            stdout=out,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        value = json.load(out)
    assert process.returncode == expect, value
    seconds = time.perf_counter() - started
    print(
        f"{words[0]}: {seconds:.1f} s, of which {used.ru_utime + used.ru_stime:.1f} s its own",
        file=sys.stderr,
    )
    return Ran(value, seconds, used.ru_maxrss / 1024)


def insert_seconds(source: str, target: str, name: str) -> tuple[float, float]:
    """Return how long one table takes by inserts and by COPY, rolled back both times."""
    table = next(each for each in list_copied() if each.name == name)
    reading, writing = (
        sqlite_engine(source),
        create_engine(make_url(target).set(drivername="postgresql+psycopg")),
    )
    took = []
    with reading.connect() as rows, writing.connect() as connection:
        for by_copy in (False, True):
            connection.execute(text("SET session_replication_role = replica"))  # without what it refers to
            started = time.perf_counter()
            if by_copy:
                copy_store.add_rows(
                    Tx(connection, utc_now()), table, copy_store.read_rows(Tx(rows, utc_now()), table)
                )
            else:
                part: list[dict[str, Any]] = []
                for row in copy_store.read_rows(Tx(rows, utc_now()), table):
                    part.append(dict(zip(table.columns.keys(), row, strict=True)))
                    if len(part) == copy_store.ROWS_AT_ONCE:
                        connection.execute(insert(table), part)
                        part = []
            took.append(time.perf_counter() - started)
            connection.rollback()
    reading.dispose()
    writing.dispose()
    return took[0], took[1]


def main() -> None:
    """Grow a registry, or take one, copy it to and fro, print the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--names", type=int, default=100_000)
    parser.add_argument("--registry", type=Path, help="a grown registry, instead of growing one")
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="sublet-bench-copy-") as folder,
        tempfile.TemporaryDirectory(prefix="sublet-bench-postgresql-") as cluster,
        run_postgresql(Path(cluster), durable=True) as server,
        fresh_database(server) as target,
        fresh_database(server) as other,
    ):
        path = chosen.registry or Path(folder) / "grown.db"
        if chosen.registry is None:
            grow(f"sqlite:///{path}", GROWN)
            multiply(path, chosen.names // GROWN)
        source, back = f"sqlite:///{path}", f"sqlite:///{folder}/back.db"
        there = run("copy", "--from", source, "--to", target)
        again = run("copy", "--from", source, "--to", target)
        doctor = run("doctor", url=target, expect=1)  # nothing published or swept it since
        returned = run("copy", "--from", target, "--to", back)
        run("init", url=other)
        compared = {name: insert_seconds(source, other, name) for name in INSERTED}
    assert there.value["violations"] == []
    assert again.value["already"]
    assert again.value["tables"] == there.value["tables"] == returned.value["tables"]
    liveness = {"nothing_waits", "sweep_is_in_time", "no_mail_waits"}
    assert {each["invariant"] for each in doctor.value["violations"]} <= liveness
    print_page(there, again, doctor, returned, compared)


def print_page(
    there: Ran, again: Ran, doctor: Ran, returned: Ran, compared: dict[str, tuple[float, float]]
) -> None:
    """Print the report."""
    counted = {each["table"]: each["rows"] for each in there.value["tables"]}
    rows = sum(counted.values())
    print("# Copying a registry\n")
    print(f"`make bench-copy`, {datetime.now(UTC):%Y-%m-%d}, Python {sys.version.split()[0]}: a registry of")
    print(
        f"{counted['subdomains']:,} names, {counted['users']:,} users and {counted['transfers']:,} movements, {rows:,} rows in all"
    )
    print("(SQLite, PostgreSQL with fsync, and the command on one machine with two cores).\n")
    print("| Step | seconds | rows a second | most memory of the command |")
    print("|---|---:|---:|---:|")
    for what, ran in (
        ("SQLite to PostgreSQL, read back, compared, doctor: equal, nothing broken", there),
        ("again, onto the equal target: nothing changed", again),
        ("`sublet doctor` on PostgreSQL", doctor),
        ("PostgreSQL back to SQLite, read back, compared, doctor: equal, nothing broken", returned),
    ):
        print(f"| {what} | {ran.seconds:.0f} | {rows / ran.seconds:,.0f} | {ran.megabytes:.0f} MB |")
    print("\nBy inserts of 1,000 rows (what COPY replaced), the same rows, without what they refer to:\n")
    print("| Table | rows | inserts, s | COPY, s |")
    print("|---|---:|---:|---:|")
    for name, (inserts, copies) in compared.items():
        print(f"| {name} | {counted[name]:,} | {inserts:.1f} | {copies:.1f} |")
    print("\nWhat was compared, the same on both sides and after the way back:\n")
    print("| Table | rows | digest (SHA-256) |")
    print("|---|---:|---|")
    for each in there.value["tables"]:
        print(f"| {each['table']} | {each['rows']:,} | `{each['digest'][:32]}` |")


if __name__ == "__main__":
    main()
