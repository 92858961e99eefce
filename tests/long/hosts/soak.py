"""Many processes at length: everything killed in turn under load, round after round, and everything restarted in turn."""

import argparse
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from long.hosts.trials import KILLS, answers_lost_after_commit, killed_in_turn
from long.reports import save_report

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
    """Run each trial for the chosen number of rounds, print and save the results; return True if nothing was violated."""
    rounds = options.count or ROUNDS
    print(f"hosts: {rounds} rounds", flush=True)
    lines: list[str] = []
    well = True
    for title, trial in TRIALS.items():
        # A socket's path has 107 characters at most, so not in a deep folder.
        with tempfile.TemporaryDirectory(prefix="hosts-") as folder:
            try:
                for line in trial(Path(folder), rounds):
                    print(f"hosts: {line}", flush=True)
                    lines.append(line)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is what the soak is for
                well = False
                lines.append(f"{title}: VIOLATED: {type(error).__name__}: {str(error)[:2000]}")
                print(f"hosts: {lines[-1]}")
                traceback.print_exception(error)
    if options.report is not None:
        # Each kill once, in the last round.
        latest = {line.partition(": ")[0]: line for line in lines if ": " in line}
        save_report(
            options.report,
            "soak-hosts",
            title="Soak: many processes",
            command="make soak PART=hosts",
            about="Two API processes of two workers each, two worker processes, PostgreSQL with `fsync` and a synchronous standby, and Knot. Clients "
            "repeat each request under its `Idempotency-Key` until it is answered, while each part is killed in turn. At the end, "
            "exactly the acknowledged writes must be there, once, in the registry and in the zone.",
            lines=[f"{rounds} rounds of kills, {rounds} rounds of restarts", *latest.values()],
            programs=["postgresql", "knot"],
        )
    return well
