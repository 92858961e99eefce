"""A scenario: a long run that puts real services under load or faults, and asserts what must hold.

A scenario raises AssertionError if a guarantee is violated.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.postgresql import fresh_database, run_postgresql

SQLITE, POSTGRESQL = "sqlite", "postgresql"
FAULTS, SOAK, FUZZ = "faults", "soak", "fuzz"


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of a scenario in an empty folder; `count` is what the scenario counts: kills, rounds, names."""

    folder: Path
    database: str
    count: int
    seed: int
    server: str = ""
    """The name server, "" if the scenario uses the built-in one."""
    broken: str = ""
    """The broken twin to test: a service without one of its guards. The trial must fail with it."""
    workers: int = 2
    seconds: float | None = None
    """How long a fuzz run may take."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The figures of a trial that found no violation, one line or several; `late` names a promise of time
    that was missed.
    """

    told: str
    late: str = ""


class NotPossibleError(Exception):
    """The machine doesn't allow the fault; the message says why."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A named scenario; `about` says what happens, what is counted, and what must hold."""

    name: str
    about: str
    run: Callable[[Trial], Outcome]
    counts: dict[str, dict[str, int]]
    """How many times, by suite and database."""
    servers: tuple[str, ...] = ("",)
    """The name servers; each has a trial of its own."""


@contextmanager
def registry_on(trial: Trial, *, prefix: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the address of an empty database; PostgreSQL runs for this trial alone, with fsync.

    `prefix` is a command that executes PostgreSQL in its own process, such as strace.
    """
    if trial.database == SQLITE:
        yield f"sqlite:///{trial.folder}/registry.db"
        return
    folder = trial.folder / "postgresql"
    folder.mkdir()
    with run_postgresql(folder, durable=True, prefix=prefix) as server, fresh_database(server) as url:
        yield url
