"""`make soak`: long runs of randomised checks, by named parts; prints the seeds first, so that any run can be repeated.

    make soak                            all parts, at full length
    make soak PART=machine COUNT=50000   one part, shorter
    make soak PART=machine SEED=123      one seed again, up to its failure, told in the fewest steps
    make soak PART=races                 the races of a hundred, 20 rounds each, on both databases
    make soak PART=processes             three processes on one PostgreSQL: 100 rounds of double spending, 200 of two users for a name
    make soak PART=fence                 old updates against newer ones, 100 trials on each name server
    make soak PART=kills SERVER=knot     25 SIGKILLs of Knot under load, and of the service at each point of publishing into it
    make soak PART=outage                1,000 names registered while the primary is away for three minutes
    make soak PART=attacks               slow heads, slow bodies and pipelined requests, and what they cost other clients
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

import attacks
import process_trials
from fault_scenarios import soak as scenarios
from hosts import soak as many_hosts
from machine import soak as machine
from name_servers import KINDS
from postgresql import fresh_database, run_postgresql
from primaries import soak as primaries
from reports import save_report

RACE_ROUNDS = 20
PROCESS_ROUNDS = 100
RACES = Path(__file__).parent / "faults" / "test_races.py"


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
            about="A hundred clients want one thing at the same time, over HTTP, on both databases (`tests/faults/test_races.py`).",
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


def attacked(options: argparse.Namespace) -> bool:
    """Measure what attacks through the proxy cost other clients; `COUNT` is the seconds of each. Return whether all is well."""
    seconds = float(options.count or 30)
    lines, well = [], True
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as folder,
        attacks.attacked_service(Path(folder)) as service,
    ):
        for attack in attacks.ATTACKS:
            measured = attacks.measure(attack, *service, seconds)
            found = attacks.violations(measured)
            well = well and not found
            lines += [*attacks.report(attack, measured), *(f"VIOLATED: {each}" for each in found)]
    print("\n".join(f"attacks: {line}" for line in lines))
    if options.report is not None:
        save_report(
            options.report,
            "soak-attacks",
            title="Soak: attacks through the proxy",
            command="make soak PART=attacks",
            about=f"One `sublet serve` on SQLite behind nginx, {len(attacks.OTHERS)} clients that read and write in turn, and attackers of one address.",
            lines=lines,
        )
    return well


PARTS: dict[str, Callable[[argparse.Namespace], bool]] = {
    "machine": machine.soak,
    "races": races,
    "processes": processes,
    "fence": primaries.fence,
    "kills": primaries.kills,
    "outage": primaries.outage,
    "hosts": many_hosts.hosts,
    "faults": scenarios.faults,
    "attacks": attacked,
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
