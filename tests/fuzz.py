"""`make fuzz`: hostile requests and packets at real services, with canaries planted; prints the seed first, so that a run can be repeated.

    make fuzz                              200,000 requests and 1,000,000 packets, in twenty minutes at most
    make fuzz SEED=7 REQUESTS=5000         one seed, fewer requests
    make fuzz SECONDS=300 PACKETS=100000   in five minutes

A seed draws the same requests and packets; in which order two clients' requests come, and what is stored by then, is the machine's.
The exit code is 1 where something was found, or the time was too short for what was asked.
"""

import argparse
import random
import sys
from pathlib import Path

from long.fuzzing.report import lines_of, save_outcome
from long.fuzzing.run import Asked, fuzz


def main() -> int:
    """Run it, tell what came of it, and write the report."""
    parser = argparse.ArgumentParser(description="Hostile requests and packets at real services.")
    parser.add_argument("--seed", type=int, help="what is drawn; another one each time by itself")
    parser.add_argument("--requests", type=int, default=Asked.requests)
    parser.add_argument("--packets", type=int, default=Asked.packets)
    parser.add_argument("--seconds", type=float, default=Asked.seconds, help="how long it may take")
    parser.add_argument(
        "--report", type=Path, help="the folder of reports.json and reports.md, to save the result in"
    )
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    asked = Asked(seed, options.requests, options.packets, seconds=options.seconds)
    print(f"fuzz: seed {seed}", flush=True)
    outcome = fuzz(asked)
    print("\n".join(lines_of(outcome)))
    if options.report is not None:
        save_outcome(options.report, asked, outcome)
    return 1 if outcome.findings or outcome.short else 0


if __name__ == "__main__":
    sys.exit(main())
