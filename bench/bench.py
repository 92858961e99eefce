"""How fast the service is, as ratios against references measured in the same run: `make bench`, `make bench-full`.

Real processes on loopback, load by `wrk`. Prints tables; with `--write` they go into docs/performance.md, and the figures as JSON and pictures
into docs/performance/. docs/performance.md says what is measured, and how to read it.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import structlog
from speed.figures import Results, as_json
from speed.hosts_time import processor_times, stolen_share
from speed.measure import Effort, measure, say
from speed.pictures import pictures
from speed.places import POSTGRESQL, SQLITE, place
from speed.primary import measure_primary
from speed.table import put_between, render

DOCS = Path(__file__).parents[1] / "docs"
USUAL = Effort()
MAIN = replace(USUAL, workloads=("one", "page", "mixed", "register", "paid"), clients=(1, 16, 64))
QUICK = replace(
    USUAL,
    rounds=2,
    seconds=1,
    recorded=24,
    domains=3,
    clients=(1, 16),
    half_rounds=1,
    half_seconds=1,
    answers=5,
    starts=1,
)
PLANS: dict[str, tuple[tuple[str, int, Effort], ...]] = {
    "usual": ((SQLITE, 1000, USUAL), (SQLITE, 100_000, USUAL), (POSTGRESQL, 1000, MAIN)),
    "full": tuple(
        (database, names, replace(USUAL, half_rounds=5))
        for database in (SQLITE, POSTGRESQL)
        for names in (1000, 100_000, 1_000_000)
    ),
    "quick": ((SQLITE, 300, replace(QUICK, workloads=("one", "register"))),),
}
"""What `make bench`, `make bench-full` and a trial measure: database, names, effort."""


def parse(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="up to a million names, on both databases")
    parser.add_argument("--quick", action="store_true", help="a small run, to try the bench itself")
    parser.add_argument("--database", choices=["sqlite", "postgresql"], help="on this database alone")
    parser.add_argument("--names", type=int, help="a registry with so many names alone")
    parser.add_argument("--workloads", help="these workloads alone, by name, with commas: one,register,…")
    parser.add_argument("--no-primary", action="store_true", help="leave out publishing into Knot")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write table, JSON and pictures there")
    return parser.parse_args(words)


def plan(chosen: argparse.Namespace) -> list[tuple[str, int, Effort]]:
    """Return what is to be measured."""
    kind = "quick" if chosen.quick else "full" if chosen.full else "usual"
    steps = list(PLANS[kind])
    databases = {"sqlite": SQLITE, "postgresql": POSTGRESQL}
    if chosen.names is not None:
        database = databases[chosen.database or "sqlite"]
        steps = [(database, chosen.names, steps[0][2])]
    elif chosen.database is not None:
        of_it = [each for each in steps if each[0] == databases[chosen.database]]
        steps = of_it or [(databases[chosen.database], names, effort) for _, names, effort in steps[:1]]
    if chosen.workloads:
        names = tuple(chosen.workloads.split(","))
        less: dict[str, Any] = {"workloads": names}
        less |= {} if "register" in names else {"clients": ()}
        less |= {} if {"one", "register"} <= set(names) else {"half_seconds": 0}
        steps = [(database, count, replace(effort, **less)) for database, count, effort in steps]
    if "BENCH_SECONDS" in os.environ:
        seconds = int(os.environ["BENCH_SECONDS"])
        steps = [(database, count, replace(effort, seconds=seconds)) for database, count, effort in steps]
    return steps


def main() -> None:
    """Measure what the command line asks for, and show it."""
    chosen = parse()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(50)
    )  # of what is run in this process
    began, times = time.monotonic(), processor_times()
    found: list[Results] = []
    with tempfile.TemporaryDirectory(prefix="sublet-bench-") as folder:
        for number, (database, names, effort) in enumerate(plan(chosen)):
            with place(database, Path(folder) / f"{number}") as where:
                found.append(measure(where, database, names, effort))
    if not chosen.no_primary and not chosen.quick:
        say("Knot: publishing")
        found.append(measure_primary("knot", 1000, 1000, USUAL.rounds))
    about = describe(time.monotonic() - began, stolen_share(times, processor_times()))
    print(render(found, about))
    if chosen.write:
        write(chosen.write, found, about)


def describe(seconds: float, stolen: float) -> str:
    """Return when and where a run was, and which part of the processors' time the host gave to others meanwhile."""
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, {os.cpu_count()} cores, on which everything ran: the service, "
        f"its references and the load. The run took {seconds / 60:.0f} minutes, in which the host gave {stolen:.1%} of the processors' time to others."
    )


def write(folder: Path, found: list[Results], about: str) -> None:
    """Write what was found: `performance/figures.json`, the pictures beside it, and the tables into `performance.md` where that is there."""
    beside = folder / "performance"
    beside.mkdir(parents=True, exist_ok=True)
    (beside / "figures.json").write_text(
        json.dumps(as_json(found, {"run": about}), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    drawn = pictures(found)
    for name, picture in drawn.items():
        (beside / f"{name}.svg").write_text(picture, encoding="utf-8")
    page = folder / "performance.md"
    if page.exists():
        shown = "\n".join(f"![{name}](performance/{name}.svg)" for name in drawn)
        text = f"{render(found, about)}\n\n[All figures as JSON](performance/figures.json)\n\n{shown}"
        page.write_text(put_between(page.read_text(encoding="utf-8"), text), encoding="utf-8")


if __name__ == "__main__":
    main()
