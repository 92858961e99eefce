"""Do the tests have power?

Each guard's check passes on the real service and fails on a twin that lacks the guard.
"""

import asyncio
from collections.abc import Callable, Collection
from contextvars import ContextVar
from ipaddress import ip_address
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sqlalchemy import Engine, event

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
from sublet.dns.types import Record
from sublet.errors import Unavailable
from sublet.operations.idempotency import write_once
from sublet.platform_domains.model import PlatformDomain
from sublet.subdomains import api, delegation_store, store
from sublet.subdomains.find import find_in_account
from sublet.subdomains.model import Subdomain
from support.guard_checks import (
    check_delete_leaves_nothing,
    check_former_glue_leaves,
    check_glue_is_public,
    check_others_names_are_hidden,
    check_wrong_clock_loses_nothing,
)
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


def _balance_first(monkeypatch: pytest.MonkeyPatch) -> None:
    _read_then_write(
        monkeypatch,
        credit_store,
        "lock_balance",
        lambda tx, call: credit_store.find_balance(tx, call.registrant.user.id),
    )


def _without_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let SQLite store what a CHECK forbids."""
    sqlite_engine = db.sqlite.sqlite_engine

    def unchecked(url: str, **options: Any) -> Engine:
        engine = sqlite_engine(url, **options)

        @event.listens_for(engine, "connect")
        def on_connect(connection: Any, _record: Any) -> None:
            connection.execute("PRAGMA ignore_check_constraints=ON")

        return engine

    monkeypatch.setattr(db.sqlite, "sqlite_engine", unchecked)


def _drop_checks(tx: Tx) -> None:
    """Let PostgreSQL store what a CHECK forbids."""
    for table, name in (("ledger_accounts", "balance"), ("transfers", "balance_after"), ("coupons", "uses")):
        tx.connection.exec_driver_sql(f"ALTER TABLE {table} DROP CONSTRAINT ck_{table}_{name}")


def test_balance_read_before_the_transaction_is_caught(
    registry_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _balance_first(monkeypatch)
    _without_checks(monkeypatch)
    with running_service(registry_url) as service:
        service.add_domain()
        if registry_url.startswith("postgresql"):
            service.write(_drop_checks)
        with pytest.raises(AssertionError):
            check_credits_are_spent_once([service], 10)
        broken = {each.invariant for each in service.doctor()}
        assert broken == {"balance_not_negative"}


def test_without_the_lock_the_constraint_still_holds(
    registry_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second line of defence: even if the balance is read too early, no charge makes it negative."""
    _balance_first(monkeypatch)
    with running_service(registry_url) as service:
        service.add_domain()
        with pytest.raises(AssertionError):  # those too late hear of a conflict instead of the price
            check_credits_are_spent_once([service], 10)
        assert service.doctor() == []


