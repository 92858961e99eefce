"""The part `faults` of the soak: the scenarios whose figures are promised in thousands."""

import argparse
import random

from long.faults.run import SCENARIOS, run_all, save_outcomes


def faults(options: argparse.Namespace) -> bool:
    """Run each scenario that has full counts, so many times or `options.count`; tell whether nothing was violated, or came late."""
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    print(f"faults: seed {seed}", flush=True)
    came = []
    for each in run_all(
        seed, count=options.count, full=True, scenarios=[each for each in SCENARIOS.values() if each.full]
    ):
        came.append(each)
        print(f"faults: {each}", flush=True)
    if options.report is not None:
        save_outcomes(
            options.report,
            seed,
            came,
            name="soak-faults",
            title="Soak: faults in full",
            command="make soak PART=faults",
        )
    return all(each.how == "well" for each in came)
