"""`make faults`: named faults at real services, on both databases and with each name server; prints the seed first.

    make faults                        every scenario, in about a quarter of an hour on a quiet machine
    make faults SEED=7                 with the moments of one seed
    make faults ONLY='sigkill/*'       the trials whose name fits the pattern: SCENARIO/DATABASE[/NAME SERVER]
    make faults ONLY=old-backup/* COUNT=2

The exit code is 1 where something was violated, or came later than promised.
"""

import argparse
import random
import sys
from fnmatch import fnmatch
from pathlib import Path

from long.faults.run import run_all, save_outcomes


def main() -> int:
    """Run what is asked for, tell what came of it, and write the report."""
    parser = argparse.ArgumentParser(description="Named faults at real services.")
    parser.add_argument("--seed", type=int, help="which moments are drawn; other ones each time by itself")
    parser.add_argument("--only", default="*", help="a pattern of the trials' names")
    parser.add_argument("--count", type=int, help="how many times, not each scenario's own number")
    parser.add_argument(
        "--report",
        type=Path,
        help="the folder of reports.json and reports.md, to save the results of all trials in",
    )
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    print(f"faults: seed {seed}", flush=True)
    came = []
    for each in run_all(seed, chosen=lambda name: fnmatch(name, options.only), count=options.count):
        came.append(each)
        print(f"faults: {each}", flush=True)
    if not came:
        parser.error(f"no trial's name fits {options.only!r}")
    if options.report is not None and options.only == "*":  # a part of them is no report of all
        save_outcomes(options.report, seed, came, name="faults", title="Faults", command="make faults")
    return 1 if any(each.how in ("VIOLATED", "beyond") for each in came) else 0


if __name__ == "__main__":
    sys.exit(main())
