"""What docs/operating/standby.md says of PostgreSQL itself: when a commit is acknowledged, and what the
standby has.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from long.hosts.standby import PostgresqlPair, postgresql_pair
from support.postgresql import PostgresqlServer
from support.waiting import wait_until

pytestmark = pytest.mark.whole


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


def _insert(threads: ThreadPoolExecutor, server: PostgresqlServer, number: int) -> "Future[None]":
    """Begin a commit that waits for the standby, whatever the timeout of statements is."""
    statement = f"SET statement_timeout = 100; INSERT INTO things VALUES ({number})"  # noqa: S608 - our own words
    future = threads.submit(execute, server.address("registry"), statement)
    wait_until(lambda: waiting(server) == 1)
    return future


def test_nothing_is_acknowledged_that_only_one_host_has(pair: PostgresqlPair) -> None:
    old = pair.primary
    with ThreadPoolExecutor(1) as threads:
        pair.standby.kill()
        first = _insert(threads, old, 1)
        assert not first.done()
        assert things(old) == []
        pair.standby.start()
        first.result(60)
        pair.standby.kill()
        second = _insert(threads, old, 2)
        old.kill()
        with pytest.raises(psycopg.OperationalError):
            second.result(60)
        pair.standby.start()
        pair.take_over()
        assert things(pair.primary) == [1]
        # The old primary comes back without fencing.
        old.start()
        third = _insert(threads, old, 3)
        old.kill()
        with pytest.raises(psycopg.OperationalError):
            third.result(60)
    assert things(pair.primary) == [1]
