"""The files of an SQLite registry are deleted, replaced, overwritten or moved while the service runs under
load.

Each trial has a service of its own. Threads register names without pause and note when each request was sent.
A write that was sent after the change must not be acknowledged, and no write is lost that a file which still
exists should have.
"""

import os
import random
import shutil
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx

from long.scenario import FAULTS, SOAK, SQLITE, Outcome, Scenario, Trial
from support import http_clients
from support.running_service import Registrant
from support.serve_process import ServeProcess, serve_process, wait_until
from support.service_on_primary import ZONE
from support.write_load import in_threads

TRIALS_AT_ONCE = 4
THREADS = 2
UP_SECONDS_MAX = 0.5
AWAY_SECONDS_MAX = 3.0
"""How long a file is away that is moved back: shorter than the service waits."""
WRITES_BEFORE, WRITES_BACK = 10, 10
ENDED_SECONDS = 60.0
FILES_CHANGED = 4
"""The exit code."""
_starting = threading.Lock()
"""A service is initialised in this process, one at a time."""


@dataclass(slots=True)
class Writes:
    """The registrations of one trial: when each was sent, by name."""

    base_url: str
    who: Registrant
    acknowledged: dict[str, float] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    """Answered 503, and not stored."""
    faults: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Register names until the end of the block."""
        with in_threads(self._run, THREADS, self._stopped):
            yield
        assert self.faults == []

    def since(self, instant: float) -> list[str]:
        """Return the names whose request was sent later, and was acknowledged."""
        with self._lock:
            return [fqdn for fqdn, sent in self.acknowledged.items() if sent > instant]

    def _run(self, thread: int) -> None:
        number = 0
        with http_clients.Client(timeout=30) as client:
            while not self._stopped.is_set() and not self.faults:
                number += 1
                fqdn, sent = f"t{thread}n{number}.{ZONE}", time.monotonic()
                try:
                    answer = client.post(
                        f"{self.base_url}/subdomains",
                        headers={"authorization": f"Bearer {self.who.token}"},
                        json={"fqdn": fqdn, "nameservers": ["ns.provider.example"]},
                    )
                except httpx.TransportError:
                    self._stopped.wait(0.05)  # it has ended
                    continue
                with self._lock:
                    self._note(fqdn, sent, answer)

    def _note(self, fqdn: str, sent: float, answer: httpx.Response) -> None:
        if answer.status_code == 201:
            self.acknowledged[fqdn] = sent
        elif answer.status_code == 503 and int(answer.headers["retry-after"]) >= 1:
            if "shortly" in answer.text:
                self.faults.append(answer.text)
            if "outcome is unknown" not in answer.text:
                self.refused.add(fqdn)
        else:
            self.faults.append(f"{answer.status_code} {answer.text}")


@dataclass(frozen=True, slots=True)
class Place:
    """The files of one trial: the registry, and an older state of it."""

    folder: Path
    draws: random.Random

    @property
    def registry(self) -> Path:
        """The database's file."""
        return self.folder / "registry.db"

    @property
    def log(self) -> Path:
        """The database's write-ahead log."""
        return self.folder / "registry.db-wal"

    @property
    def older(self) -> Path:
        """An older state of the same registry."""
        return self.folder / "older.db"

    @property
    def moved(self) -> Path:
        """Where the file is moved to."""
        return self.folder / "moved.db"

    def delete(self) -> None:
        """Delete the file, without the files beside it or with them."""
        self.registry.unlink()
        if self.draws.random() < 0.5:
            self.log.unlink()
            self.folder.joinpath("registry.db-shm").unlink()

    def replace(self) -> None:
        """Replace the file by an older state."""
        shutil.copyfile(self.older, self.moved)
        self.moved.replace(self.registry)

    def overwrite(self) -> None:
        """Overwrite the file in place: by an older state, by noise or by nothing."""
        content = self.draws.choice([self.older.read_bytes(), os.urandom(self.older.stat().st_size), b""])
        self.registry.write_bytes(content)

    def delete_log(self) -> None:
        """Delete the write-ahead log."""
        self.log.unlink()

    def move(self) -> None:
        """Move the file away."""
        self.registry.rename(self.moved)

    def move_back(self) -> None:
        """Move the file back."""
        self.moved.rename(self.registry)


CHANGES: dict[str, Callable[[Place], None]] = {
    "deleted": Place.delete,
    "replaced": Place.replace,
    "overwritten": Place.overwrite,
    "WAL deleted": Place.delete_log,
    "moved": Place.move,
    "moved and moved back": Place.move,
}


@dataclass(frozen=True, slots=True)
class Figures:
    """What one trial has measured."""

    kind: str
    acknowledged: int
    kept: int
    """How many acknowledged names were found in the file that remained."""
    seconds: float
    """From the change to the end of the process; 0 if it went on."""


