"""The benchmark: `make bench`, `make bench-full`. docs/performance.md says what is measured and how to read
it.

Real processes on loopback, load by `wrk`. The part `speed` prints one table; `publishing` measures each name
server, `copy` measures `sublet copy`. With `--write docs`, `speed` goes to docs/performance.md, the others to
docs/reports.md.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import structlog
from page import table, write_page
from publishing import measure_publishing
from registries import POSTGRESQL, SQLITE, copy_registry, grown_file, registry_on
from speed import Effort, Results, measure, say

from long.reports import commit, save_report
from support.name_servers import KINDS
from support.postgresql import fresh_database, run_postgresql

PARTS = ("speed", "publishing", "copy")
SIZES = (1000, 100_000)
FULL_SIZES = (*SIZES, 1_000_000)
PUBLISHED, COPIED = 2000, 100_000
QUICK = Effort(rounds=1, seconds=1, delay_seconds=1, starts=1)


def parse(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, default="speed")
    parser.add_argument("--full", action="store_true", help="all parts, up to a million names")
    parser.add_argument("--quick", action="store_true", help="short rounds, to try the benchmark itself")
    parser.add_argument("--database", choices=["sqlite", "postgresql"], help="speed: only this database")
    parser.add_argument("--server", choices=KINDS, help="publishing: only this name server")
    parser.add_argument("--names", type=int, help="only a registry with this many names")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write the results into the pages there")
    return parser.parse_args(words)


def speed(chosen: argparse.Namespace, folder: Path) -> None:
    """Measure each database with registries of each size; print the table, and write it into the page."""
    sizes = (chosen.names,) if chosen.names else FULL_SIZES if chosen.full else SIZES
    databases = [each for each in (SQLITE, POSTGRESQL) if chosen.database in (None, each.lower())]
    effort = QUICK if chosen.quick else Effort()
    began = time.monotonic()
    found: list[Results] = []
    for names in sizes:
        for database in databases:
            say(f"{database}, {names:,}: filling")
            with registry_on(database, names, folder) as registry:
                found.append(measure(database, registry, names, effort))
    minutes = (time.monotonic() - began) / 60
    about = (
        f"{datetime.now(UTC):%Y-%m-%d}, commit {commit()}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores; {effort.rounds} rounds, {minutes:.0f} minutes."
    )
    print(f"{about}\n\n{table(found)}")
    if chosen.write:
        write_page(chosen.write / "performance.md", found, about)


def publishing(chosen: argparse.Namespace, _folder: Path) -> None:
    """Measure publishing into each name server."""
    kinds = [chosen.server] if chosen.server else list(KINDS)
    lines = [measure_publishing(each, chosen.names or PUBLISHED) for each in kinds]
    print("\n".join(lines))
    if chosen.write:
        save_report(
            chosen.write,
            "publishing",
            title="Publishing",
            command="make bench PART=publishing",
            about="Names published per second into a signed zone that is empty at first, beside bare RFC "
            "2136 updates of 100 names to the same server.",
            lines=lines,
            programs=kinds,
        )


def copy(chosen: argparse.Namespace, folder: Path) -> None:
    """Measure `sublet copy` from SQLite to PostgreSQL, again onto the equal target, and back."""
    source, back = grown_file(folder, chosen.names or COPIED), folder / "back.db"
    lines = []
    with (
        tempfile.TemporaryDirectory(prefix="sublet-bench-") as cluster,
        run_postgresql(Path(cluster), durable=True) as server,
        fresh_database(server) as target,
    ):
        for title, start, end in (
            ("SQLite to PostgreSQL", f"sqlite:///{source}", target),
            ("again onto the equal target", f"sqlite:///{source}", target),
            ("PostgreSQL to SQLite", target, f"sqlite:///{back}"),
        ):
            say(f"copy: {title}")
            ran = copy_registry(start, end)
            assert ran.already == title.startswith("again"), title
            lines.append(
                f"{title}: {ran.rows:,} rows in {ran.seconds:.0f} s, {ran.rows / ran.seconds:,.0f} a "
                f"second, at most {ran.peak_mib:.0f} MiB"
            )
    print("\n".join(lines))
    if chosen.write:
        save_report(
            chosen.write,
            "copy",
            title="Copy of a registry",
            command="make bench PART=copy",
            about="`sublet copy` of 100,000 names between SQLite and PostgreSQL. The command reads the "
            "target back, compares it and asks the doctor.",
            lines=lines,
            programs=["postgresql"],
        )


def main() -> None:
    """Run the chosen part, or all parts."""
    chosen = parse()
    # Silence the parts of the service that run in this process.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    measured = {"speed": speed, "publishing": publishing, "copy": copy}
    with tempfile.TemporaryDirectory(prefix="sublet-grown-") as name:
        for part in PARTS if chosen.full else (chosen.part,):
            measured[part](chosen, Path(name))


if __name__ == "__main__":
    main()
