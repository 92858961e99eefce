"""How long a request is worked on: what never ends is given up, and is done once all the same."""

import sqlite3
from pathlib import Path

import pytest

from sublet.http import calls
from support.running_service import registry_address, running_service
from support.waiting import wait_until


@pytest.mark.sqlite_only
def test_a_request_that_takes_too_long_is_refused_as_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another transaction holds the database's lock.

    The request is refused meanwhile, and with its key is done once in the end.
    """
    monkeypatch.setattr(calls, "ANSWER_SECONDS", 0.3)
    url = registry_address(tmp_path)
    ticket = {"subject": "held up", "message": "b"}
    with running_service(url, publish_wait_ms=0, signup="open") as service:
        ada = service.add_user()
        holder = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        try:
            holder.execute("BEGIN IMMEDIATE")
            refused = service.call(ada, "POST", "/support/tickets", ticket, idempotency_key="one")
            assert (refused.status_code, refused.json()["error"]) == (503, "unavailable")
            assert int(refused.headers["retry-after"]) >= 1
            assert "Check the result" in refused.json()["message"]
            unknown = service.post("/auth/signup", {"email": "eve@example.org", "name": "Eve"}).json()
            assert "Check the result" in unknown["message"], "the same without a token"
            assert service.call(ada, "GET", "/me").status_code == 200
        finally:
            holder.execute("ROLLBACK")
            holder.close()

        def done() -> bool:
            again = service.call(ada, "POST", "/support/tickets", ticket, idempotency_key="one")
            return again.status_code == 201

        wait_until(done)
        assert len(service.call(ada, "GET", "/support/tickets").json()["tickets"]) == 1
        assert service.doctor() == []
