"""`/readyz` while the database can be read but not written."""

from collections.abc import Iterator

import psycopg
import pytest

from sublet.db import sqlite
from support.postgresql import fresh_database
from support.running_service import RunningService, running_service
from support.waiting import wait_until


def _ready(service: RunningService) -> tuple[int, bool, str]:
    answer = service.client.get(service.origin + "/readyz")
    told = answer.json()
    return answer.status_code, told["checks"]["database"], told.get("reason", "")


@pytest.mark.sqlite_only
def test_a_service_on_a_full_disk_is_not_ready(
    service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tests/long/faults/disk.py fills a real disk, and lets one fail."""
    assert _ready(service) == (200, True, "")
    monkeypatch.setattr(sqlite, "FREE_BYTES_MIN", 2**62)
    assert _ready(service) == (503, False, "The disk of the database is full. Free space on it.")
    monkeypatch.undo()
    assert _ready(service) == (200, True, "")


@pytest.fixture
def on_postgresql(postgresql_server: str) -> Iterator[RunningService]:
    with fresh_database(postgresql_server) as url, running_service(url) as running:
        yield running


def test_a_service_on_a_read_only_postgresql_is_not_ready(
    on_postgresql: RunningService, postgresql_server: str
) -> None:
    """As after a failover, in which the address leads to a server that is a standby."""
    name = on_postgresql.settings.database_url.rpartition("/")[2]

    def set_read_only(value: str) -> None:
        with psycopg.connect(postgresql_server, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = {value}")
            connection.execute(
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = %s", (name,)
            )

    ada = on_postgresql.add_user()
    assert _ready(on_postgresql) == (200, True, "")
    set_read_only("on")
    answer = on_postgresql.call(ada, "POST", "/support/tickets", {"subject": "Hi", "message": "Hello."})
    assert answer.status_code == 503
    reason = "The database is read-only. Make it writable, or connect to the server that is."
    assert on_postgresql.call(ada, "GET", "/subdomains").status_code == 200
    assert _ready(on_postgresql) == (503, False, reason)
    set_read_only("off")
    wait_until(lambda: _ready(on_postgresql) == (200, True, ""))
