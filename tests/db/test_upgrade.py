"""A registry of an older schema is upgraded with all its rows.

A registry of a development version is refused.
"""

import shutil
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import insert, inspect, select, text

from sublet.accounts.tokens.issue import issue_token
from sublet.db import Tx
from sublet.dns.types import GlueEntry
from sublet.migrations import migrations_config, upgrade
from sublet.registry.copy_store import NOT_COPIED
from sublet.schema import metadata
from sublet.schema_revision import (
    LAST_COMMIT_WITH_OLDER_MIGRATIONS,
    known_revisions,
    needed_revision,
    open_engine,
)
from sublet.subdomains.delete import delete
from support.commands import answer
from support.next_version import COLOURED, REVISION, newer_version
from support.registry import OPERATOR, Prepared, open_registry, prepare

DEVELOPMENT_REVISIONS = tuple(f"{number:04}" for number in range(1, 22))
"""The schemas of development versions, whose migrations were joined into one."""
UPGRADE_PAGE = Path(__file__).parents[2] / "docs" / "operating" / "upgrade.md"
Rows = dict[str, list[dict[str, object]]]


@pytest.mark.uncovered
@pytest.mark.whole_on_postgresql
def test_a_registry_is_upgraded_with_all_its_rows(
    database_url: str, sqlite_registry: Prepared, tmp_path: Path
) -> None:
    shutil.copy(sqlite_registry.url.removeprefix("sqlite:///"), tmp_path / "filled.db")
    with open_registry(f"sqlite:///{tmp_path}/filled.db", sqlite_registry) as filled:
        glue = (GlueEntry("ns1.blog.example.test", "8.8.8.8"),)
        filled.register("blog.example.test", nameservers=("ns1.blog.example.test",), glue=glue)
        filled.register("gone.example.test", "ben", nameservers=("ns1.provider.example",))
        filled.write(delete, filled.actor("ben"), "gone.example.test")
        filled.write(issue_token, OPERATOR, "ann@example.org", "old")
        filled.publish()
        rows = filled.read(_all_rows)
    assert len([name for name in COLOURED if rows[name]]) == len(COLOURED)
    _old_schema(database_url, rows, needed_revision())
    newer = newer_version(goes_on=True)
    assert newer.run(database_url, "migrate")["after"] == REVISION
    with open_registry(database_url, sqlite_registry) as registry:
        registry.now = filled.now
        after = registry.read(_all_rows)
        assert {name: after[name] for name in _copied()} == {name: rows[name] for name in _copied()}
        for name in COLOURED:
            assert registry.read(_list_colours, name) == ["blue"] * len(rows[name])
        assert registry.doctor() == []
        registry.register("later.example.test")
    assert len(newer.run(database_url, "user", "list")) == len(rows["users"])


def _list_colours(tx: Tx, table: str) -> list[str]:
    return list(tx.connection.execute(text(f"SELECT colour FROM {table}")).scalars())  # noqa: S608 - our own names


def _copied() -> list[str]:
    return [name for name in metadata.tables if name not in NOT_COPIED]


def _all_rows(tx: Tx) -> Rows:
    return {
        table.name: [
            dict(row) for row in tx.connection.execute(select(table).order_by(*table.primary_key)).mappings()
        ]
        for table in metadata.sorted_tables
    }


def _old_schema(url: str, rows: Rows, revision: str) -> None:
    """Create a database of a schema of this or an older version with these rows, without newer columns."""
    engine = open_engine(url)
    with engine.execution_options(sublet_begin="BEGIN IMMEDIATE").begin() as connection:
        config = migrations_config()
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        there = inspect(connection)
        for seeded in ("ledger_accounts", "clockwork", "signing_keys", "health_brake"):
            connection.execute(text(f"DELETE FROM {seeded}"))  # noqa: S608 - our own names
        for table in metadata.sorted_tables:
            if not there.has_table(table.name) or table.name in NOT_COPIED:
                continue
            known = {column["name"] for column in there.get_columns(table.name)}
            for row in rows[table.name]:
                values = {name: value for name, value in row.items() if name in known}
                connection.execute(insert(table).values(values).inline())
            if url.startswith("postgresql:") and "id" in known:
                sequence = f"pg_get_serial_sequence('{table.name}', 'id')"
                query = f"SELECT setval({sequence}, max(id)) FROM {table.name} HAVING max(id) > 0"  # noqa: S608 - our own names
                connection.execute(text(query))
    engine.dispose()


@pytest.mark.parametrize("verb", ["init", "migrate"])
def test_an_upgrade_names_users_whose_address_is_another_spelling(verb: str, database_url: str) -> None:
    """Development versions stored addresses as users wrote them, and the upgrade left spellings of another
    user's address.
    """
    ann = prepare(database_url).users["ann"]
    _run(database_url, "UPDATE users SET email = 'ann@example.org.' WHERE id = :id", id=ann)
    found = answer(database_url, verb)["other_spellings"]
    assert [each["object_id"] for each in found] == [ann]


def test_a_registry_of_a_development_version_is_refused(database_url: str, tmp_path: Path) -> None:
    upgrade(database_url)
    store = "UPDATE alembic_version SET version_num = :revision"
    for revision in (DEVELOPMENT_REVISIONS[0], DEVELOPMENT_REVISIONS[-1]):
        _run(database_url, store, revision=revision)
        for words in (("migrate",), ("serve",)):
            _assert_refused(database_url, revision, *words)
    missing = f"sqlite:///{tmp_path}/missing.db"
    for words in (
        ("migrate", "--check"),
        ("migrate", "--force"),
        ("init",),
        ("user", "list"),
        ("doctor",),
        ("copy", "--from", database_url, "--to", missing),
        *([("api",), ("worker",), ("dns",)] if database_url.startswith("postgresql:") else ()),
    ):
        _assert_refused(database_url, DEVELOPMENT_REVISIONS[-1], *words)
    _run(database_url, store, revision=needed_revision())
    assert upgrade(database_url) == (needed_revision(), needed_revision())


def _run(url: str, statement: str, **values: object) -> None:
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.execute(text(statement), values)
    engine.dispose()


def _assert_refused(url: str, revision: str, *words: str) -> None:
    message = answer(url, *words, expect=3)["message"]
    assert f"has the schema {revision}, " in message
    assert "A development version older than this one made the schema" in message
    assert f"`sublet migrate` of the commit {LAST_COMMIT_WITH_OLDER_MIGRATIONS} first" in message


def test_the_page_of_upgrades_names_the_commit_for_development_versions() -> None:
    page = UPGRADE_PAGE.read_text(encoding="utf-8")
    assert (
        f"git worktree add ../sublet-{LAST_COMMIT_WITH_OLDER_MIGRATIONS} {LAST_COMMIT_WITH_OLDER_MIGRATIONS}"
        in page
    )
    assert f"`{DEVELOPMENT_REVISIONS[0]}` to `{DEVELOPMENT_REVISIONS[-1]}`" in page
    assert f"`{known_revisions()[0]}`" in page
