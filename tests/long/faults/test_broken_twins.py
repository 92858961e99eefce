"""Do the tests have power?

Each guard's check passes on the real service and fails on a twin that lacks the guard.
"""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.exc import OperationalError

from long.faults.races import (
    check_coupon_is_used_once,
    check_credits_are_spent_once,
    check_quota_is_used_once,
    check_renewal_is_charged_once,
    check_writers_take_turns,
)
from sublet import db
from sublet.audit import Actor
from sublet.credits import store as credit_store
from sublet.db import Tx
from sublet.errors import Unavailable
from sublet.operations.idempotency import write_once
from sublet.subdomains import api, delegation_store, store
from sublet.subdomains.find import find_in_account
from sublet.subdomains.model import Subdomain
from support.running_service import running_service

pytestmark = pytest.mark.whole


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/registry.db"


_seen: ContextVar[Any] = ContextVar("seen", default=None)
"""What a twin read before its writing transaction."""


def _read_then_write(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, question: str, read: Callable[[Tx, Any], Any]
) -> None:
    """Read in an own transaction, before the writing one, what a verb reads from a store."""
    asked = getattr(module, question)

    async def read_first(call: Any, verb: Any, *args: Any, **kwargs: Any) -> Any:
        found = await call.context.db.read(read, call)
        await asyncio.sleep(0.1)  # time for other requests to read

        def with_old_answer(tx: Tx, *inner: Any, **named: Any) -> Any:
            token = _seen.set(found)
            try:
                return verb(tx, *inner, **named)
            finally:
                _seen.reset(token)

        return await write_once(call, with_old_answer, *args, **kwargs)

    def seen(*args: Any, **kwargs: Any) -> Any:
        found = _seen.get()
        return asked(*args, **kwargs) if found is None else found

    monkeypatch.setattr(api, "write_once", read_first)
    monkeypatch.setattr(module, question, seen)


def _balance_first(tx: Tx, call: Any) -> Any:
    return credit_store.find_balance(tx, call.registrant.user.id)


def _newest_coupon(tx: Tx, _call: Any) -> Any:
    return next(iter(credit_store.list_coupons(tx)), None)


def _names_held(tx: Tx, call: Any) -> Any:
    count = store.count_free(tx, call.registrant.user.id)
    return delegation_store.Standing(count, is_blocked=False)


def _without_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let SQLite store what a CHECK forbids."""
    sqlite_engine = db.sqlite.sqlite_engine

    def unchecked(path: Path, **options: Any) -> Engine:
        engine = sqlite_engine(path, **options)

        @event.listens_for(engine, "connect")
        def on_connect(connection: Any, _record: Any) -> None:
            connection.execute("PRAGMA ignore_check_constraints=ON")

        return engine

    monkeypatch.setattr(db.sqlite, "sqlite_engine", unchecked)


def _drop_checks(tx: Tx) -> None:
    """Let PostgreSQL store what a CHECK forbids."""
    for table, name in (("ledger_accounts", "balance"), ("transfers", "balance_after"), ("coupons", "uses")):
        tx.connection.exec_driver_sql(f"ALTER TABLE {table} DROP CONSTRAINT ck_{table}_{name}")


@pytest.mark.parametrize(
    ("module", "question", "read", "check", "invariant"),
    [
        (
            credit_store,
            "lock_balance",
            _balance_first,
            check_credits_are_spent_once,
            "balance_not_negative",
        ),
        (credit_store, "lock_coupon", _newest_coupon, check_coupon_is_used_once, "coupon_uses"),
        (delegation_store, "find_standing", _names_held, check_quota_is_used_once, "free_quota"),
    ],
    ids=["balance", "coupon", "quota"],
)
def test_a_read_before_the_transaction_is_caught(
    module: ModuleType,
    question: str,
    read: Callable[[Tx, Any], Any],
    check: Callable[..., None],
    invariant: str,
    registry_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _read_then_write(monkeypatch, module, question, read)
    _without_checks(monkeypatch)
    with running_service(registry_url) as service:
        service.add_domain()
        if registry_url.startswith("postgresql"):
            service.write(_drop_checks)
        with pytest.raises(AssertionError):
            check([service], 10)
        assert {each.invariant for each in service.doctor()} == {invariant}


def test_without_the_lock_the_constraint_still_holds(
    registry_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second line of defence: even if the balance is read too early, no charge makes it negative."""
    _read_then_write(monkeypatch, credit_store, "lock_balance", _balance_first)
    with running_service(registry_url) as service:
        service.add_domain()
        with pytest.raises(AssertionError):  # those too late hear of a conflict instead of the price
            check_credits_are_spent_once([service], 10)
        assert service.doctor() == []


def _renew_an_old_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every renewal see the name as the first renewal saw it, as if the row were read before the lock."""
    seen: dict[str, Subdomain] = {}

    def find_old(tx: Tx, actor: Actor, identifier: str) -> Subdomain:
        return seen.setdefault(identifier, find_in_account(tx, actor, identifier))

    monkeypatch.setattr("sublet.subdomains.renew.find_in_account", find_old)


def test_a_renewal_from_an_old_row_is_still_charged_once(
    registry_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second line: the reference is the term, so a charge for the same one can't be stored twice."""
    _renew_an_old_row(monkeypatch)
    with running_service(registry_url) as service:
        service.add_domain()
        check_renewal_is_charged_once(service, 10)


def test_no_begin_immediate_is_caught(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that begins by reading is refused if another one has written since."""
    monkeypatch.setattr("sublet.db.sqlite.BEGIN_WRITE", "BEGIN")
    # The operator's commands say so with an exit code, which the test's helper asserts; the helper that adds
    # users passes on SQLite's error.
    with running_service(url) as service, pytest.raises((Unavailable, AssertionError, OperationalError)):
        check_writers_take_turns(service)
