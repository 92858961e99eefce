"""A database that went back to before a change, while its request waited for the DNS: not acknowledged, and
not a fault.
"""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from support.publisher_outage import Outage, service_with_outage
from support.running_service import registry_address
from support.waiting import wait_until

NAME = "lost.example.test"
BODY = {"fqdn": NAME, "registration_mode": "free", "nameservers": ["ns1.provider.example"]}


@pytest.fixture
def outage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outage]:
    # While the request waits, also a busy machine must have the time to take its change away.
    with service_with_outage(registry_address(tmp_path), monkeypatch, publish_wait_ms=10_000) as running:
        yield running


@pytest.mark.sqlite_only
def test_a_change_lost_before_its_answer_is_not_acknowledged(outage: Outage) -> None:
    """As when a standby takes over that the primary didn't wait for: what the one had committed the other
    never had.
    """
    service = outage.service
    ada = service.add_user()
    path = service.settings.database_url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, isolation_level=None)) as database, outage.held():
        before = _last_rows(database)
        with ThreadPoolExecutor(1) as threads:
            waits = threads.submit(service.call, ada, "POST", "/subdomains", BODY, idempotency_key="one")
            wait_until(lambda: database.execute("SELECT 1 FROM subdomains").fetchone() is not None)
            _forget_rows_after(database, before)
            refused = waits.result(60)
    assert (refused.status_code, refused.json()["error"]) == (503, "unavailable"), refused.text
    assert refused.headers["retry-after"] == "1"
    assert "Make it again" in refused.json()["message"]
    again = service.call(ada, "POST", "/subdomains", BODY, idempotency_key="one")
    assert (again.status_code, again.json()["subdomain"]["fqdn"]) == (201, NAME), again.text
    assert "idempotent-replayed" not in again.headers


def _last_rows(database: sqlite3.Connection) -> dict[str, int]:
    """Return the number of the last row of each table that has numbered ones."""
    tables = database.execute(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND NOT wr AND name "
        "NOT LIKE 'sqlite_%'"
    ).fetchall()
    count = "SELECT coalesce(max(rowid), 0) FROM {}"
    return {name: database.execute(count.format(name)).fetchone()[0] for (name,) in tables}


def _forget_rows_after(database: sqlite3.Connection, last_rows: dict[str, int]) -> None:
    """Remove what was added since, past the guards of the tables: an SQLite connection looks at no foreign
    keys by itself.
    """
    database.execute("BEGIN IMMEDIATE")
    triggers = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        database.execute(f"DROP TRIGGER {name}")
    for table, last in last_rows.items():
        database.execute(f"DELETE FROM {table} WHERE rowid > ?", [last])  # noqa: S608 - names of our own tables
    for _, statement in triggers:
        database.execute(statement)
    database.execute("COMMIT")
