"""GET /me/export: it comes in parts, complete, and doesn't hold up the event loop; a part that fails is
counted and logged.
"""

import asyncio
import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import structlog
from sqlalchemy import text
from starlette.datastructures import Headers
from structlog.testing import capture_logs

from sublet.accounts.api import export
from sublet.accounts.find import find_member
from sublet.accounts.model import Registrant
from sublet.accounts.tokens.issue import issue_token
from sublet.config import Settings
from sublet.db import Database, Tx
from sublet.metrics import Metrics
from sublet.operations.call import Call, Context
from sublet.operations.client import Client
from sublet.operations.publication_wait import PublicationWaiter
from sublet.operations.rate_limiter import RateLimiter
from sublet.secret import Secret
from sublet.sign_in.model import Site
from sublet.subdomains.store import subdomains
from support.registry import OPERATOR, Registry
from support.repetitions import share
from support.running_service import RunningService, registry_address, running_service
from support.turns import TURN_MAX_SECONDS, Turns
from support.waiting import wait_until

NAMES = share(600, whole=10_000)
PART_BYTES_MAX = 2**20
_NUMBERS = (
    "WITH RECURSIVE numbers(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < "
    ":names) "
)


def add_names(tx: Tx) -> None:
    """Copy the only name until there are `NAMES`, each with its event."""
    columns = ", ".join(each.name for each in subdomains.columns if each.name not in ("id", "label", "fqdn"))
    copied = f"SELECT {columns}, 'n' || number, 'n' || number || '.example.test' FROM subdomains, numbers"  # noqa: S608 - ours
    into = f"INSERT INTO subdomains ({columns}, label, fqdn) "
    on_postgresql = tx.connection.dialect.name == "postgresql"
    statement = _NUMBERS + into + copied if on_postgresql else into + _NUMBERS + copied
    tx.connection.execute(text(statement), {"names": NAMES - 1})
    tx.connection.execute(
        text(
            "INSERT INTO audit_events (at, actor_kind, user_id, action, object_type, object_id, after) "
            "SELECT created_at, 'user', user_id, 'subdomain.register', 'subdomain', id, '{}' FROM subdomains"
        )
    )


async def not_asked(_db: Database, _token: Secret) -> Registrant:
    raise AssertionError("not asked here")


async def read_export(call: Call[None, None]) -> tuple[list[bytes], float]:
    """Return the parts, and the longest turn of the event loop."""
    turns = Turns()
    watching = asyncio.create_task(turns.watch())
    answer = await export(call)
    assert answer.parts is not None
    parts = [part async for part in answer.parts]
    await asyncio.sleep(0.02)  # the watcher notes a turn when it wakes up
    watching.cancel()
    return parts, turns.longest_seconds


def test_an_export_of_many_names_is_sent_in_parts(registry: Registry) -> None:
    registry.register("first.example.test", nameservers=("ns1.example.org",))
    registry.write(add_names)
    token = registry.write(issue_token, OPERATOR, "ann@example.org", "laptop").token
    member = registry.read(find_member, registry.users["ann"])
    settings = Settings()
    call: Call[None, None] = Call(
        context=Context(
            settings, registry.db, not_asked, RateLimiter(settings), Metrics(), PublicationWaiter(registry.db)
        ),
        request_id="r",
        registrant=Registrant(member.user, member.organization, token),
        path={},
        body=None,
        query=None,
        idempotency_key=None,
        fingerprint="",
        status=200,
        request_path="/me/export",
        query_string="",
        client=Client("", "", "", Site("", ""), Headers()),
    )
    gc.collect()  # which would count as a turn
    parts, longest = registry.run(read_export(call))
    assert longest <= TURN_MAX_SECONDS
    assert max(map(len, parts)) < PART_BYTES_MAX
    found: dict[str, Any] = msgspec.json.decode(b"".join(parts))
    assert len({each["fqdn"] for each in found["subdomains"]}) == len(found["subdomains"]) == NAMES
    assert len({each["id"] for each in found["activity"]}) == len(found["activity"]) > NAMES


@pytest.fixture
def logging_service(tmp_path: Path) -> Iterator[RunningService]:
    with running_service(registry_address(tmp_path), log_level="info", log_format="json") as running:
        yield running
        assert running.doctor() == []


def test_an_export_that_fails_in_the_middle_is_counted_and_logged(
    logging_service: RunningService, capsys: pytest.CaptureFixture[str]
) -> None:
    service = logging_service
    ada = service.add_user()
    rename = "ALTER TABLE name_transfers RENAME COLUMN {} TO {}"
    service.write(lambda tx: tx.connection.execute(text(rename.format("expires_at", "another"))))
    failed = 'sublet_http_requests_total{endpoint="export",status="500"}'
    structlog.reset_defaults()  # the operator's commands turn the logs off
    with capture_logs() as logged:
        with pytest.raises(httpx.RemoteProtocolError):  # the client sees that the answer is incomplete
            service.call(ada, "GET", "/me/export")
        wait_until(lambda: service.metrics().get(failed) == 1)
    service.write(lambda tx: tx.connection.execute(text(rename.format("another", "expires_at"))))
    assert [each["log_level"] for each in logged if each["event"] == "fault"] == ["error"]
    written = capsys.readouterr().err.splitlines()
    lines = [json.loads(each) for each in written if '"endpoint": "export"' in each]
    assert [(each["error"], each["status"], each["user_id"]) for each in lines] == [
        ("internal_error", 500, ada.id)
    ]
    assert service.call(ada, "GET", "/me/export").json()["account"]["email"] == ada.email
