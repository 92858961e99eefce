"""Both engines alike: the migrations make the schema that the code has, guards hold, PostgreSQL's faults are told and outlived."""

import asyncio
import os
import signal
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

import sublet.cli.doctor
import sublet.http.rate_store
import sublet.http.store
import sublet.processes.store
import sublet.subdomains.sweep_store
import sublet.tickets.store
from postgresql import fresh_database, run_postgresql
from sublet.db import Tx, open_database, sqlite_engine
from sublet.errors import Unavailable
from sublet.migrations import current_revision, newest_revision, refuse_unusable_database, upgrade
from sublet.schema import metadata
from sublet.schema_revision import find_revision, needed_revision

ALL_TABLES = (
    sublet.cli.doctor,
    sublet.http.rate_store,
    sublet.http.store,
    sublet.processes.store,
    sublet.subdomains.sweep_store,
    sublet.tickets.store,
)
"""Importing these declares every table there is."""


def _engine(url: str) -> Engine:
    if url.startswith("sqlite:///"):
        return sqlite_engine(url)
    return create_engine(make_url(url).set(drivername="postgresql+psycopg"), poolclass=NullPool)


def test_the_migrations_make_the_schema_that_the_code_has(database_url: str) -> None:
    upgrade(database_url)
    engine = _engine(database_url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_init_twice_changes_nothing(database_url: str) -> None:
    with pytest.raises(Unavailable, match="never initialised"):
        refuse_unusable_database(database_url)
    assert upgrade(database_url) == (None, newest_revision())
    assert upgrade(database_url) == (newest_revision(), newest_revision())
    refuse_unusable_database(database_url)
    assert current_revision(database_url) == needed_revision() == newest_revision()
    engine = _engine(database_url)
    with engine.connect() as connection:
        kinds = connection.execute(text("SELECT kind FROM ledger_accounts ORDER BY kind")).scalars().all()
    engine.dispose()
    assert kinds == ["adjustments", "grants", "revenue", "sales"]


@pytest.mark.parametrize("change", ["UPDATE {} SET id = id + 1", "DELETE FROM {}"])
@pytest.mark.parametrize("table", ["transfers", "audit_events"])
def test_what_is_append_only_can_not_be_changed(database_url: str, table: str, change: str) -> None:
    upgrade(database_url)
    rows = {
        "audit_events": "INSERT INTO audit_events (at, actor_kind, action, object_type, object_id) "
        "VALUES ('2026-01-01T00:00:00.000000Z', 'system', 'a.b', 'c', 1)",
        "transfers": "INSERT INTO transfers (reference, kind, debit_account_id, credit_account_id, credits, user_id, "
        "balance_after, description, created_at) "
        "VALUES ('r', 'grant', 1, 2, 1, 1, 1, 'd', '2026-01-01T00:00:00.000000Z')",
    }
    engine = _engine(database_url)
    with engine.begin() as connection:
        if table == "transfers":
            for statement in (
                "INSERT INTO organizations (id, name, slug, created_at) VALUES (1, 'o', 'o', '2026-01-01T00:00:00.000000Z')",
                """INSERT INTO users (id, email, name, organization_id, created_at)
                VALUES (1, 'e', 'n', 1, '2026-01-01T00:00:00.000000Z')""",
            ):
                connection.execute(text(statement))
        connection.execute(text(rows[table]))
    with pytest.raises(DBAPIError, match="append-only"), engine.begin() as connection:
        connection.execute(text(change.format(table)))
    with engine.connect() as connection:
        assert connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one() == 1  # noqa: S608
    engine.dispose()


def test_postgresql_that_loses_acknowledged_writes_is_refused(postgresql_server: str) -> None:
    with fresh_database(postgresql_server) as url:
        name = url.rpartition("/")[2]
        with psycopg.connect(postgresql_server, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
        with pytest.raises(Unavailable, match="synchronous_commit"):
            open_database(url)
        with psycopg.connect(postgresql_server, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = on")
        asyncio.run(open_database(url).close())


def _count(tx: Tx) -> int:
    return int(tx.connection.execute(text("SELECT count(*) FROM things")).scalar_one())


def _execute(tx: Tx, statement: str) -> None:
    tx.connection.execute(text(statement))


def test_postgresql_that_crashes_is_told_and_outlived(tmp_path: Path) -> None:
    folder = tmp_path / "postgresql"
    folder.mkdir()
    with run_postgresql(folder) as url:
        asyncio.run(_crash(url))


async def _crash(url: str) -> None:
    database = open_database(url)
    try:
        await database.write(_execute, "CREATE TABLE things (id int)")
        await database.write(_execute, "INSERT INTO things VALUES (1)")
        backend = await database.read(
            lambda tx: tx.connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        )
        # A backend that is killed takes all connections down, and the server recovers by itself.
        os.kill(int(backend), signal.SIGKILL)
        acknowledged, refused = 1, 0
        for _ in range(400):
            try:
                await database.write(_execute, "INSERT INTO things VALUES (1)")
            except Unavailable:
                refused += 1
                await asyncio.sleep(0.02)
            else:
                acknowledged += 1
                if refused:
                    break
        assert refused, "it was never away"
        # Of a write that was refused when the connection broke it can't be known whether it stands.
        assert acknowledged <= await database.read(_count) <= acknowledged + refused
        assert await database.read(find_revision) is None
    finally:
        await database.close()
