"""A revoked token or suspended user is refused by every process from the next request on, also where its row
is remembered.
"""

from pathlib import Path

import httpx
import pytest

from long.faults.races import processes
from support.postgresql import fresh_database
from support.repetitions import share
from support.running_service import Registrant, RunningService, initialised_postgresql
from support.serve_process import serve_process

pytestmark = pytest.mark.slow


def outcome(
    service: RunningService, who: Registrant, method: str = "GET", path: str = "/me"
) -> tuple[int, str]:
    answer: httpx.Response = service.call(who, method, path)
    return answer.status_code, str(answer.json().get("error", ""))


def test_a_revocation_and_a_suspension_apply_at_every_process_at_once(
    postgresql_server: str, tmp_path: Path
) -> None:
    with (
        fresh_database(postgresql_server, like=initialised_postgresql()) as url,
        processes(url, tmp_path, 2) as serving,
    ):
        services = [each.service for each in serving]
        first, second = services
        for turn in range(share(2, whole=5)):
            ada = first.add_user(f"ada{turn}@example.org")
            listed = first.operator("token", "list", ada.email)
            # Each process knows the token and the user, on a connection that is kept.
            assert [outcome(each, ada) for each in services] == [(200, "")] * 2
            write = ("PUT", "/me/reminders")
            assert [outcome(each, ada, *write) for each in services] == [(422, "validation_failed")] * 2
            second.operator("user", "suspend", ada.email, "--reason", "test")
            assert [outcome(each, ada, *write) for each in services] == [(403, "account_suspended")] * 2
            assert [outcome(each, ada) for each in services] == [(200, "")] * 2
            first.operator("user", "unsuspend", ada.email)
            assert [outcome(each, ada, *write) for each in services] == [(422, "validation_failed")] * 2
            second.operator("token", "revoke", str(listed[0]["id"]))
            assert [outcome(each, ada) for each in services] == [(401, "token_revoked")] * 2


def test_what_another_process_revokes_on_sqlite_applies_at_once(tmp_path: Path) -> None:
    with serve_process(f"sqlite:///{tmp_path}/registry.db", tmp_path) as serving:
        service = serving.service
        ada = service.add_user("ada@example.org")
        listed = service.operator("token", "list", ada.email)
        serving.start()
        assert [outcome(service, ada) for _ in range(2)] == [(200, "")] * 2  # remembered from the first
        service.operator("user", "suspend", ada.email, "--reason", "test")  # in this process
        assert outcome(service, ada, "PUT", "/me/reminders") == (403, "account_suspended")
        service.operator("user", "unsuspend", ada.email)
        assert outcome(service, ada, "PUT", "/me/reminders") == (422, "validation_failed")
        service.operator("token", "revoke", str(listed[0]["id"]))
        assert outcome(service, ada) == (401, "token_revoked")
