"""Runs scenarios one after the other, each trial in a folder of its own, and keeps what came of each."""

import os
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from long.faults.clock import CLOCK
from long.faults.disk import DISK_FULL, EIO
from long.faults.old_backup import OLD_BACKUP
from long.faults.postgresql_killed import POSTGRESQL_KILLED
from long.faults.scenario import Asked, Figures, NotPossibleError, Scenario
from long.faults.sigkill import SIGKILL
from long.faults.syncs import SYNCED
from long.reports import save_report
from support.name_servers import KINDS

SCENARIOS = {
    each.name: each for each in (SIGKILL, SYNCED, DISK_FULL, EIO, POSTGRESQL_KILLED, OLD_BACKUP, CLOCK)
}
"""Every scenario by its name."""


@dataclass(frozen=True, slots=True)
class Came:
    """What came of one trial. `how` is well, beyond (a promise of time was missed), VIOLATED, or not tried."""

    scenario: str
    database: str
    server: str
    count: int
    seconds: float
    how: str
    told: str
    load: float
    """How many processes wanted a core at its end, on average over a minute: times say little where these are more than cores."""
    figures: Figures = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The trial's name: scenario/database, and the name server where one plays."""
        return trial_name(self.scenario, self.database, self.server)

    def __str__(self) -> str:
        """Return it as a line of a report."""
        return f"{self.name}: {self.how}: {self.told} ({self.seconds:.0f} s)"


def trial_name(scenario: str, database: str, server: str) -> str:
    """Return what a trial is called: `sigkill/sqlite`, `old-backup/postgresql/bind`."""
    return "/".join(each for each in (scenario, database, server) if each)


def run_all(
    seed: int,
    *,
    chosen: Callable[[str], bool] = lambda _name: True,
    count: int | None = None,
    full: bool = False,
    scenarios: Iterable[Scenario] = tuple(SCENARIOS.values()),
) -> Iterator[Came]:
    """Run each trial whose name is chosen, so many times or as often as its scenario says; give what came of it, whatever that is."""
    for scenario in scenarios:
        for database, server in scenario.trials():
            if chosen(trial_name(scenario.name, database, server)):
                counts = {**scenario.counts, **(scenario.full if full else {})}
                yield _run(scenario, database, server, count or counts[database], seed)


def save_outcomes(
    folder: Path, seed: int, came: Sequence[Came], *, name: str, title: str, command: str
) -> None:
    """Save the outcomes of a run as its report."""
    loads = [each.load for each in came]
    save_report(
        folder,
        name,
        title=title,
        command=command,
        about="Faults of real services, and their outcomes; [faults.md](faults.md) lists the faults with their tests.",
        lines=[
            f"seed {seed}; {os.cpu_count()} cores, which {min(loads):.1f} to {max(loads):.1f} processes used",
            *(str(each) for each in came),
        ],
        programs=["postgresql", *KINDS],
    )


def _run(scenario: Scenario, database: str, server: str, count: int, seed: int) -> Came:
    began = time.monotonic()
    how, figures = "well", Figures()
    # A socket's path has 107 characters at most, so not in a deep folder.
    with tempfile.TemporaryDirectory(prefix="fault-") as folder:
        try:
            outcome = scenario.run(Asked(Path(folder), database, count, seed, server))
            told, figures = outcome.told, outcome.figures
            if outcome.beyond:
                how, told = "beyond", "; ".join((told, *outcome.beyond))
        except NotPossibleError as error:
            how, told = "not tried", str(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what the run is for
            how, told = "VIOLATED", f"{type(error).__name__}: {str(error)[:2000]}"
            traceback.print_exception(error)
    return Came(
        scenario.name,
        database,
        server,
        count,
        time.monotonic() - began,
        how,
        told,
        os.getloadavg()[0],
        figures,
    )
