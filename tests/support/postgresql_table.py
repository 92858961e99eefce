"""A PostgreSQL database with a table of things, and the operations of the tests of lost connections."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from sqlalchemy import text

from sublet.db import Tx, open_database
from sublet.db.postgresql import PostgresqlDatabase
from sublet.migrations import upgrade
from support.postgresql import fresh_database
from support.waiting import wait_until

Story = Callable[[PostgresqlDatabase], Coroutine[Any, Any, None]]
UNKNOWN = "outcome is unknown"


@contextmanager
def prepared_things(server_url: str) -> Iterator[str]:
    """Create a registry's database with an empty table `things`."""
    with fresh_database(server_url) as url:
        upgrade(url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE things (id int GENERATED ALWAYS AS IDENTITY, name text UNIQUE)")
        yield url


def tell(url: str, story: Story, **options: Any) -> None:
    """Run a coroutine with an open database."""

    async def run() -> None:
        database = open_database(url, may_lose_writes=True, **options)
        assert isinstance(database, PostgresqlDatabase)
        try:
            await story(database)
        finally:
            await database.close()

    asyncio.run(run())


def add(tx: Tx, name: str | None = None) -> int:
    """Add a thing, and return its id."""
    statement = text("INSERT INTO things (name) VALUES (:name) RETURNING id")
    return int(tx.connection.execute(statement, {"name": name}).scalar_one())


def ask(url: str, question: str) -> list[Any]:
    """Run a query on the server, without the proxy."""
    with psycopg.connect(url, autocommit=True) as connection:
        return [row[0] for row in connection.execute(question)]


def ids(url: str) -> list[int]:
    """Return the ids of all things."""
    return ask(url, "SELECT id FROM things ORDER BY id")


def waiting_pids(url: str, kind: str) -> list[int]:
    """Return the process ids of backends with this type of wait event, such as `Lock`."""
    return ask(
        url,
        f"SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = '{kind}'",  # noqa: S608
    )


@contextmanager
def meanwhile(run: Callable[[], None]) -> Iterator[None]:
    """Run a function in another thread during the block, and raise its exception at the end."""
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    try:
        yield
    finally:
        thread.join(60)
        assert not thread.is_alive()
    assert failures == []


def commits_waiting(url: str) -> list[int]:
    """Return the process ids of backends whose COMMIT waits for a standby."""
    return ask(
        url, "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'SyncRep'"
    )


def _standby_names(url: str) -> str:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("SHOW synchronous_standby_names").fetchone()
    assert row is not None
    return str(row[0])


def has_standby(url: str, names: str) -> None:
    """Make the server wait for a synchronous standby, which doesn't exist, or for none."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        connection.execute("SELECT pg_reload_conf()")
    # Once a new connection has the setting, all others apply it before their next command.
    wait_until(lambda: _standby_names(url) == names)
    # COMMITs wait once the checkpointer has it too, which applies settings before it makes a checkpoint.
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
