"""`/readyz` while the disk of the database is full."""

import pytest

from sublet.db import sqlite
from support.running_service import RunningService


@pytest.mark.sqlite_only
def test_a_service_on_a_full_disk_is_not_ready(
    service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = service.base_url.removesuffix("/api/v1") + "/readyz"
    assert service.client.get(address).status_code == 200
    monkeypatch.setattr(sqlite, "FREE_BYTES_MIN", 2**62)
    answer = service.client.get(address)
    assert (answer.status_code, answer.json()["checks"]["database"]) == (503, False)
    assert "disk of the database is full" in answer.json()["reason"]
    monkeypatch.undo()
    assert service.client.get(address).status_code == 200
