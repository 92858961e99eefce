"""On both databases the migrations create the schema of the code, and append-only tables can't be changed."""

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

import sublet.cli.doctor
import sublet.operations.idempotency_store
import sublet.operations.rate_limit_store
import sublet.processes.store
import sublet.subdomains.sweep.store
import sublet.tickets.store
from sublet.db import sqlite_engine
from sublet.db.connect import postgresql_engine
from sublet.errors import Unavailable
from sublet.migrations import upgrade
from sublet.schema import metadata
from sublet.schema_revision import needed_revision, refuse_unusable_database

ALL_TABLES = (
    sublet.cli.doctor,
    sublet.operations.rate_limit_store,
    sublet.operations.idempotency_store,
    sublet.processes.store,
    sublet.subdomains.sweep.store,
    sublet.tickets.store,
)
"""Importing these modules declares every table."""


def _engine(url: str) -> Engine:
    if url.startswith("sqlite:///"):
        return sqlite_engine(url)
    return postgresql_engine(url, poolclass=NullPool)


def test_the_migrations_create_the_schema_of_the_code(database_url: str) -> None:
    upgrade(database_url)
    engine = _engine(database_url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_init_twice_changes_nothing(database_url: str) -> None:
    with pytest.raises(Unavailable, match="never initialised"):
        refuse_unusable_database(database_url)
    assert upgrade(database_url) == (None, needed_revision())
    assert upgrade(database_url) == (needed_revision(), needed_revision())
    refuse_unusable_database(database_url)
    engine = _engine(database_url)
    with engine.connect() as connection:
        kinds = connection.execute(text("SELECT kind FROM ledger_accounts ORDER BY kind")).scalars().all()
    engine.dispose()
    assert kinds == ["adjustments", "grants", "revenue", "sales"]


@pytest.mark.parametrize("change", ["UPDATE {} SET id = id + 1", "DELETE FROM {}"])
@pytest.mark.parametrize("table", ["transfers", "audit_events"])
def test_append_only_tables_can_not_be_changed(database_url: str, table: str, change: str) -> None:
    upgrade(database_url)
    rows = {
        "audit_events": "INSERT INTO audit_events (at, actor_kind, action, object_type, object_id) "
        "VALUES ('2026-01-01T00:00:00.000000Z', 'system', 'a.b', 'c', 1)",
        "transfers": "INSERT INTO transfers (reference, kind, debit_account_id, credit_account_id, credits, "
        "user_id, "
        "balance_after, description, created_at) "
        "VALUES ('r', 'grant', 1, 2, 1, 1, 1, 'd', '2026-01-01T00:00:00.000000Z')",
    }
    engine = _engine(database_url)
    with engine.begin() as connection:
        if table == "transfers":
            for statement in (
                (
                    "INSERT INTO organizations (id, name, slug, created_at) VALUES (1, 'o', 'o', "
                    "'2026-01-01T00:00:00.000000Z')"
                ),
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
