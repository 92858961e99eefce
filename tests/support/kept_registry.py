"""One registry for all tests of a process, with the prepared content at the start of each test.

It keeps its connections and compiled statements. To make them takes longer than most tests of a verb.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path

import psycopg

from support.registry import START, Prepared, Registry, open_registry

Restore = Callable[[], bool]
"""Restores the content. Returns False if the test changed more than that."""

_SCHEMA = """
SELECT md5(string_agg(found, ' ' ORDER BY found)) FROM (
    SELECT concat_ws(' ', attrelid, attname, attnotnull, atthasdef) FROM pg_attribute WHERE attrelid >= 16384 AND attnum > 0
    UNION ALL SELECT concat_ws(' ', tgrelid, tgname, tgenabled) FROM pg_trigger
    UNION ALL SELECT concat_ws(' ', conrelid, conname, convalidated) FROM pg_constraint
    UNION ALL SELECT concat_ws(' ', indexrelid, indisvalid) FROM pg_index
) AS each (found)
"""  # noqa: E501


class KeptRegistry:
    """Opens a copy of a prepared registry at the first test, and again after a test that changed the schema
    or replaced the file.
    """

    def __init__(self, prepared: Prepared, copied: Callable[[], AbstractContextManager[str]]) -> None:
        self._prepared = prepared
        self._copied = copied
        self._opened = ExitStack()
        self._registry: Registry | None = None
        self._restore: Restore = lambda: False

    def restored(self) -> Registry:
        """Return the registry with the content and the clock of a new copy."""
        if self._registry is None or not self._restore():
            self._open()
        registry = self._registry
        assert registry is not None
        registry.now, registry.sent = START, {}
        registry.users = dict(self._prepared.users)
        registry.organizations = dict(self._prepared.organizations)
        registry.domains = dict(self._prepared.domains)
        return registry

    def end_tasks(self) -> None:
        """Cancel the tasks that a test left."""
        if self._registry is not None:
            self._registry.run(_end_tasks())

    def close(self) -> None:
        """Close the registry, and drop its database."""
        self._registry = None
        self._opened.close()

    def _open(self) -> None:
        self.close()
        url = self._opened.enter_context(self._copied())
        restoring = _restoring_sqlite if url.startswith("sqlite:") else _restoring_postgresql
        self._restore = self._opened.enter_context(restoring(self._prepared.url, url))
        self._registry = self._opened.enter_context(open_registry(url, self._prepared))
        self._registry.is_kept = True


async def _end_tasks() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for each in left:
        each.cancel()
    await asyncio.gather(*left, return_exceptions=True)


@contextmanager
def _restoring_sqlite(prepared_url: str, url: str) -> Iterator[Restore]:
    path = Path(url.removeprefix("sqlite:///"))
    file = path.stat().st_ino

    def restore() -> bool:
        if not path.exists() or path.stat().st_ino != file:
            return False
        with (
            closing(sqlite3.connect(prepared_url.removeprefix("sqlite:///"))) as source,
            closing(sqlite3.connect(path)) as target,
        ):
            target.execute("PRAGMA synchronous=OFF")
            source.backup(target)
            target.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return True

    yield restore


@contextmanager
def _restoring_postgresql(_prepared_url: str, url: str) -> Iterator[Restore]:
    # This role of replication turns off foreign keys, and the triggers of tables that only grow.
    options = "-c session_replication_role=replica -c lock_timeout=5s"
    with psycopg.connect(url, autocommit=True, options=options) as connection:
        connection.execute("CREATE SCHEMA kept")
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        restoring = []
        for (table,) in tables:
            copied = connection.execute(f"CREATE TABLE kept.{table} AS TABLE {table}".encode())
            restoring.append(f"DELETE FROM {table}")  # noqa: S608
            if copied.rowcount:
                restoring.append(f"INSERT INTO {table} SELECT * FROM kept.{table}")  # noqa: S608
        sequences = connection.execute(
            "SELECT sequencename, coalesce(last_value, start_value), last_value IS NOT NULL FROM pg_sequences"
        )
        restoring += [f"SELECT setval('{name}', {value}, {is_used})" for name, value, is_used in sequences]
        schema = connection.execute(_SCHEMA).fetchone()

        def restore() -> bool:
            try:
                connection.execute(";".join(restoring).encode())
                return connection.execute(_SCHEMA).fetchone() == schema
            except psycopg.Error:
                return False

        yield restore
