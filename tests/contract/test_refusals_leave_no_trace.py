"""A refusal leaves no trace: the whole database, the zones in it too, is the same before and after each of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import select

import sublet.db.sqlite
from sublet.db import Tx
from sublet.mail.store import count_waiting
from sublet.schema import metadata
from support import error_triggers
from support.error_triggers import REFUSALS, Send
from support.field_error_triggers import FIELD_CODES
from support.hostile_input import MADE_BY_PROCESSES
from support.running_service import RunningService, registry_address, running_service
from support.serve_process import wait_until

pytestmark = pytest.mark.slow

NOT_COMPARED = frozenset(
    {
        ("tokens", "last_used_at"),
        ("tokens", "last_used_from"),
        ("subdomains", "due_at"),
        ("audit_events", "address"),
        ("subdomains", "loss_at"),
        ("clockwork", "seen_at"),
    }
)
"""Columns that change whatever comes of a request: the coarse time and place of a token's last use, what the sweep notes when it looks, and old addresses that it deletes."""


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sublet.db.sqlite, "BUSY_TIMEOUT_SECONDS", error_triggers.BUSY_TIMEOUT_SECONDS)
        url = registry_address(tmp_path_factory.mktemp("traces"))
        with running_service(url, **error_triggers.SETTINGS) as service:
            error_triggers.furnish(service)
            yield service
            assert service.doctor() == []


def dump(tx: Tx) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table, in the order of the primary keys."""
    found = {}
    for table in metadata.sorted_tables:
        if table.name in MADE_BY_PROCESSES:
            continue
        columns = [column for column in table.columns if (table.name, column.name) not in NOT_COMPARED]
        if not columns:
            continue
        rows = tx.connection.execute(select(*columns).order_by(*table.primary_key.columns))
        found[table.name] = [tuple(row) for row in rows]
    return found


@contextmanager
def prepared(service: RunningService, code: str) -> Iterator[Send]:
    yield from {**FIELD_CODES, **REFUSALS}[code](service)


NOTED = {"authorization_pending": "device_requests", "slow_down": "device_requests"}
"""Answers to a program that waits: the time of the poll is stored, to tell whether it asks too often (RFC 8628, section 3.5)."""


TRIES = 5
"""A trace of the refusal is there every time. The service's own work, such as a daily step after a test moved the clock, is there once."""


@pytest.mark.parametrize("code", sorted({**FIELD_CODES, **REFUSALS}))
def test_refusal_leaves_no_trace(furnished: RunningService, code: str) -> None:
    for _ in range(TRIES):
        traces = _traces(furnished, code)
        if not traces:
            return
    pytest.fail(f"the refusal changed rows of these tables {TRIES} times: {traces}")


def _traces(service: RunningService, code: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return, by table, the rows that are different after the request, but for what `NOTED` names."""
    with prepared(service, code) as send:
        # Mail of what was prepared is sent in its own time, which is no trace of the refusal.
        wait_until(lambda: service.read(count_waiting).waiting == 0)
        before = service.read(dump)
        answer = send()
        assert answer.json()["ok"] is False
        after = service.read(dump)
    if code in NOTED:
        assert after.pop(NOTED[code]) != before.pop(NOTED[code])
    changed = {
        table: [row for row in [*before[table], *rows] if (row in before[table]) != (row in rows)]
        for table, rows in after.items()
    }
    return {table: rows for table, rows in changed.items() if rows}


def test_the_dump_sees_an_effect(furnished: RunningService) -> None:
    """The test above can fail: what is not refused shows in the tables of names, terms and the audit."""
    user = error_triggers.new_user(furnished)
    before = furnished.read(dump)
    furnished.register(user, error_triggers.unused_name(), nameservers=["ns1.provider.example"])
    after = furnished.read(dump)
    changed = {name for name in after if after[name] != before[name]}
    assert {"subdomains", "nameserver_hosts", "terms", "audit_events"} <= changed
    assert {"users", "packages"} & changed == set()
