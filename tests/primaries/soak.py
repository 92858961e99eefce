"""What concerns real name servers at length: the fence, SIGKILL, an outage; on each server, or those that are chosen."""

import argparse
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from long.primaries.fence import impatient_service, old_against_new, register_names
from long.primaries.kills import points_of, server_killed, worker_killed
from long.primaries.outage import primary_away
from long.reports import save_report
from support.name_servers import KINDS

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
    """A part of the soak: `title` and `about` are for its report, `count` is the default number of trials."""

    name: str
    title: str
    about: str
    count: int
    trial: Trial

    def __call__(self, options: argparse.Namespace) -> bool:
        """Run the trial on each chosen server, print and save the results; return True if nothing was violated."""
        count = options.count or self.count
        kinds = [options.server] if options.server else list(KINDS)
        print(f"{self.name}: {count} on {', '.join(kinds)}", flush=True)
        well = True
        for kind in kinds:
            lines: list[str] = []
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
                save_report(
                    options.report,
                    f"soak-{self.name}-{kind}",
                    title=f"Soak: {self.title}",
                    command=f"make soak PART={self.name} SERVER={kind}",
                    about=self.about,
                    lines=[line.removeprefix(f"{kind}: ") for line in lines],
                    programs=[kind],
                )
        return well


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
    "The name server hangs with an update in its queue, a newer update follows, and the server continues. Then the zone must equal the registry.",
    FENCE_TRIALS,
    _fence,
)
kills = Part(
    "kills",
    "SIGKILL",
    "Under load, the name server is killed and restarted, then the service at each named point of its publishing, without other "
    "help. Every acknowledged write must be stored and in the zone, and nothing else beside foreign records.",
    KILLS,
    _kills,
)
outage = Part(
    "outage",
    "a primary that is away",
    "Names are registered while the name server is down. All must be published within 30 s of its return, plus 1 s for each 100 names.",
    OUTAGE_NAMES,
    _outage,
)
