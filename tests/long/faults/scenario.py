"""What a named scenario of a fault is: a function that makes the fault, sees what comes of it, and returns figures.

A scenario fails by raising (what must hold was violated); `beyond` of its outcome are promises of time that were missed, which a run
reports and fails for, and a test does not look at.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from support.postgresql import fresh_database, hand_over, run_postgresql

SQLITE, POSTGRESQL = "sqlite", "postgresql"
BOTH = (SQLITE, POSTGRESQL)
Figures = dict[str, int | float | str]


@dataclass(frozen=True, slots=True)
class Asked:
    """One trial of a scenario: on which database, with which name server ("" where none plays), how many times, drawn from which seed.

    `broken` is the twin that lacks a guard: the trial has to fail on it.
    """

    folder: Path
    database: str
    count: int
    seed: int
    server: str = ""
    broken: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a trial that found nothing wrong."""

    told: str
    """In a sentence."""
    figures: Figures = field(default_factory=dict)
    beyond: tuple[str, ...] = ()


class NotPossibleError(Exception):
    """The fault can't be made on this machine; it says why."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A fault by its name. `counts` is how many times by database in `make faults`, `full` in `make soak`; what is counted is in `about`."""

    name: str
    about: str
    run: Callable[[Asked], Outcome]
    counts: dict[str, int]
    full: dict[str, int] = field(default_factory=dict)
    servers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The name servers to try it with, by database."""

    def trials(self) -> list[tuple[str, str]]:
        """Return each database with each of its name servers, "" where none plays."""
        return [
            (database, server) for database in self.counts for server in self.servers.get(database, ("",))
        ]


@contextmanager
def registry_on(asked: Asked, *, prefix: tuple[str, ...] = ()) -> Iterator[str]:
    """Give the address of an empty registry on the trial's database; PostgreSQL is a server of its own, which waits for the disk.

    `prefix` is a program, with its words, that runs PostgreSQL as the same process.
    """
    if asked.database == SQLITE:
        yield f"sqlite:///{asked.folder}/registry.db"
        return
    folder = asked.folder / "postgresql"
    folder.mkdir()
    hand_over(folder)
    with run_postgresql(folder, durable=True, prefix=prefix) as server, fresh_database(server) as url:
        yield url
