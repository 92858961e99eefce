"""`make soak`: long runs of randomised checks, by named parts; prints the seeds first, so that any run can be repeated.

    make soak                            all parts, at full length
    make soak PART=machine COUNT=50000   one part, shorter
    make soak PART=machine SEED=123      one seed again, up to its failure, told in the fewest steps
    make soak PART=races                 the races of a hundred, 20 rounds each, on both databases
    make soak PART=processes             three processes on one PostgreSQL: 100 rounds of double spending, 200 of two users for a name
    make soak PART=fence                 old updates against newer ones, 100 trials on each name server
    make soak PART=kills SERVER=knot     25 SIGKILLs of Knot under load, and of the service at each point of publishing into it
    make soak PART=outage                1,000 names registered while the primary is away for three minutes
    make soak PART=slow-clients          500 connections that send a byte a second, and what they cost the others
    make soak PART=faults                1,000 SIGKILLs of the service under load on SQLite and 300 on PostgreSQL, 10,000 answers by strace
    make soak PART=hosts                 many processes, PostgreSQL with a standby, Knot: each killed in turn under load, 3 rounds

A part is a function that takes the options, prints what it does, and returns whether nothing was violated.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

from long.faults import processes as process_trials
from long.faults import slow_clients
from long.faults import soak as scenarios
from long.hosts import soak as many_hosts
from long.machine import soak as machine
from long.reports import save_report
from primaries import soak as primaries
from support.name_servers import KINDS
from support.postgresql import fresh_database, run_postgresql

RACE_ROUNDS = 20
PROCESS_ROUNDS = 100
RACES = Path(__file__).parent / "long" / "faults" / "test_races.py"


def races(options: argparse.Namespace) -> bool:
    """Run every race of the tests, with `RACE_ROUNDS` rounds (or `--count`); tell whether none was violated."""
    rounds = options.count or RACE_ROUNDS
    print(f"races: {rounds} rounds each", flush=True)
    words = [sys.executable, "-m", "pytest", "-q", "-rA", "--show-capture=no", str(RACES)]
    ran = subprocess.run(
        words, env={**os.environ, "RACE_ROUNDS": str(rounds)}, capture_output=True, text=True, check=False
    )
    lines = [line for line in ran.stdout.splitlines() if line.startswith(("PASSED", "FAILED", "ERROR"))]
    lines += ran.stdout.splitlines()[-1:]
    print("\n".join(lines))
    if options.report is not None:
        save_report(
            options.report,
            "soak-races",
            title="Soak: races",
            command="make soak PART=races",
            about="A hundred clients want one thing at the same time, over HTTP, on both databases (`tests/long/faults/test_races.py`).",
            lines=[
                f"{rounds} rounds of each race",
                *(line for line in lines if not line.startswith("PASSED")),
            ],
            programs=["postgresql"],
        )
    return ran.returncode == 0


def processes(options: argparse.Namespace) -> bool:
    """Run the trials over several processes on one PostgreSQL; tell whether none was violated and the doctor found nothing."""
    rounds = options.count or PROCESS_ROUNDS
    print(f"processes: {rounds} rounds", flush=True)
    lines = []
    well = True
    try:
        with (
            tempfile.TemporaryDirectory(prefix="soak-") as folder,
            run_postgresql(Path(folder)) as server,
            fresh_database(server) as url,
            tempfile.TemporaryDirectory(prefix="soak-logs-") as logs,
            process_trials.processes(url, Path(logs)) as serving,
        ):
            for trial, times in (
                (process_trials.credits_are_spent_once, rounds),
                (process_trials.name_goes_to_one, 2 * rounds),
                (process_trials.coupon_is_used_once, rounds),
                (process_trials.key_acts_once, rounds),
            ):
                lines.append(trial(serving, times))
                print(f"processes: {lines[-1]}", flush=True)
        lines.append("zone and registry agree, the doctor finds nothing, all processes ended well")
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the soak is for
        well = False
        lines.append(f"VIOLATED: {type(error).__name__}: {str(error)[:2000]}")
        traceback.print_exception(error)
    print(f"processes: {lines[-1]}")
    if options.report is not None:
        save_report(
            options.report,
            "soak-processes",
            title="Soak: several processes",
            command="make soak PART=processes",
            about=f"{process_trials.PROCESSES} `sublet serve` on one PostgreSQL, over HTTP.",
            lines=lines,
            programs=["postgresql"],
        )
    return well


def slow(options: argparse.Namespace) -> bool:
    """Measure what slow clients cost the others; tell whether their p99 stays below twice what it was and everything else holds."""
    rounds = options.count or slow_clients.ROUNDS
    seconds = slow_clients.ROUND_SECONDS
    print(
        f"slow-clients: {slow_clients.SLOW} connections, {rounds} rounds of twice {seconds:g} s", flush=True
    )
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        measured = slow_clients.measure(Path(folder), rounds=rounds, round_seconds=seconds)
    found = slow_clients.violations(measured)
    if measured.ratio >= slow_clients.RATIO_MAX:
        found.append(f"p99 is {measured.ratio:.2f} times what it is without slow clients")
    lines = [*slow_clients.report(measured), *(f"VIOLATED: {each}" for each in found)]
    print("\n".join(f"slow-clients: {line}" for line in lines))
    if options.report is not None:
        save_report(
            options.report,
            "soak-slow-clients",
            title="Soak: slow clients",
            command="make soak PART=slow-clients",
            about=f"One `sublet serve` on SQLite, {slow_clients.OTHERS} clients that read and write in turn, and {slow_clients.SLOW} connections that send "
            "one byte a second of a head or of a body, and reconnect when the service closes them.",
            lines=[
                f"{rounds} rounds of {seconds:g} s without and {seconds:g} s with the slow clients",
                *lines,
            ],
        )
    return not found


PARTS: dict[str, Callable[[argparse.Namespace], bool]] = {
    "machine": machine.soak,
    "races": races,
    "processes": processes,
    "fence": primaries.fence,
    "kills": primaries.kills,
    "outage": primaries.outage,
    "hosts": many_hosts.hosts,
    "faults": scenarios.faults,
    "slow-clients": slow,
}


def main() -> int:
    """Run the parts that are asked for; the exit code is 1 when one found a violation."""
    parser = argparse.ArgumentParser(description="Long runs of randomised checks.")
    parser.add_argument("--part", choices=sorted(PARTS), help="only this part")
    parser.add_argument("--seed", type=int, help="repeat this seed, and nothing else (needs --part)")
    parser.add_argument(
        "--count",
        type=int,
        help="how many operations, rounds, trials, kills or names, not the part's own number",
    )
    parser.add_argument(
        "--server", choices=KINDS, help="only this name server, in the parts that are about them"
    )
    parser.add_argument("--workers", type=int, default=2, help="how many processes (default 2)")
    parser.add_argument(
        "--report", type=Path, help="the folder of reports.json and reports.md, to save the results in"
    )
    options = parser.parse_args()
    if options.seed is not None and options.part is None:
        parser.error("a seed is one part's: say --part too")
    if options.count is not None and options.part is None:
        parser.error("what is counted is another thing in each part: say --part too")
    chosen = [options.part] if options.part else sorted(PARTS)
    outcomes = [PARTS[part](options) for part in chosen]
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
