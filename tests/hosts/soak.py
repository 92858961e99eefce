"""Many processes at length: everything killed in turn under load, round after round, and everything restarted in turn."""

import argparse
import platform
import subprocess
import tempfile
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from hosts.trials import KILLS, answers_lost_after_commit, killed_in_turn
from machine.soak import commit
from postgresql import find_postgresql
from primaries.soak import version

ROUNDS = 3
Trial = Callable[[Path, int], Iterator[str]]


def _killed(folder: Path, rounds: int) -> Iterator[str]:
    yield from killed_in_turn(folder, [*KILLS] * rounds)


def _restarted(folder: Path, rounds: int) -> Iterator[str]:
    yield from killed_in_turn(folder, [], restarts=rounds)


def _answers_lost(folder: Path, _rounds: int) -> Iterator[str]:
    answers_lost_after_commit(folder)
    yield "the only process of the API killed while clients waited for the answers of what was committed: nothing done twice"


TRIALS: dict[str, Trial] = {
    "Killed in turn": _killed,
    "Restarted in turn": _restarted,
    "Answers lost after the commit": _answers_lost,
}


def hosts(options: argparse.Namespace) -> bool:
    """Make each trial with so many rounds, print and report what came of it; tell whether nothing was violated."""
    rounds = options.count or ROUNDS
    print(f"hosts: {rounds} rounds", flush=True)
    page = _head(rounds)
    well = True
    for title, trial in TRIALS.items():
        page += ["", f"## {title}", ""]
        # A socket's path has 107 characters at most, so not in a deep folder.
        with tempfile.TemporaryDirectory(prefix="hosts-") as folder:
            try:
                for line in trial(Path(folder), rounds):
                    print(f"hosts: {line}", flush=True)
                    page.append(f"- {line}")
            except Exception as error:  # noqa: BLE001 - whatever it is, it is what the soak is for
                well = False
                page.append(f"- VIOLATED: {type(error).__name__}: {str(error)[:2000]}")
                print(f"hosts: {page[-1]}")
                traceback.print_exception(error)
    if options.report is not None:
        (options.report / "soak-hosts.md").write_text("\n".join(page) + "\n", encoding="utf-8")
    return well


def _head(rounds: int) -> list[str]:
    ran = subprocess.run(
        [find_postgresql("postgres"), "--version"], capture_output=True, text=True, check=True
    )
    about = (
        "Two API processes of two workers each, two worker processes, PostgreSQL with a synchronous standby, and Knot, under a load of "
        "registrations, renewals, changes, deletions and tickets of clients that repeat each request under its `Idempotency-Key` until "
        "it is answered. Each part is killed (SIGKILL) and comes back, or is taken over from; nobody does anything else. In the end "
        "exactly what was acknowledged has to be there, once, in the registry and in the zone. `make soak PART=hosts` makes this page."
    )
    return [
        "# Soak: many processes",
        "",
        about,
        "",
        f"- {datetime.now(UTC):%Y-%m-%d}, sublet {commit()}, Python {platform.python_version()}",
        f"- {ran.stdout.strip()}, with `fsync` on; knot {version('knot')}",
        f"- {rounds} rounds; all on one machine of two cores, so the times are of the order of what to expect, not a promise",
    ]
