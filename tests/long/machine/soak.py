"""Run the machine at length, in several processes."""

import itertools
import multiprocessing
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field

from long.machine import machine
from long.machine.coverage import missed
from long.machine.machine import STEPS
from long.machine.run import RUNS, run_seed
from long.scenario import SOAK, SQLITE, Outcome, Scenario, Trial

PROGRESS_SECONDS = 30


@dataclass
class Total:
    """Sums what all processes did; `failures` are by seed."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)

    @property
    def operations(self) -> int:
        """How many operations there were."""
        return sum(self.outcomes.values())


@dataclass(frozen=True)
class Ran:
    """The result of one seed; `failed_at` is "run 3, step 17" with the difference, if it failed."""

    seed: int
    outcomes: Counter[tuple[str, str]]
    failed_at: str | None = None
    trace: str = ""


def run(number: int, *, runs: int = RUNS, shrink: bool = False) -> Ran:
    """Run one seed and return its result, whatever it raises."""
    before = machine.TALLY.outcomes.copy()
    try:
        run_seed(number, runs=runs, shrink=shrink)
    except Exception as error:  # noqa: BLE001 - any error is a finding
        at = machine.TALLY.failed_at or "the end of a run"
        trace = "".join(traceback.format_exception(error))
        return Ran(number, machine.TALLY.outcomes - before, f"{at}: {type(error).__name__}: {error}", trace)
    return Ran(number, machine.TALLY.outcomes - before)


def soak(trial: Trial) -> Outcome:
    """Run seed after seed on all processes until `count` operations are done.

    If one seed is enough, it runs in this process, and a failure is reported as the shortest sequence of
    steps that hypothesis finds.
    """
    started = time.monotonic()
    if trial.count <= RUNS * STEPS:
        ran = run(trial.seed)
        if ran.failed_at is not None:
            print(
                f"machine: fails at {ran.failed_at}; looking for fewer steps, for five minutes at most",
                flush=True,
            )
            raise AssertionError(run(trial.seed, shrink=True).trace)
        total = Total(ran.outcomes)
    else:
        total = _run_all(trial.seed, trial.count, trial.workers, started)
    failures = [
        f"seed {number}, `make soak ONLY='machine/*' COUNT=1 SEED={number}`, failed at {failure}"
        for number, failure in total.failures.items()
    ]
    assert not failures, "; ".join(failures)
    print("\n".join(table(total.outcomes)))
    never = missed(total.outcomes)
    return Outcome(
        f"seeds from {trial.seed} on, {RUNS} runs of {STEPS} steps each, {trial.workers} processes\n"
        f"{total.operations:,} operations, 0 violations, "
        f"{1000 * (time.monotonic() - started) / total.operations:.2f} ms an operation\n"
        + (f"Never seen: {', '.join(never)}." if never else "Every documented outcome was seen.")
    )


def _run_all(first: int, wanted: int, workers: int, started: float) -> Total:
    total = Total()
    seeds = itertools.count(first)
    shown = started
    # Each seed gives the same steps in any process, since each process starts fresh and gets its seeds one by
    # one.
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        under_way = [pool.apply_async(run, (next(seeds),)) for _ in range(workers)]
        while under_way:
            done = [each for each in under_way if each.ready()]
            under_way = [each for each in under_way if each not in done]
            for each in done:
                ran = each.get()
                total.outcomes.update(ran.outcomes)
                if ran.failed_at is not None:
                    total.failures[ran.seed] = ran.failed_at
                    print(f"machine: seed {ran.seed} FAILED at {ran.failed_at}", flush=True)
                # The number of operations of those under way is known, so they count too.
                if total.operations + len(under_way) * RUNS * STEPS < wanted:
                    under_way.append(pool.apply_async(run, (next(seeds),)))
            if time.monotonic() - shown > PROGRESS_SECONDS:
                shown = time.monotonic()
                print(f"machine: {shown - started:6.0f} s {total.operations:>10,} operations", flush=True)
            if under_way:
                under_way[0].wait(0.2)
    return total


def table(done: Counter[tuple[str, str]]) -> list[str]:
    """Return a Markdown table of the outcomes of each verb."""
    lines = ["| verb | operations | outcomes |", "|---|---:|---|"]
    by_verb: dict[str, dict[str, int]] = {}
    for (verb, came), number in sorted(done.items()):
        by_verb.setdefault(verb, {})[came] = number
    for verb, outcomes in by_verb.items():
        told = ", ".join(f"{name.strip('()')} {number:,}" for name, number in outcomes.items())
        lines.append(f"| {verb} | {sum(outcomes.values()):,} | {told} |")
    return lines


MACHINE = Scenario(
    "machine",
    "Random operations of all verbs on SQLite, compared after each step with the model in "
    "`tests/long/machine/`. Counted are operations.",
    soak,
    {SOAK: {SQLITE: 1_000_000}},
)