def run(trial: Trial) -> Outcome:
    """Run `count` trials, some at once, each kind in turn."""
    template = trial.folder / "template.db"
    with serve_process(f"sqlite:///{template}", trial.folder, free_quota=10**6) as serving:
        serving.service.add_domain()
        who = serving.service.add_user()
    kinds = [list(CHANGES)[number % len(CHANGES)] for number in range(trial.count)]
    with ThreadPoolExecutor(TRIALS_AT_ONCE) as pool:
        found = list(pool.map(partial(_try, trial, template, who), range(trial.count), kinds))
    lines = []
    for kind, number in Counter(kinds).items():
        of_kind = [each for each in found if each.kind == kind]
        ended = [each.seconds for each in of_kind if each.seconds]
        lines.append(
            f"{kind}: {number} trials, {sum(each.acknowledged for each in of_kind)} writes acknowledged, "
            f"{sum(each.kept for each in of_kind)} of them found in the file that remained, 0 acknowledged "
            "after the change and lost"
            + (f"; ended after {min(ended):.1f} to {max(ended):.1f} s" if ended else "; went on")
        )
    return Outcome("\n".join(lines))


def _try(trial: Trial, template: Path, who: Registrant, number: int, kind: str) -> Figures:
    draws = random.Random(f"{trial.seed} {number}")  # noqa: S311 - moments, no secrets
    place = Place(trial.folder / str(number), draws)
    place.folder.mkdir()
    for each in (place.registry, place.older):
        shutil.copyfile(template, each)
    with _starting:
        starting = serve_process(
            f"sqlite:///{place.registry}", place.folder, broken=trial.broken, free_quota=10**6
        )
        serving = starting.__enter__()
    try:
        serving.environment["SUBLET_PUBLISH_WAIT_MS"] = "0"
        serving.start()
        writes = Writes(serving.service.base_url, who)
        figures = _change(kind, place, serving, writes)
    finally:
        with _starting:
            starting.__exit__(None, None, None)
    shutil.rmtree(place.folder)
    return figures


def _change(kind: str, place: Place, serving: ServeProcess, writes: Writes) -> Figures:
    seconds = 0.0
    with writes.running():
        wait_until(lambda: bool(writes.faults) or len(writes.acknowledged) >= WRITES_BEFORE)
        if (
            not serving.broken
        ):  # an older state must differ from the file; the twin without a watch writes nothing back
            wait_until(lambda: place.registry.stat().st_size > place.older.stat().st_size)
        time.sleep(place.draws.uniform(0, UP_SECONDS_MAX))
        CHANGES[kind](place)
        changed = time.monotonic()
        if kind == "moved and moved back":
            _wait_until_not_ready(kind, serving, writes, changed)
            time.sleep(place.draws.uniform(0, AWAY_SECONDS_MAX))
            assert writes.since(changed) == [], f"{kind}: acknowledged after the change"
            place.move_back()
            back = time.monotonic()
            wait_until(lambda: bool(writes.faults) or len(writes.since(back)) >= WRITES_BACK)
        else:
            _wait_until_not_ready(kind, serving, writes, changed)
            wait_until(serving.ended, ENDED_SECONDS)
            seconds = time.monotonic() - changed
    if kind == "moved and moved back":
        assert serving.stop() == 0
    else:
        assert serving.wait() == FILES_CHANGED, serving.log.read_text()
        assert writes.since(changed) == [], f"{kind}: acknowledged after the change"
    return Figures(kind, len(writes.acknowledged), _check_file(kind, place, writes), seconds)


def _wait_until_not_ready(kind: str, serving: ServeProcess, writes: Writes, changed: float) -> None:
    root = serving.service.base_url.removesuffix("/api/v1")

    def not_ready() -> bool:
        assert writes.since(changed) == [], f"{kind}: acknowledged after the change"
        answer = http_clients.get(f"{root}/readyz", timeout=10)
        return answer.status_code == 503 and "sublet restore" in answer.json().get("reason", "")

    wait_until(not_ready, ENDED_SECONDS)


def _check_file(kind: str, place: Place, writes: Writes) -> int:
    """Check the file that remained; return how many of the acknowledged names it has."""
    if kind in ("deleted", "overwritten"):
        return 0
    path = place.moved if kind == "moved" else place.registry
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)], kind
        stored = {row[0] for row in connection.execute("SELECT fqdn FROM subdomains")}
    if kind == "replaced":
        assert stored == set(), "the log of the replaced file was applied to the new one"
        return 0
    lost = sorted(writes.acknowledged.keys() - stored)
    assert not lost, f"{kind}: acknowledged and lost: {lost}"
    both = sorted(writes.refused & stored)
    assert not both, f"{kind}: refused and stored: {both}"
    return len(writes.acknowledged)


FILES = Scenario(
    "files-changed",
    "The files of the registry are deleted, replaced, overwritten, moved, or moved and moved back under "
    "load, or its WAL is deleted. No write that is sent after that is acknowledged, none is lost from a "
    "file that remains, and the service ends with exit code 4, unless the file came back. Counted are "
    "trials.",
    run,
    {FAULTS: {SQLITE: 30}, SOAK: {SQLITE: 200}},
)
