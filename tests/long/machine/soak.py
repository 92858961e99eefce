"""The machine at length, on several processes: seeds first, progress, a table at the end, and the report."""

import argparse
import multiprocessing
import random
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from long.machine import machine
from long.machine.coverage import missed
from long.machine.machine import STEPS
from long.machine.run import RUNS, run_seed
from long.reports import save_report

OPERATIONS = 1_000_000
PROGRESS_SECONDS = 30


@dataclass
class Total:
    """What all processes did together; `failures` has seeds with what went wrong."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)

    @property
    def operations(self) -> int:
        """How many operations there were."""
        return sum(self.outcomes.values())


@dataclass(frozen=True)
class Ran:
    """What came of one seed: where it failed, if it did, as "run 3, step 17" with what differed."""

    seed: int
    outcomes: Counter[tuple[str, str]]
    failed_at: str | None = None
    trace: str = ""


def run(number: int, *, runs: int = RUNS, shrink: bool = False) -> Ran:
    """Run one seed, and catch what it finds."""
    before = machine.TALLY.outcomes.copy()
    try:
        run_seed(number, runs=runs, shrink=shrink)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the soak is for
        at = machine.TALLY.failed_at or "the end of a run"
        trace = "".join(traceback.format_exception(error))
        return Ran(number, machine.TALLY.outcomes - before, f"{at}: {type(error).__name__}: {error}", trace)
    return Ran(number, machine.TALLY.outcomes - before)


def seeds_of(first: int) -> Iterator[int]:
    """Yield the seeds of a soak that starts from this one."""
    while True:
        yield first
        first += 1


def soak(options: argparse.Namespace) -> bool:
    """Run seed after seed on all processes until the operations are done; tell whether nothing was violated."""
    if options.seed is not None:
        return _again(options.seed)
    wanted = options.count or OPERATIONS
    first = random.SystemRandom().randrange(10**9)
    count = max(1, -(-wanted // (RUNS * STEPS)))
    print(
        f"machine: {wanted:,} operations on {options.workers} processes; seeds {first} to about {first + count - 1}"
    )
    print(f"machine: one again with `make soak PART=machine SEED={first}`", flush=True)
    started = time.monotonic()
    total = _run_all(first, wanted, options.workers, started)
    seconds = time.monotonic() - started
    lines = table(total, seconds)
    print("\n".join(lines))
    for number, failure in total.failures.items():
        print(f"machine: seed {number} failed at {failure}")
    if options.report is not None:
        save_report(
            options.report,
            "soak-machine",
            title="Soak: the machine",
            command="make soak PART=machine",
            about="Random operations of all verbs on SQLite, compared after each step with the model in `tests/long/machine/`.",
            lines=[
                f"seeds from {first} on, {RUNS} runs of {STEPS} steps each, {options.workers} processes",
                lines[0],
                lines[-1],
                *(f"seed {number} failed at {failure}" for number, failure in total.failures.items()),
            ],
        )
    return not total.failures


def _again(number: int) -> bool:
    ran = run(number)
    if ran.failed_at is None:
        print(f"machine: seed {number} passes, {sum(ran.outcomes.values()):,} operations")
        return True
    print(f"machine: seed {number} fails at {ran.failed_at}")
    print("machine: looking for a shorter story, for five minutes at most", flush=True)
    print(run(number, shrink=True).trace)
    return False


def _run_all(first: int, wanted: int, workers: int, started: float) -> Total:
    total = Total()
    seeds = seeds_of(first)
    shown = started
    # Fresh processes, each told its seeds one by one: what is done does not depend on who does it.
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
                # Those under way count too: what they will have done is known.
                if total.operations + len(under_way) * RUNS * STEPS < wanted:
                    under_way.append(pool.apply_async(run, (next(seeds),)))
            if time.monotonic() - shown > PROGRESS_SECONDS:
                shown = time.monotonic()
                print(f"machine: {shown - started:6.0f} s {total.operations:>10,} operations", flush=True)
            if under_way:
                under_way[0].wait(0.2)
    return total


def table(total: Total, seconds: float) -> list[str]:
    """Return the table of what was done: a Markdown one, a verb a line."""
    per = 1000 * seconds / max(1, total.operations)
    speed = f"{seconds:,.0f} s ({per:.2f} ms an operation, all processes together)"
    lines = [
        f"{total.operations:,} operations, {len(total.failures)} violations, {speed}",
        "",
        "| verb | operations | what came of it |",
        "|---|---:|---|",
    ]
    by_verb: dict[str, dict[str, int]] = {}
    for (verb, came), number in sorted(total.outcomes.items()):
        by_verb.setdefault(verb, {})[came] = number
    for verb, outcomes in by_verb.items():
        told = ", ".join(f"{name.strip('()')} {number:,}" for name, number in outcomes.items())
        lines.append(f"| {verb} | {sum(outcomes.values()):,} | {told} |")
    never = missed(total.outcomes)
    lines += [
        "",
        f"Never met: {', '.join(never)}." if never else "Every outcome that the documents tell of was met.",
    ]
    return lines
