"""Run the long suites: `make faults`, `make soak` and `make fuzz` call this.

    python tests/run_long.py faults                         every fault, small: about a quarter of an hour
    python tests/run_long.py soak                           everything at length: hours
    python tests/run_long.py soak --only 'kills/*/knot'     one scenario with one name server
    python tests/run_long.py soak --only 'machine/*' --count 50000
    python tests/run_long.py fuzz --seconds 300

A trial is named SCENARIO/DATABASE, or SCENARIO/DATABASE/NAME-SERVER. The seed is printed first, so that a run
can be repeated. The exit code is 1 if a trial violated a guarantee or was late.
"""

import argparse
import random
import sys
from pathlib import Path

from long.reports import save_page
from long.scenario import FAULTS, FUZZ, SOAK
from long.suites import run_suite, trial_name, trials_of


def main() -> int:
    """Run a suite, or render the page of reports."""
    parser = argparse.ArgumentParser(description="Run the long suites, or render the page of their reports.")
    parser.add_argument("suite", choices=[FAULTS, SOAK, FUZZ, "page"])
    parser.add_argument("--only", default="*", help="run the trials whose name matches this pattern")
    parser.add_argument("--count", type=int, help="how many kills, rounds, names or operations")
    parser.add_argument("--seed", type=int, help="what is drawn; a random one by default")
    parser.add_argument(
        "--workers", type=int, default=2, help="how many processes the machine uses (default 2)"
    )
    parser.add_argument("--seconds", type=float, help="how long a fuzz run may take")
    parser.add_argument("--report", type=Path, help="the folder of reports.json and reports.md")
    parser.add_argument("--list", action="store_true", help="print the names of the trials and stop")
    options = parser.parse_args()
    if options.suite == "page":
        save_page(options.report or Path("docs"))
        return 0
    if options.list:
        print("\n".join(trial_name(*trial) for trial in trials_of(options.suite)))
        return 0
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    print(f"{options.suite}: seed {seed}", flush=True)
    results = []
    for result in run_suite(
        options.suite,
        seed,
        only=options.only,
        count=options.count,
        workers=options.workers,
        seconds=options.seconds,
    ):
        print(f"{options.suite}: {result}", flush=True)
        results.append(result)
        if options.report is not None:
            result.save(options.report)
    if not results:
        parser.error(f"no trial's name matches {options.only!r}")
    return 1 if any(each.state in ("VIOLATED", "late") for each in results) else 0


if __name__ == "__main__":
    sys.exit(main())
