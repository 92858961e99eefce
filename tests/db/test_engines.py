"""On both databases the migrations create the schema of the code, and append-only tables can't be changed."""

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

import sublet.cli.main  # noqa: F401 - declares every table
from sublet.db import sqlite_engine
from sublet.db.connect import postgresql_engine
from sublet.errors import Unavailable
from sublet.migrations import upgrade
from sublet.schema import metadata
from sublet.schema_revision import needed_revision, refuse_unusable_database
from support.registry import Registry


def _engine(url: str) -> Engine:
    if url.startswith("sqlite:///"):
        return sqlite_engine(url)
    return postgresql_engine(url, poolclass=NullPool)


def test_init_twice_changes_nothing_and_creates_the_schema_of_the_code(database_url: str) -> None:
    with pytest.raises(Unavailable, match="never initialised"):
        refuse_unusable_database(database_url)
    assert upgrade(database_url) == (None, needed_revision())
    assert upgrade(database_url) == (needed_revision(), needed_revision())
    refuse_unusable_database(database_url)
    engine = _engine(database_url)
    with engine.connect() as connection:
        kinds = connection.execute(text("SELECT kind FROM ledger_accounts ORDER BY kind")).scalars().all()
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()
    assert kinds == ["adjustments", "grants", "revenue", "sales"]


@pytest.mark.parametrize("change", ["UPDATE {} SET id = id + 1", "DELETE FROM {}"])
@pytest.mark.parametrize("table", ["transfers", "audit_events", "terms"])
def test_append_only_tables_can_not_be_changed(registry: Registry, table: str, change: str) -> None:
    registry.register("blog.example.test")
    before = registry.dump()
    with pytest.raises(DBAPIError, match="append-only"):
        registry.write(lambda tx: tx.connection.execute(text(change.format(table))))
    assert registry.dump() == before
