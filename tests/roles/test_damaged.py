"""`sublet serve` on a damaged SQLite file, and on one that is deleted while it runs: writes are refused."""

import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from support import http_clients
from support.serve_process import serve_process
from support.service_on_primary import ZONE
from support.waiting import wait_until

FILES_CHANGED = 4
"""The exit code."""
pytestmark = [pytest.mark.slow, pytest.mark.sqlite_only]


def test_damage_is_found_in_the_background_and_the_operator_is_asked_to_restore_a_backup(
    tmp_path: Path,
) -> None:
    path = tmp_path / "registry.db"
    with serve_process(f"sqlite:///{path}", tmp_path) as serving:
        service = serving.service
        service.add_domain()
        who = service.add_user()
        _spoil(path, "coupon_uses")
        serving.start(wait=False)
        reasons: list[str] = []

        def is_named() -> bool:
            assert not serving.ended(), serving.log.read_text()
            try:
                answer = http_clients.get(service.origin + "/readyz")
            except httpx.TransportError:
                return False
            reasons.append(answer.json().get("reason", ""))
            return answer.status_code == 503 and "is damaged" in reasons[-1]

        wait_until(is_named)
        assert "restore a backup" in reasons[-1]
        refused = service.call(who, "POST", "/subdomains", {"fqdn": f"a.{ZONE}"})
        assert (refused.status_code, refused.json()["error"]) == (503, "unavailable")
        assert "restore a backup" in refused.json()["message"]
        assert service.call(who, "GET", "/subdomains").status_code == 200
        assert serving.stop() == 0


def test_the_service_ends_after_its_file_was_deleted(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    with serve_process(f"sqlite:///{path}", tmp_path) as serving:
        service = serving.service
        service.add_domain()
        who = service.add_user()
        serving.start()
        service.register(who, f"before.{ZONE}")
        path.unlink()
        refused = service.call(who, "POST", "/subdomains", {"fqdn": f"after.{ZONE}"})
        assert refused.status_code == 503, refused.text
        ready = http_clients.get(service.origin + "/readyz")
        assert (ready.status_code, "sublet restore" in ready.json()["reason"]) == (503, True)
        assert serving.wait() == FILES_CHANGED


def _spoil(path: Path, table: str) -> None:
    """Write zeros over the root page of an index of a table; no connection may be open."""
    with closing(sqlite3.connect(path)) as connection:
        page, size = connection.execute(
            "SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_master WHERE type = "
            "'index' AND tbl_name = ?",
            (table,),
        ).fetchone()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(bytes(size))
