"""What docs/operating/standby.md says of PostgreSQL itself: when a commit is acknowledged, and what the
standby has.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from long.hosts.standby import PostgresqlPair, postgresql_pair
from support.postgresql import PostgresqlServer
from support.serve_process import wait_until


@pytest.fixture
def pair(short_folder: Path) -> Iterator[PostgresqlPair]:
    with postgresql_pair(short_folder) as made:
        execute(made.address, "CREATE TABLE things (id int)")
        yield made


def execute(address: str, statement: str) -> None:
    """Run a statement in a transaction of its own; it returns when that is acknowledged."""
    with psycopg.connect(address) as connection:
        connection.execute(statement.encode())


def things(server: PostgresqlServer) -> list[int]:
    with psycopg.connect(server.address("registry")) as connection:
        return [row[0] for row in connection.execute("SELECT id FROM things ORDER BY id")]


def waiting(server: PostgresqlServer) -> int:
    """Count the commits that wait for the standby."""
    return int(server.ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"))


@contextmanager
def commits_that_wait(pair: PostgresqlPair) -> Iterator[list["Future[None]"]]:
    """Three commits that wait for the standby, which is away: each with another
    timeout that doesn't end it.
    """
    pair.standby.kill()
    timeouts = ("", "SET statement_timeout = 100;", "SET lock_timeout = 100;")
    with ThreadPoolExecutor(len(timeouts)) as threads:
        address = pair.primary.address("registry")
        futures = [
            threads.submit(execute, address, f"{timeout} INSERT INTO things VALUES ({number})")  # noqa: S608 - our own words
            for number, timeout in enumerate(timeouts, start=1)
        ]
        wait_until(lambda: waiting(pair.primary) == len(timeouts))
        try:
            yield futures
        finally:
            pair.primary.kill()  # ends the commits that still wait


def test_nothing_is_acknowledged_while_the_standby_is_away(pair: PostgresqlPair) -> None:
    with commits_that_wait(pair) as futures:
        with pytest.raises(psycopg.errors.QueryCanceled):  # so their timeouts are over, too
            execute(pair.primary.address(), "SET statement_timeout = 300; SELECT pg_sleep(60)")
        assert not any(each.done() for each in futures)
        assert things(pair.primary) == []
        pair.standby.start()
        for each in futures:
            each.result(20)
        assert things(pair.primary) == [1, 2, 3]


def test_commits_that_waited_when_the_primary_died_were_never_acknowledged(pair: PostgresqlPair) -> None:
    with commits_that_wait(pair) as futures:
        pair.primary.kill()
        for each in futures:
            with pytest.raises(psycopg.OperationalError):
                each.result(20)
        pair.standby.start()
        pair.take_over()
        assert things(pair.primary) == []


def test_a_cancelled_wait_is_acknowledged_and_a_terminated_wait_is_an_error(pair: PostgresqlPair) -> None:
    with commits_that_wait(pair):
        pids = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' ORDER BY pid LIMIT 1"
        pair.primary.ask(f"SELECT pg_cancel_backend(({pids}))")
        wait_until(lambda: waiting(pair.primary) == 2)
        pair.primary.ask(f"SELECT pg_terminate_backend(({pids}))")
        wait_until(lambda: waiting(pair.primary) == 1)
        wait_until(lambda: len(things(pair.primary)) == 2)


def test_an_old_primary_without_fencing_acknowledges_nothing(pair: PostgresqlPair) -> None:
    old = pair.primary
    old.kill()
    pair.take_over()
    execute(pair.address, "INSERT INTO things VALUES (1)")
    old.start()
    with ThreadPoolExecutor(1) as threads:
        future = threads.submit(execute, old.address("registry"), "INSERT INTO things VALUES (2)")
        wait_until(lambda: waiting(old) == 1)
        old.kill()
        with pytest.raises(psycopg.OperationalError):
            future.result(20)
    assert things(pair.primary) == [1]


def test_a_standby_of_the_new_primary_can_take_over_next(pair: PostgresqlPair) -> None:
    for number in range(3):
        execute(pair.address, f"INSERT INTO things VALUES ({number})")  # noqa: S608 - our own words
        pair.primary.kill()
        pair.take_over()
        pair.build_standby()
    assert things(pair.primary) == [0, 1, 2]
