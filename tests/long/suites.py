"""The suites of long runs: which scenarios each has, how a trial runs, and how its result is saved."""

import os
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from long.clients.configurations import ANSIBLE, TERRAFORM
from long.clients.spellings import SPELLINGS
from long.faults.disk import DISK_FULL, EIO
from long.faults.old_backup import OLD_BACKUP
from long.faults.owners import OWNERS
from long.faults.races import PROCESSES, RACES
from long.faults.sigkill import SIGKILL
from long.faults.syncs import SYNCED
from long.fuzzing.rdap import RDAP
from long.fuzzing.scenario import HOSTILE_INPUT
from long.health.cost import COST
from long.health.judges import JUDGED
from long.health.outages import OUTAGES_OF_THE_REGISTRY
from long.health.zonemaster import ZONEMASTER
from long.hosts.failover import PATRONI, PATRONI_PAUSED
from long.hosts.trials import HOSTS
from long.machine.soak import MACHINE
from long.primaries.kills import KILLS
from long.primaries.outage import OUTAGE
from long.records.rules import RECORD_RULES
from long.reports import save_report
from long.scenario import POSTGRESQL, NotPossibleError, Scenario, Trial

SCENARIOS = (
    SIGKILL,
    SYNCED,
    DISK_FULL,
    EIO,
    OLD_BACKUP,
    COST,
    JUDGED,
    HOSTS,
    KILLS,
    MACHINE,
    OUTAGE,
    OWNERS,
    PATRONI,
    PATRONI_PAUSED,
    OUTAGES_OF_THE_REGISTRY,
    PROCESSES,
    RACES,
    RECORD_RULES,
    HOSTILE_INPUT,
    RDAP,
    SPELLINGS,
    TERRAFORM,
    ANSIBLE,
    ZONEMASTER,
)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one trial; `state` is well, late, VIOLATED or not tried."""

    suite: str
    scenario: Scenario
    database: str
    server: str
    seed: int
    count: int
    seconds: float
    state: str
    lines: tuple[str, ...]
    load: float
    """The load average at the end. Times mean little if it exceeds the number of cores."""

    @property
    def name(self) -> str:
        """The name of the trial."""
        return trial_name(self.scenario, self.database, self.server)

    def __str__(self) -> str:
        """Return the result in one line, or in a line for each figure."""
        return f"{self.name}: {self.state}: {'; '.join(self.lines)} ({self.seconds:.0f} s)"

    def save(self, folder: Path) -> None:
        """Save the result in the reports of a folder."""
        save_report(
            folder,
            f"{self.suite}-{self.name.replace('/', '-')}",
            title=f"{self.suite.title()}: {self.scenario.name}",
            command=f"make {self.suite} ONLY='{self.name}'",
            about=self.scenario.about,
            lines=[
                (
                    f"{self.state}: {self.count:,} in {self.seconds:,.0f} s, seed {self.seed}, load "
                    f"{self.load:.1f} on {os.cpu_count()} cores"
                ),
                *self.lines,
            ],
            programs=[
                each
                for each in (self.database, self.server)
                if each in (POSTGRESQL, *self.scenario.servers) and each
            ],
        )


def trial_name(scenario: Scenario, database: str, server: str) -> str:
    """Return the name of a trial: `sigkill/sqlite`, `old-backup/postgresql/bind`."""
    return "/".join(each for each in (scenario.name, database, server) if each)


def trials_of(suite: str, scenarios: Sequence[Scenario] = SCENARIOS) -> list[tuple[Scenario, str, str]]:
    """Return the scenario, database and name server of each trial of a suite."""
    return [
        (scenario, database, server)
        for scenario in scenarios
        for database in scenario.counts.get(suite, {})
        for server in scenario.servers
    ]


def run_suite(
    suite: str,
    seed: int,
    *,
    only: str = "*",
    count: int | None = None,
    workers: int = 2,
    seconds: float | None = None,
    scenarios: Sequence[Scenario] = SCENARIOS,
) -> Iterator[Result]:
    """Run the trials of a suite whose name matches the pattern `only`, and yield the result of each.

    `count` replaces the count of each scenario.
    """
    for scenario, database, server in trials_of(suite, scenarios):
        if not fnmatch(trial_name(scenario, database, server), only):
            continue
        times = count or scenario.counts[suite][database]
        began = time.monotonic()
        # A socket's path has at most 107 characters, so the folder is not a deep one.
        with tempfile.TemporaryDirectory(prefix="long-") as folder:
            trial = Trial(Path(folder), database, times, seed, server, workers=workers, seconds=seconds)
            state, lines = _run(scenario, trial)
        took = time.monotonic() - began
        load = os.getloadavg()[0]
        yield Result(suite, scenario, database, server, seed, times, took, state, lines, load)


def _run(scenario: Scenario, trial: Trial) -> tuple[str, tuple[str, ...]]:
    """Run a trial; return its state and the lines of its report, whatever it raises."""
    try:
        outcome = scenario.run(trial)
    except NotPossibleError as error:
        return "not tried", (str(error),)
    except Exception as error:  # noqa: BLE001 - the report has every failure, and the next trial runs
        traceback.print_exception(error)
        return "VIOLATED", (f"{type(error).__name__}: {str(error)[:2000]}",)
    if outcome.late:
        return "late", (*outcome.told.splitlines(), outcome.late)
    return "well", tuple(outcome.told.splitlines())
