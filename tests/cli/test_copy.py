"""`sublet copy` between real databases: all of a registry or nothing, checked, and again."""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from grown_registry import grow
from psycopg import sql
from sqlalchemy import MetaData, inspect, select, text
from sqlalchemy.exc import DBAPIError

from sublet.audit import Actor
from sublet.db import Tx, open_database
from sublet.migrations import upgrade
from sublet.platform_domains.platform_domain import add_platform_domain
from sublet.primaries.publisher_transactions import begin_publication
from sublet.registry import copy_store
from sublet.registry.copy_store import NOT_COPIED, TableDigest, copy_tables, list_copied
from sublet.schema import APPEND_ONLY, metadata
from sublet.schema_revision import needed_revision, open_engine
from sublet.subdomains.model import Register
from sublet.subdomains.register import register
from sublet.subdomains.store import list_unreleased_names
from support.commands import answer, run
from support.postgresql import fresh_database
from support.repetitions import share
from support.running_service import running_service
from support.serve_process import serve_process

NAMES, WAITING = 60, 3
KILLED = Path(__file__).parents[1] / "long" / "faults" / "killed_copy.py"
Dump = dict[str, list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("grown") / "grown.db"
    url = f"sqlite:///{path}"
    grow(url, NAMES)
    asyncio.run(_begin_publications(url))
    return path


async def _begin_publications(url: str) -> None:
    """Write ahead a few names of a zone on a primary, which has not been changed."""
    database = open_database(url)

    def write(tx: Tx) -> None:
        operator = Actor(kind="operator", name="olga")
        added = add_platform_domain(
            tx, operator, "primary.test", {"primary": "main"}, names_held=list_unreleased_names
        )
        for number in range(WAITING):
            command = Register(fqdn=f"n{number}.primary.test", nameservers=("ns.provider.example",))
            register(tx, Actor(kind="user", user_id=1), command, free_quota=1000)
        assert begin_publication(tx, added.platform_domain.id) is not None

    try:
        await database.write(write)
    finally:
        await database.close()


@pytest.fixture
def source(grown: Path, tmp_path: Path) -> str:
    shutil.copy(grown, tmp_path / "source.db")
    return f"sqlite:///{tmp_path}/source.db"


def copy(source: str, target: str, *words: str, expect: int = 0) -> Any:
    return answer(source, "copy", "--from", source, "--to", target, *words, expect=expect)


@contextmanager
def connected(url: str) -> Iterator[Any]:
    engine = open_engine(url)
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def dump(url: str) -> Dump:
    """All that a database has, by its own tables; nothing where there is none."""
    if url.startswith("sqlite:") and not Path(url.removeprefix("sqlite:///")).exists():
        return {}
    with connected(url) as connection:
        found = MetaData()
        found.reflect(connection)
        return {
            name: sorted((tuple(row) for row in connection.execute(select(table))), key=repr)
            for name, table in found.tables.items()
        }


def registry_of(url: str) -> Dump:
    """The rows of a registry, read apart from the copy's own code."""
    with connected(url) as connection:
        return {
            table.name: sorted((tuple(row) for row in connection.execute(select(table))), key=repr)
            for table in metadata.sorted_tables
            if table.name not in NOT_COPIED
        }


def test_every_table_is_either_copied_or_excluded_by_name(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/registry.db"
    upgrade(url)
    with connected(url) as connection:
        there = set(inspect(connection).get_table_names())
    assert {*(table.name for table in list_copied()), *NOT_COPIED, "alembic_version"} == there


@pytest.mark.uncovered
def test_a_copied_registry_is_complete_and_usable(source: str, database_url: str, tmp_path: Path) -> None:
    told = copy(source, database_url)
    counted = {each["table"]: each["rows"] for each in told["tables"]}
    assert counted["subdomains"] == NAMES + WAITING
    assert counted["published_owners"] == WAITING
    assert all(
        counted[name] > 0
        for name in ("transfers", "messages", "mails", "milestones", "zone_records", "labels")
    ), counted
    assert told["violations"] == []
    assert registry_of(database_url) == registry_of(source)
    again = copy(source, database_url)
    assert again["already"]
    assert again["tables"] == told["tables"]
    with connected(database_url) as connection:
        for table in APPEND_ONLY:
            with pytest.raises(DBAPIError, match="append-only"), connection.begin_nested():
                connection.execute(text(f"DELETE FROM {table}"))  # noqa: S608 - our own names
    back = f"sqlite:///{tmp_path}/back.db"
    copy(database_url, back)
    assert registry_of(back) == registry_of(source)
    with running_service(database_url, free_quota=1000) as service:  # the numbers go on
        member = service.add_user("new@example.org")
        shown = service.register(member, "anew.example.test", nameservers=["ns1.provider.example"])
        assert shown["subdomain"]["id"] == NAMES + WAITING + 1
        assert service.doctor() == []
    assert copy(source, database_url, expect=1)["message"].startswith("The target has another registry")


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("initialised", [False, True])
@pytest.mark.parametrize("kill_after", ["organizations", "terms", "commit"])
def test_a_killed_copy_leaves_the_target_unchanged(
    source: str, database_url: str, kill_after: str, initialised: bool
) -> None:
    if initialised:
        upgrade(database_url)
    before, ours = dump(database_url), dump(source)
    done = subprocess.run(
        [sys.executable, str(KILLED), "copy", "--from", source, "--to", database_url],
        env={**os.environ, "KILL_AFTER": kill_after},
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done
    assert dump(database_url) == before
    assert dump(source) == ours
    assert not copy(source, database_url)["already"]
    assert registry_of(database_url) == registry_of(source)


def test_copy_refuses_wrong_sources_and_targets_and_changes_nothing(source: str, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path}/other.db"
    upgrade(other)
    run(other, "user", "add", "a@example.org", "--name", "A")
    before = dump(other)
    told = copy(source, other, expect=1)["message"]
    assert "another registry" in told
    assert "Give an empty database" in told
    assert dump(other) == before
    assert "same registry" in copy(source, source, expect=1)["message"]
    missing = f"sqlite:///{tmp_path}/missing.db"
    assert "no registry" in copy(missing, other, expect=3)["message"]
    assert not (tmp_path / "missing.db").exists()
    assert "folder" in copy(source, f"sqlite:///{tmp_path}/no/such.db", expect=3)["message"]
    told = answer(other, "copy", "--from", "", "--to", other, expect=2)["message"]
    assert told.startswith("--from: Give sqlite:")
    assert copy(source, "mysql://x", expect=2)["message"].startswith("--to: Give sqlite:")
    away = "postgresql://sublet:secret@127.0.0.1:1/registry"
    for words in ((source, away), (away, missing)):
        told = copy(*words, expect=3)["message"]
        assert "Nothing was copied" in told
        assert "secret" not in told
    assert not (tmp_path / "missing.db").exists()
    with closing(sqlite3.connect(tmp_path / "odd.db")) as connection:
        connection.execute("CREATE TABLE alembic_version (other)")
    odd = f"sqlite:///{tmp_path}/odd.db"
    for words, action in (((odd, missing), "Reading the source"), ((source, odd), "Writing the target")):
        assert copy(*words, expect=3)["message"].startswith(f"{action}: no such column: version_num. ")
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num)")
        connection.execute("INSERT INTO alembic_version VALUES ('0001')")
        connection.commit()
    old = f"sqlite:///{tmp_path}/old.db"
    for words, side in (((old, missing), "source"), ((source, old), "target")):
        told = copy(*words, expect=3)["message"]
        assert f"The {side} has the schema 0001, " in told
        assert "A development version" in told


@pytest.mark.whole_on_postgresql
def test_force_copies_a_registry_that_breaks_an_invariant(source: str, database_url: str) -> None:
    with closing(sqlite3.connect(source.removeprefix("sqlite:///"))) as connection:
        connection.execute("UPDATE ledger_accounts SET balance = balance + 1 WHERE user_id = 1")
        connection.commit()
    before = dump(database_url)
    assert "ledger" in copy(source, database_url, expect=1)["message"]
    assert dump(database_url) == before
    assert copy(source, database_url, "--force", expect=1)["violations"]
    assert registry_of(database_url) == registry_of(source)


@pytest.mark.slow
def test_a_served_registry_is_not_copied(source: str, tmp_path: Path, postgresql_server: str) -> None:
    with fresh_database(postgresql_server) as url:
        with serve_process(source, tmp_path) as serving:
            serving.start()
            assert "sublet serve" in copy(source, url, expect=3)["message"]
            assert serving.stop() == 0
        upgrade(url)
        seen = "id, role, host, pid, version, revision, started_at, seen_at"
        with psycopg.connect(url) as connection:
            connection.execute(
                f"INSERT INTO processes ({seen}) "  # noqa: S608 - our own words
                f"VALUES ('p', 'api', 'host-b', 7, '1', '{needed_revision()}', now(), "
                "now() + interval '30 s')"  # so that it runs for longer without a heartbeat
            )
        assert "api on host-b" in copy(source, url, expect=1)["message"]
        assert "api on host-b" in copy(url, f"sqlite:///{tmp_path}/new.db", expect=1)["message"]


@pytest.mark.whole_on_postgresql
@pytest.mark.parametrize("tool", share(["sublet"], whole=["sublet", "sqlite"]))
def test_a_backup_of_a_served_registry_is_copied_and_served(
    source: str, database_url: str, tmp_path: Path, tool: str
) -> None:
    file = tmp_path / "backup.db"
    with running_service(source, free_quota=1000) as service:
        if tool == "sublet":
            service.operator("backup", str(file))
        else:
            with (
                closing(sqlite3.connect(source.removeprefix("sqlite:///"))) as reading,
                closing(sqlite3.connect(file)) as writing,
            ):
                reading.backup(writing)
        with connected(source) as connection:
            assert connection.execute(text("SELECT count(*) FROM processes")).scalar_one() == 1
        backup = f"sqlite:///{file}"
        assert copy(backup, database_url)["violations"] == []
        assert copy(backup, database_url)["already"]
        restored = f"sqlite:///{tmp_path}/restored.db"
        run(restored, "restore", file)
        with connected(restored) as connection:
            assert connection.execute(text("SELECT count(*) FROM processes")).scalar_one() == 0
    with running_service(database_url, free_quota=1000) as service:
        member = service.add_user("new@example.org")
        service.register(member, "anew.example.test", nameservers=["ns1.provider.example"])
        assert service.doctor() == []


@pytest.mark.slow
def test_a_value_that_postgresql_can_not_store_is_refused(
    source: str, tmp_path: Path, postgresql_server: str
) -> None:
    with closing(sqlite3.connect(source.removeprefix("sqlite:///"))) as connection:
        connection.execute("UPDATE users SET name = 'a' || char(0) || 'b' WHERE id = 1")
        connection.commit()
    with fresh_database(postgresql_server) as url:
        told = copy(source, url, expect=1)["message"]
        assert "users" in told
        assert "Nothing was copied" in told
        assert dump(url) == {}


@pytest.mark.slow
def test_the_timeouts_of_a_database_do_not_end_a_long_copy(
    source: str, postgresql_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copy_slowly(reading: Tx, writing: Tx) -> list[TableDigest]:
        time.sleep(2)
        return copy_tables(reading, writing)

    monkeypatch.setattr(copy_store, "copy_tables", copy_slowly)
    with fresh_database(postgresql_server) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            name = sql.Identifier(connection.info.dbname)
            for setting in ("idle_in_transaction_session_timeout", "statement_timeout"):
                connection.execute(sql.SQL("ALTER DATABASE {} SET {} = 1500").format(name, sql.SQL(setting)))
        assert copy(source, url)["tables"]


@pytest.mark.slow
@pytest.mark.whole
def test_a_full_disk_is_reported(source: str, tmp_path: Path) -> None:
    target = f"sqlite:///{tmp_path}/target.db"
    words = [sys.executable, "-m", "sublet.cli.main", "copy", "--from", source, "--to", target]
    done = subprocess.run(  # a limit of the size of files stands in for a full disk: SQLite is told the same
        ["bash", "-c", 'trap "" XFSZ; ulimit -f 600; exec "$@"', "-", *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 3, done
    assert "Nothing was copied" in done.stderr
    assert not (tmp_path / "target.db").exists()


@pytest.mark.uncovered
def test_ids_of_deleted_rows_are_not_reused_after_a_copy(source: str, database_url: str) -> None:
    with closing(sqlite3.connect(source.removeprefix("sqlite:///"))) as connection:
        connection.execute("UPDATE sqlite_sequence SET seq = 5000 WHERE name = 'users'")
        connection.commit()
    copy(source, database_url)
    assert answer(database_url, "user", "add", "new@example.org", "--name", "New")["id"] == 5001
