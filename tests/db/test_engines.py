"""On both databases the migrations create the schema of the code, and append-only tables can't be changed."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

import sublet.cli.main  # noqa: F401 - declares every table
from sublet.db import open_database, utc_now
from sublet.errors import Unavailable
from sublet.migrations import upgrade
from sublet.schema import metadata
from sublet.schema_revision import (
    find_revision,
    needed_revision,
    open_engine,
    reading,
    refuse_unusable_database,
)
from sublet.sqlite_file import open_unused
from support.postgresql import fresh_database
from support.registry import Registry


def test_init_twice_changes_nothing_and_creates_the_schema_of_the_code(database_url: str) -> None:
    missing = "There is no registry at sqlite" if database_url.startswith("sqlite") else "never initialised"
    with pytest.raises(Unavailable, match=missing):
        refuse_unusable_database(database_url)
    assert upgrade(database_url) == (None, needed_revision())
    assert upgrade(database_url) == (needed_revision(), needed_revision())
    refuse_unusable_database(database_url)
    engine = open_engine(database_url)
    with engine.connect() as connection:
        kinds = connection.execute(text("SELECT kind FROM ledger_accounts ORDER BY kind")).scalars().all()
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()
    assert kinds == ["adjustments", "grants", "revenue", "sales"]


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_without_unicode_is_refused(postgresql_server: str, encoding: str) -> None:
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE latin ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    url = f"{postgresql_server.rpartition('/')[0]}/latin"
    try:
        for refuse in (upgrade, refuse_unusable_database):
            with pytest.raises(Unavailable, match=f"encoding {encoding}"):
                refuse(url)
    finally:
        with psycopg.connect(postgresql_server, autocommit=True) as connection:
            connection.execute("DROP DATABASE latin")


def test_a_role_without_privileges_is_a_refusal_with_the_cause(postgresql_server: str) -> None:
    with fresh_database(postgresql_server) as url:
        upgrade(url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE ROLE poor LOGIN")
        try:
            database = open_database(url.replace("sublet@", "poor@"), may_lose_writes=True)
            with pytest.raises(Unavailable) as refused:
                asyncio.run(database.read(find_revision))
            asyncio.run(database.close())
        finally:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("DROP ROLE poor")
    (note,) = refused.value.__notes__
    assert note.startswith(
        "The cause: permission denied for table alembic_version. Give `database_url` a role"
    )


def test_an_upgrade_of_a_read_only_server_says_what_to_do(postgresql_server: str) -> None:
    with fresh_database(postgresql_server) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            name = url.rpartition("/")[2]
            connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        with pytest.raises(Unavailable, match="connect to the server that is"):
            upgrade(url)


@pytest.mark.sqlite_only
def test_a_full_disk_is_a_refusal_that_says_what_to_do(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/full.db"
    upgrade(url)
    with pytest.raises(Unavailable, match=r"disk is full.*Free space"), reading(url) as connection:
        connection.execute(text("PRAGMA max_page_count = 1"))
        for number in range(100):
            connection.execute(text(f"CREATE TABLE filler_{number} (id INTEGER)"))
    # A copy that `sublet backup` or `sublet restore` checks.
    with (
        pytest.raises(Unavailable, match=r"disk is full.*Free space"),
        open_unused(tmp_path / "full.db", utc_now()) as tx,
    ):
        tx.connection.execute(text("PRAGMA max_page_count = 1"))
        tx.connection.execute(text("CREATE TABLE filler (id INTEGER)"))
    limited = ["prlimit", "--fsize=100000", sys.executable, "-m", "sublet.cli.main", "init"]
    new = {**os.environ, "SUBLET_DATABASE_URL": f"sqlite:///{tmp_path}/new.db"}
    done = subprocess.run(limited, env=new, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "disk I/O error. Look at the disk" in done.stderr


@pytest.mark.sqlite_only
def test_the_path_of_an_address_is_the_name_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a%20b?mode=ro#c.db"
    upgrade(f"sqlite:///{path}")
    refuse_unusable_database(f"sqlite:///{path}")
    assert {each for each in tmp_path.iterdir() if each.suffix == ".db"} == {path}
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("change", ["UPDATE {} SET id = id + 1", "DELETE FROM {}"])
@pytest.mark.parametrize("table", ["transfers", "audit_events", "terms"])
def test_append_only_tables_can_not_be_changed(registry: Registry, table: str, change: str) -> None:
    registry.register("blog.example.test")
    before = registry.dump()
    with pytest.raises(DBAPIError, match="append-only"):
        registry.write(lambda tx: tx.connection.execute(text(change.format(table))))
    assert registry.dump() == before
