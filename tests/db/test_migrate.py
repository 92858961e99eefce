"""`sublet migrate` of a fictitious next version, on registries that this version serves."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import delete, insert, text

from sublet.db import Tx, open_database, utc_now
from sublet.errors import Unavailable
from sublet.migrations import take_advisory_lock, upgrade
from sublet.processes.processes import list_running
from sublet.processes.store import processes
from sublet.schema_revision import needed_revision, open_engine
from sublet.service.announced import announced
from support.commands import answer
from support.next_version import REVISION, newer_version
from support.postgresql import fresh_database
from support.repetitions import share
from support.serve_process import serve_process
from support.service_on_primary import ZONE
from support.waiting import wait_until
from support.write_load import Load

MEANWHILE = share(20, whole=60)
"""Requests that must succeed after the schema was changed under the running service."""


@pytest.fixture
def postgresql_url(postgresql_server: str) -> Iterator[str]:
    with fresh_database(postgresql_server) as url:
        yield url


def add_process(url: str, *, revision: str, seconds_ago: int = 0) -> None:
    """Register a running process, or with `seconds_ago` one that is gone. Replace its earlier row."""
    now = utc_now()
    engine = open_engine(url)
    seen = now.replace(year=now.year - 1) if seconds_ago else now
    values = {
        "id": f"p-{revision}-{seconds_ago}",
        "role": "worker",
        "host": "host-b",
        "pid": 4711,
        "version": "0.0.9",
        "revision": revision,
        "started_at": seen,
        "seen_at": seen,
    }
    with engine.begin() as connection:
        connection.execute(delete(processes).where(processes.c.id == values["id"]))
        connection.execute(insert(processes).values(values))
    engine.dispose()


@pytest.mark.slow
def test_a_running_service_works_while_a_migration_adds_to_the_schema(
    postgresql_url: str, tmp_path: Path
) -> None:
    newer = newer_version(goes_on=True)
    with serve_process(postgresql_url, tmp_path, free_quota=100_000) as serving:
        service = serving.service
        service.add_domain(ZONE)
        load = Load(service, service.add_user(free_quota="100000"))
        serving.start()
        with load.running():
            wait_until(lambda: load.requests > MEANWHILE)
            told = newer.run(postgresql_url, "migrate", "--check")
            assert told["pending"] == [REVISION]
            assert newer.run(postgresql_url, "migrate")["after"] == REVISION
            since = load.requests
            wait_until(lambda: load.requests > since + MEANWHILE)
            assert newer.run(postgresql_url, "migrate")["before"] == REVISION
        assert load.doubtful == {}, "an answer was lost"
        load.check_stored()
        assert serving.stop() == 0
        # A restart of the older version, and its commands.
        serving.start()
        service.register(load.who, f"later.{ZONE}", nameservers=["ns1.provider.example"])
        assert service.operator("doctor")["healthy"]
        assert service.operator("init")["after"] == REVISION
        assert service.operator("migrate", "--check")["pending"] == []
        assert serving.stop() == 0


@pytest.mark.whole_on_postgresql
def test_a_migration_incompatible_with_running_code_is_refused(database_url: str, tmp_path: Path) -> None:
    newer = newer_version(goes_on=False)
    upgrade(database_url)
    own = needed_revision()
    add_process(database_url, revision="0001", seconds_ago=1)

    def refused_beside_it(*words: str) -> Any:
        add_process(database_url, revision=own)  # A process without a heartbeat for 35 s counts as gone.
        return newer.run(database_url, *words, expect=1)

    told = refused_beside_it("migrate", "--check")
    assert (told["before"], told["after"], told["pending"]) == (own, REVISION, [REVISION])
    assert [each["host"] for each in told["in_the_way"]] == ["host-b"]
    refused = refused_beside_it("migrate")
    assert f"worker on host-b (process 4711, sublet 0.0.9, schema {own})" in refused["message"]
    assert refused_beside_it("init")["message"] == refused["message"]
    assert answer(database_url, "migrate", "--check")["pending"] == []  # nothing was changed
    assert newer.run(database_url, "migrate", "--force")["after"] == REVISION
    all_words = (("user", "list"), ("serve",), ("init",), ("migrate",), ("migrate", "--check"))
    for words in share(all_words[::2], whole=all_words):
        refused = answer(database_url, *words, expect=3)
        assert f"has the schema {REVISION}" in refused["message"], words
        assert "Use that version" in refused["message"], words
    assert newer.run(database_url, "doctor")["healthy"]


def test_a_process_that_starts_during_an_upgrade_waits_and_is_refused(postgresql_url: str) -> None:
    upgrade(postgresql_url)
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'"

    async def begin() -> None:
        db = open_database(postgresql_url, may_lose_writes=True)
        try:
            async with announced(db, "worker"):
                raise AssertionError("it works with a schema that it doesn't know")
        finally:
            await db.close()

    async def story() -> None:
        with open_engine(postgresql_url).begin() as connection:
            take_advisory_lock(connection)
            assert list_running(Tx(connection, utc_now())) == []
            beginning = asyncio.create_task(begin())

            def waits() -> bool:
                with psycopg.connect(postgresql_url) as other:
                    return other.execute(waiting).fetchone() == (1,)

            await asyncio.to_thread(wait_until, waits)
            connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        with pytest.raises(Unavailable, match="9999"):
            await beginning

    asyncio.run(story())
    with psycopg.connect(postgresql_url) as connection:
        assert connection.execute("SELECT count(*) FROM processes").fetchone() == (0,)


@pytest.mark.whole_on_postgresql
def test_an_older_schema_is_refused_until_it_is_migrated(database_url: str, tmp_path: Path) -> None:
    assert "sublet init" in answer(database_url, "migrate", expect=3)["message"]
    upgrade(database_url)
    newer = newer_version(goes_on=True)
    for words in (("user", "list"), ("serve",)):
        assert "sublet migrate" in newer.run(database_url, *words, expect=3)["message"]
    newer.run(database_url, "migrate")
    assert newer.run(database_url, "user", "list") == []
    assert answer(database_url, "user", "list") == []


def test_an_sqlite_registry_is_migrated_only_while_not_served(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/registry.db"
    newer = newer_version(goes_on=True)
    with serve_process(url, tmp_path) as serving:
        serving.start()
        refused = newer.run(url, "migrate", expect=3)
        assert "sublet serve" in refused["message"]
        assert serving.stop() == 0
        assert newer.run(url, "migrate")["after"] == REVISION
        serving.start()
        assert newer.run(url, "init")["before"] == REVISION  # nothing to do: not refused
        told = answer(url, "backup", tmp_path / "backup.db")
        assert (told["schema"], told["violations"]) == (REVISION, [])
        assert serving.stop() == 0


@pytest.mark.slow
@pytest.mark.whole
def test_a_migration_blocks_requests_only_briefly(postgresql_url: str, tmp_path: Path) -> None:
    upgrade(postgresql_url)
    newer = newer_version(goes_on=True)
    with (
        psycopg.connect(postgresql_url) as reading,
        psycopg.connect(postgresql_url, autocommit=True) as other,
    ):
        other.execute("SET statement_timeout = '60s'")
        reading.execute("SELECT 1 FROM users")  # its transaction stays open
        migrating = newer.start(postgresql_url, "migrate")
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"

        def waits() -> bool:
            row = other.execute(waiting).fetchone()
            return row is not None and row[0] > 0

        for _ in range(2):  # it timed out once and waits again
            wait_until(waits)
            other.execute(
                "SELECT 1 FROM users"
            )  # queued behind the migration, and answered before its timeout
            wait_until(lambda: not waits())
        reading.commit()
        answer, errors = migrating.communicate(timeout=300)
    assert migrating.returncode == 0, (answer, errors)
    assert json.loads(answer)["after"] == REVISION
