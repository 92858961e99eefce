"""The reference of the writes: the statements that requests sent, played again over the raw driver, and nothing else.

What was recorded has the parameters of one run. Where a parameter was always the id of a row that an earlier statement of the same request
had added, it takes that id here too; so requests may be played in any order, and beside each other.
"""

import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg

from speed.recorder import Recorded, Statement

BUSY_SECONDS = 5
BARRIER_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Step:
    """A statement to play: its place in the request, and which of its parameters take what an earlier place gave."""

    place: int
    sql: str
    parameters: Any
    many: bool
    is_read: bool
    links: tuple[tuple[Any, int], ...]
    gives: bool


@dataclass(frozen=True, slots=True)
class Part:
    """A transaction of a request: its statements but BEGIN and COMMIT."""

    steps: tuple[Step, ...]
    commits: bool


Played = tuple[Part, ...]
"""A request: its transactions in order."""


def played(recorded: Sequence[Sequence[Recorded]]) -> list[Played]:
    """Return requests, or what each client sends one after the other, as they are to be played.

    Those of the most frequent form, which all but the first few have.
    """
    sent = [[statement for each in together for statement in each.statements] for together in recorded]
    (form, _), *_ = Counter(_form(each) for each in sent).most_common(1)
    alike = [each for each in sent if _form(each) == form]
    links = _links(alike)
    return [_parts(statements, links) for statements in alike]


def _form(statements: Sequence[Statement]) -> tuple[str, ...]:
    return tuple(each.sql for each in statements)


def _is(statement: Statement, *words: str) -> bool:
    return statement.sql.lstrip().upper().startswith(words)


def _values(statement: Statement) -> dict[Any, Any]:
    if statement.parameters is None or statement.many:
        return {}
    return dict(
        statement.parameters if isinstance(statement.parameters, dict) else enumerate(statement.parameters)
    )


def _links(alike: Sequence[Sequence[Statement]]) -> list[tuple[tuple[Any, int], ...]]:
    """Return for each statement which parameters always were the id that which earlier statement gave."""
    adding = [place for place, each in enumerate(alike[0]) if _is(each, "INSERT")]
    given = {place: [each[place].given for each in alike] for place in adding}
    found = []
    for place in range(len(alike[0])):
        rows = [_values(each[place]) for each in alike]
        sources = {
            name: source
            for name, value in rows[0].items()
            for source in reversed(adding)  # of two that always gave the same number the first counts
            if source < place and isinstance(value, int) and [row[name] for row in rows] == given[source]
        }
        found.append(tuple(sources.items()))
    return found


def _parts(statements: Sequence[Statement], links: Sequence[tuple[tuple[Any, int], ...]]) -> Played:
    givers = {source for each in links for _, source in each}
    parts: list[Part] = []
    steps: list[Step] = []
    for place, each in enumerate(statements):
        if _is(each, "BEGIN", "PRAGMA"):
            continue
        if not _is(each, "COMMIT", "ROLLBACK") or _is(each, "ROLLBACK TO"):
            steps.append(
                Step(place, each.sql, each.parameters, each.many, each.is_read, links[place], place in givers)
            )
        elif steps:
            parts.append(Part(tuple(steps), _is(each, "COMMIT")))
            steps = []
    return tuple(parts)


def count_statements(recorded: Recorded) -> int:
    """Return how many statements a request sent, those that begin and end transactions aside."""
    return sum(
        not _is(each, "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "PRAGMA")
        for each in recorded.statements
    )


def _play(connection: Any, steps: Iterable[Step], given: dict[int, Any]) -> None:
    for step in steps:
        parameters = step.parameters
        if step.links:
            parameters = parameters.copy() if isinstance(parameters, dict) else list(parameters)
            for name, source in step.links:
                parameters[name] = given[source]
        if step.many:
            connection.cursor().executemany(step.sql, parameters)
            continue
        cursor = connection.execute(step.sql, parameters)
        rows = cursor.fetchall() if step.is_read else None
        if step.gives:
            given[step.place] = rows[0][0] if rows else cursor.lastrowid


def play_on_sqlite(path: str, requests: Sequence[Played], group: int) -> float:
    """Play requests on an SQLite file, so many in one commit as one group; return how many a second that were.

    The connections are as the service has them: one that reads, one that writes, WAL and synchronous=FULL.
    """
    with closing(_connect(path)) as reader, closing(_connect(path)) as writer:
        started = time.perf_counter()
        for first in range(0, len(requests), group):
            together = requests[first : first + group]
            given: list[dict[int, Any]] = [{} for _ in together]
            for number, part in enumerate(together[0]):
                if part.commits:
                    writer.execute("BEGIN IMMEDIATE")
                    for each, own in zip(together, given, strict=True):
                        _play(writer, each[number].steps, own)
                    writer.execute("COMMIT")
                    continue
                for each, own in zip(together, given, strict=True):
                    reader.execute("BEGIN")
                    _play(reader, each[number].steps, own)
                    reader.execute("ROLLBACK")
        return len(requests) / (time.perf_counter() - started)


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def play_on_postgresql(url: str, requests: Sequence[Played], clients: int) -> float:
    """Play requests on a PostgreSQL database from so many threads with a connection each; return how many a second that were."""
    waiting = _Shared(requests)
    ready = threading.Barrier(clients + 1)
    with ThreadPoolExecutor(clients) as threads:
        running = [threads.submit(_play_some, url, waiting, ready) for _ in range(clients)]
        ready.wait(BARRIER_SECONDS)
        started = time.perf_counter()
        for each in running:
            each.result()
        return len(requests) / (time.perf_counter() - started)


class _Shared:
    """Requests that several threads take, each once."""

    def __init__(self, requests: Sequence[Played]) -> None:
        self._waiting = iter(requests)
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[Played]:
        while True:
            with self._lock:
                request = next(self._waiting, None)
            if request is None:
                return
            yield request


def _play_some(url: str, waiting: _Shared, ready: threading.Barrier) -> None:
    with psycopg.connect(url) as connection:
        ready.wait(BARRIER_SECONDS)
        for request in waiting:
            given: dict[int, Any] = {}
            for part in request:
                _play(connection, part.steps, given)
                if part.commits:
                    connection.commit()
                else:
                    connection.rollback()
