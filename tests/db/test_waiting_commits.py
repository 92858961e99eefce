"""COMMITs that wait for a stopped synchronous standby: each wait ends, and its answer claims only what is
known.
"""

import asyncio
import threading
from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import text

from sublet.db import Tx, commit_watch, postgresql
from sublet.db.postgresql import PostgresqlDatabase
from sublet.errors import Unavailable
from support.postgresql import fresh_database
from support.postgresql_table import UNKNOWN, add, commits_waiting, has_standby, ids, prepared_things, tell
from support.waiting import ENOUGH_SECONDS, wait_until


@pytest.fixture(scope="module")
def prepared(postgresql_server: str) -> Iterator[str]:
    with prepared_things(postgresql_server) as url:
        yield url


@pytest.fixture
def url(postgresql_server: str, prepared: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(commit_watch, "COMMIT_SECONDS", 0.5)
    with fresh_database(postgresql_server, like=prepared) as made:
        try:
            yield made
        finally:
            has_standby(made, "")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set by `begin_write` once it has seen the waiting COMMIT, which isn't cancelled earlier."""
    event, cancel = threading.Event(), psycopg.Connection.cancel_safe

    def cancel_once_seen(raw: "psycopg.Connection[object]", *, timeout: float) -> None:
        assert event.wait(ENOUGH_SECONDS)
        cancel(raw, timeout=timeout)

    monkeypatch.setattr(psycopg.Connection, "cancel_safe", cancel_once_seen)
    return event


async def begin_write(database: PostgresqlDatabase, url: str, seen: threading.Event) -> "asyncio.Task[int]":
    """Begin a write, and return once its COMMIT waits for a stopped standby."""
    await database.write(lambda _: None)
    has_standby(url, "nobody")
    writing = asyncio.create_task(database.write(add))
    await asyncio.to_thread(wait_until, lambda: len(commits_waiting(url)) == 1)
    seen.set()
    return writing


def test_closing_ends_the_waiting_commit_of_a_cancelled_caller(url: str, seen: threading.Event) -> None:
    async def story(database: PostgresqlDatabase) -> None:
        writing = await begin_write(database, url, seen)
        writing.cancel()
        await asyncio.wait({writing})
        assert writing.cancelled()
        closing = asyncio.create_task(database.close())
        done, _ = await asyncio.wait({closing}, timeout=ENOUGH_SECONDS)
        assert done, "close() waits for ever"
        has_standby(url, "")
        assert ids(url) == [1]

    try:
        tell(url, story)
    finally:
        has_standby(url, "")  # otherwise a waiting thread would keep the tests from ending


def test_a_late_cancel_does_not_affect_the_next_transaction(
    url: str, monkeypatch: pytest.MonkeyPatch, seen: threading.Event
) -> None:
    order: list[str] = []
    answered = threading.Event()
    cancel = psycopg.Connection.cancel_safe

    def cancel_late(raw: "psycopg.Connection[object]", *, timeout: float) -> None:
        assert seen.wait(ENOUGH_SECONDS)
        has_standby(url, "")
        wait_until(lambda: not commits_waiting(url))
        answered.wait(1)  # must not be set yet
        cancel(raw, timeout=timeout)
        order.append("cancelled")

    def pid(tx: Tx) -> int:
        return int(tx.connection.execute(text("SELECT pg_backend_pid()")).scalar_one())

    async def story(database: PostgresqlDatabase) -> None:
        first = await database.write(pid)
        monkeypatch.setattr(psycopg.Connection, "cancel_safe", cancel_late)
        assert [await (await begin_write(database, url, seen))] == ids(url)
        order.append("answered")
        answered.set()
        assert order == ["cancelled", "answered"]
        assert await database.write(pid) != first  # where the cancel may arrive even later

    tell(url, story)


def test_writes_without_a_free_thread_are_refused_and_not_run(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_watch, "COMMIT_SECONDS", ENOUGH_SECONDS)
    monkeypatch.setattr(postgresql, "BEGIN_SECONDS", 2)
    run: list[int] = []

    def fill(tx: Tx, number: int) -> None:
        run.append(number)
        add(tx)

    async def story(database: PostgresqlDatabase) -> None:
        await database.write(lambda _: None)
        has_standby(url, "nobody")
        filling = [asyncio.create_task(database.write(fill, n)) for n in range(postgresql.WRITERS)]
        await asyncio.to_thread(wait_until, lambda: len(commits_waiting(url)) == postgresql.WRITERS)
        ends = await asyncio.gather(
            *(database.write(fill, n) for n in range(100, 116)), return_exceptions=True
        )
        assert (
            len(commits_waiting(url)) == postgresql.WRITERS
        )  # they were refused while the others still wait
        for end in ends:
            assert isinstance(end, Unavailable)
            assert UNKNOWN not in end.message
        has_standby(url, "")
        await asyncio.gather(*filling)
        assert sorted(run) == list(range(postgresql.WRITERS))
        assert len(ids(url)) == postgresql.WRITERS
        await database.write(fill, 8)

    try:
        tell(url, story)
    finally:
        has_standby(url, "")
