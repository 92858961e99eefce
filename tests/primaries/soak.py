"""What concerns real name servers at length: the fence, SIGKILL, an outage; on each server, or those that are chosen."""

import argparse
import platform
import re
import subprocess
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fence_trials import impatient_service, old_against_new, register_names
from kill_trials import points_of, server_killed, worker_killed
from machine.soak import commit
from name_servers import KINDS, find_program
from primaries.trials import primary_away

FENCE_TRIALS = 100
KILLS = 25
OUTAGE_NAMES = 1000
AWAY_SECONDS = 180.0
CAUGHT_UP_SECONDS = 600.0
"""How long an outage's trial waits before it calls what is missing lost: far longer than is promised."""
Trial = Callable[[str, Path, int], Iterator[str]]
"""What is done with one kind of server, in a folder, so many times: it yields lines of the report, and raises what is violated."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the soak: `about` opens its report, `count` is how many times its trial is made if nothing else is asked for."""

    name: str
    title: str
    about: str
    count: int
    trial: Trial

    def __call__(self, options: argparse.Namespace) -> bool:
        """Run the trial on each server that is asked for, print and report what came of it; tell whether nothing was violated."""
        count = options.count or self.count
        kinds = [options.server] if options.server else list(KINDS)
        print(f"{self.name}: {count} on {', '.join(kinds)}", flush=True)
        lines: list[str] = []
        well = True
        for kind in kinds:
            # A socket's path has 107 characters at most, so not in a deep folder.
            with tempfile.TemporaryDirectory(prefix="soak-") as folder:
                try:
                    for line in self.trial(kind, Path(folder), count):
                        print(f"{self.name}: {line}", flush=True)
                        lines.append(line)
                except Exception as error:  # noqa: BLE001 - whatever it is, it is what the soak is for
                    well = False
                    lines.append(f"{kind}: VIOLATED: {type(error).__name__}: {str(error)[:2000]}")
                    print(f"{self.name}: {lines[-1]}")
                    traceback.print_exception(error)
        if options.report is not None:
            self._report(options.report, kinds, lines, None if len(kinds) == len(KINDS) else kinds[0])
        return well

    def _report(self, folder: Path, kinds: list[str], lines: list[str], only: str | None) -> None:
        part = f"PART={self.name}" if only is None else f"PART={self.name} SERVER={only}"
        page = [
            f"# Soak: {self.title}",
            "",
            f"{self.about} `make soak {part}` makes this page.",
            "",
            f"- {datetime.now(UTC):%Y-%m-%d}, sublet {commit()}, Python {platform.python_version()}",
            *(f"- {kind} {version(kind)}" for kind in kinds),
            "",
            *(f"    {line}" for line in lines),
        ]
        folder.mkdir(parents=True, exist_ok=True)
        name = f"soak-{self.name}.md" if only is None else f"soak-{self.name}-{only}.md"
        (folder / name).write_text("\n".join(page) + "\n", encoding="utf-8")
        print(f"{self.name}: {folder / name} is written")


def version(kind: str) -> str:
    """Return which version of a server is installed."""
    program, option = {
        "knot": ("knotd", "-V"),
        "bind": ("named", "-v"),
        "powerdns": ("pdns_server", "--version"),
    }[kind]
    ran = subprocess.run(
        [find_program(program) or program, option], capture_output=True, text=True, check=False
    )
    found = re.search(r"\d+\.\d+\.\d+", ran.stdout + ran.stderr)
    return found[0] if found else "of no known version"


def _fence(kind: str, folder: Path, count: int) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch, impatient_service(kind, folder, patch) as (on, ada):
        names = register_names(on, ada)
        for number in range(count):
            old_against_new(on, ada, names, number)
        assert on.service.doctor() == []
    yield f"{kind}: {count} trials; the zone equalled the registry after each"


def _kills(kind: str, folder: Path, count: int) -> Iterator[str]:
    for name in ("server", "service"):
        (folder / name).mkdir()
    yield str(server_killed(kind, folder / "server", kills=count))
    yield from map(str, worker_killed(kind, folder / "service", points=points_of(kind), kills=count))


def _outage(kind: str, folder: Path, count: int) -> Iterator[str]:
    away_seconds = AWAY_SECONDS * min(1.0, count / OUTAGE_NAMES)  # a smaller trial is a shorter one too
    came = primary_away(
        kind, folder, names=count, away_seconds=away_seconds, caught_up_seconds=CAUGHT_UP_SECONDS
    )
    yield str(came)
    assert came.published_seconds <= came.promised_seconds, "later than promised"


fence = Part(
    "fence",
    "an old update against a newer one",
    "A server hangs with an update in its queue, a newer one follows, it wakes: the zone has to be what the registry says.",
    FENCE_TRIALS,
    _fence,
)
kills = Part(
    "kills",
    "SIGKILL",
    "Each server is killed under load and started again, and so is the service at each named point of its publishing; nobody does "
    "anything else. Whatever was acknowledged has to be stored and to stand in the zone, and nothing else beside what was foreign.",
    KILLS,
    _kills,
)
outage = Part(
    "outage",
    "a primary that is away",
    "Names are registered while the primary is away; all have to be published within 30 s + 1 s for each 100 of its return.",
    OUTAGE_NAMES,
    _outage,
)
