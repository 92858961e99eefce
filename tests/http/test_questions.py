"""What is asked outside any transaction (`db.ask`) is one statement: several might each see another state."""

from pathlib import Path
from typing import Any

import pytest

from service import registry_address, running_service
from sublet.db import SqliteDatabase, Tx

pytestmark = pytest.mark.sqlite_only


def test_each_question_is_one_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, list[str]] = {}
    ask = SqliteDatabase.ask

    async def noted(self: SqliteDatabase, fn: Any, /, *args: Any) -> Any:
        statements: list[str] = []

        def note(tx: Tx) -> Any:
            tx.driver.set_trace_callback(statements.append)
            try:
                return fn(tx, *args)
            finally:
                tx.driver.set_trace_callback(None)

        try:
            return await ask(self, note)
        finally:
            asked[fn.__qualname__] = max(asked.get(fn.__qualname__, []), statements, key=len)

    monkeypatch.setattr(SqliteDatabase, "ask", noted)
    with running_service(registry_address(tmp_path)) as service:
        service.add_domain("example.test")
        ada = service.add_user()
        service.register(ada, "blog.example.test", nameservers=["ns1.a.example", "ns2.a.example"])
        for name in ("blog.example.test", "1", "none.example.test"):
            service.call(ada, "GET", f"/subdomains/{name}")
    assert {"list_settled", "get_subdomain.<locals>.ask"} <= asked.keys()
    assert {name: len(statements) for name, statements in asked.items()} == dict.fromkeys(asked, 1)