def test_coupon_read_without_its_count_is_caught(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sublet.subdomains.charge.coupon_problem", lambda *_, **__: None)
    _without_checks(monkeypatch)
    with running_service(url) as service:
        service.add_domain()
        with pytest.raises(AssertionError):
            check_coupon_is_used_once([service], 10)


def test_coupon_counted_before_the_transaction_is_caught(
    registry_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def newest(tx: Tx, _call: Any) -> Any:
        return next(iter(credit_store.list_coupons(tx)), None)

    _read_then_write(monkeypatch, credit_store, "lock_coupon", newest)
    _without_checks(monkeypatch)
    with running_service(registry_url) as service:
        service.add_domain()
        if registry_url.startswith("postgresql"):
            service.write(_drop_checks)
        with pytest.raises(AssertionError):
            check_coupon_is_used_once([service], 10)
        assert {each.invariant for each in service.doctor()} == {"coupon_uses"}


def test_quota_read_before_the_lock_is_caught(registry_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def held(tx: Tx, call: Any) -> delegation_store.Standing:
        count = store.count_free(tx, call.registrant.user.id)
        return delegation_store.Standing(count, is_blocked=False)

    with monkeypatch.context() as patch:
        _read_then_write(patch, delegation_store, "find_standing", held)
        with running_service(registry_url) as service:
            service.add_domain()
            with pytest.raises(AssertionError):
                check_quota_is_used_once([service], 10)
            assert {each.invariant for each in service.doctor()} == {"free_quota"}


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


def test_a_renewal_without_its_reference_is_caught(
    registry_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def any_reference(action: str, subdomain_id: int, _starts_at: object) -> str:
        number = next(numbers)
        return f"{action}:{subdomain_id}:20270101T000000.{number:06}Z"

    numbers = count()
    _renew_an_old_row(monkeypatch)
    monkeypatch.setattr("sublet.subdomains.charge.charge_reference", any_reference)
    with running_service(registry_url) as service:
        service.add_domain()
        service.write(lambda tx: tx.connection.exec_driver_sql("DROP INDEX uq_terms_subdomain_id_starts_at"))
        with pytest.raises(AssertionError):
            check_renewal_is_charged_once(service, 10)
        broken = {each.invariant for each in service.doctor()}
        assert broken == {"terms_are_whole", "term_is_audited", "charge_has_its_term"}


def test_no_begin_immediate_is_caught(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that begins by reading is refused if another one has written since."""
    monkeypatch.setattr("sublet.db.sqlite.BEGIN_WRITE", "BEGIN")
    # The operator's commands say so with an exit code, which the test's helper asserts.
    with running_service(url) as service, pytest.raises((Unavailable, AssertionError)):
        check_writers_take_turns(service)


@pytest.mark.parametrize("check", [check_delete_leaves_nothing, check_former_glue_leaves])
def test_no_old_record_is_left_in_the_zone(url: str, check: Any) -> None:
    with running_service(url) as service:
        service.add_domain()
        check(service)
        assert service.doctor() == []


@pytest.mark.parametrize("check", [check_delete_leaves_nothing, check_former_glue_leaves])
def test_glue_left_behind_is_caught(url: str, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin's name server keeps the delegations that it has read once."""
    find_published = store.find_published
    kept: dict[str, tuple[Record, ...]] = {}

    def find_kept(
        tx: Tx, platform_domain: PlatformDomain, fqdns: Collection[str]
    ) -> dict[str, tuple[Record, ...]]:
        kept.update({**find_published(tx, platform_domain, fqdns), **kept})
        return {fqdn: kept[fqdn] for fqdn in fqdns if fqdn in kept}

    monkeypatch.setattr(store, "find_published", find_kept)
    with running_service(url) as service:
        service.add_domain()
        with pytest.raises(AssertionError):
            check(service)


def test_names_of_other_users_are_hidden(url: str) -> None:
    with running_service(url) as service:
        service.add_domain()
        check_others_names_are_hidden(service)
        assert service.doctor() == []


def test_no_owner_filter_is_caught(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_any(
        tx: Tx, _user_id: int, *, subdomain_id: int | None = None, fqdn: str | None = None
    ) -> Subdomain | None:
        if subdomain_id is not None:
            return store.find_subdomain(tx, subdomain_id)
        return store.find_unreleased(tx, fqdn or "")

    monkeypatch.setattr(store, "find_subdomain_of_user", find_any)
    with running_service(url) as service:
        service.add_domain()
        with pytest.raises(AssertionError):
            check_others_names_are_hidden(service)


def test_glue_must_be_public(url: str) -> None:
    with running_service(url) as service:
        service.add_domain()
        check_glue_is_public(service)


def test_a_check_by_is_global_is_caught(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def by_python(address: str) -> str | None:
        return None if ip_address(address).is_global else f"{address} is not global."

    monkeypatch.setattr("sublet.dns.delegation.not_public_reason", by_python)
    with running_service(url) as service:
        service.add_domain()
        with pytest.raises(AssertionError, match=r"224\.0\.0\.1"):
            check_glue_is_public(service)


def test_a_wrong_clock_loses_nothing(url: str) -> None:
    with running_service(url) as service:
        service.add_domain()
        check_wrong_clock_loses_nothing(service)
        assert service.doctor() == []


def test_a_sweep_without_the_brake_is_caught(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("subdomains.sweep.runner.jump_reason", "subdomains.sweep.brake.away_reason"):
        monkeypatch.setattr(f"sublet.{name}", lambda *_: None)
    monkeypatch.setattr("sublet.subdomains.sweep.brake.losses_reason", lambda **_: None)
    with running_service(url) as service:
        service.add_domain()
        with pytest.raises(AssertionError):
            check_wrong_clock_loses_nothing(service)
