"""Every invariant, broken by hand past the verbs and the database's own guards, is found and named; on both engines."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, insert, select, text, update

from registry import FREE_QUOTA, OPERATOR, START, Registry
from sublet.accounts.store import users
from sublet.cli.doctor import check_all
from sublet.credits.coupon_store import coupons
from sublet.credits.model import Payable
from sublet.credits.store import ledger_accounts, transfers
from sublet.db import Tx
from sublet.invariants import Violation
from sublet.subdomains.delete import delete
from sublet.subdomains.purge import purge
from sublet.subdomains.store import subdomains
from sublet.subdomains.term_store import terms

SHOP = "shop.example.test"
PAID = "paid.example.test"


@pytest.fixture
def busy(registry: Registry) -> Registry:
    """A registry in which something of everything has happened, and all is well."""
    registry.add_coupon()
    registry.register(SHOP, nameservers=("ns1.example.org",))
    registry.register(PAID, registration_mode="plus", payable=Payable(confirm=True, coupon_code="SPRING"))
    registry.register("old.example.test", nameservers=("ns1.example.org",))
    registry.write(delete, registry.actor(), "old.example.test")
    registry.publish()
    registry.write(purge, OPERATOR, "old.example.test")
    registry.publish()
    assert registry.doctor() == []
    return registry


def _without_checks(tx: Tx, table: str, check: str) -> None:
    if tx.connection.dialect.name == "postgresql":
        tx.connection.execute(text(f"ALTER TABLE {table} DROP CONSTRAINT {check}"))
    else:
        tx.connection.execute(text("PRAGMA ignore_check_constraints = ON"))


def _set(of: str, **values: Any) -> Callable[[Tx], None]:
    def run(tx: Tx) -> None:
        tx.connection.execute(update(subdomains).where(subdomains.c.fqdn == of).values(**values))

    return run


def _balance(kind: str, by: int) -> Callable[[Tx], None]:
    def run(tx: Tx) -> None:
        _without_checks(tx, "ledger_accounts", "ck_ledger_accounts_balance")
        account = (
            select(func.min(ledger_accounts.c.id)).where(ledger_accounts.c.kind == kind).scalar_subquery()
        )
        tx.connection.execute(
            update(ledger_accounts)
            .where(ledger_accounts.c.id == account)
            .values(balance=ledger_accounts.c.balance + by)
        )

    return run


def _transfer(tx: Tx, **values: Any) -> None:
    """Copy the charge that there is, with other values."""
    charge = tx.connection.execute(select(transfers).where(transfers.c.kind == "charge")).mappings().one()
    row = {**charge, "reference": "by-hand", **values}
    del row["id"]
    tx.connection.execute(insert(transfers).values(**row))


def _refund_of_nothing(tx: Tx) -> None:
    _transfer(tx, kind="refund")


def _charge_of_nothing(tx: Tx) -> None:
    _transfer(tx)


def _copy(of: str, **values: Any) -> Callable[[Tx], None]:
    def run(tx: Tx) -> None:
        tx.connection.execute(text("DROP INDEX uq_subdomains_fqdn_unreleased"))
        row = dict(tx.connection.execute(select(subdomains).where(subdomains.c.fqdn == of)).mappings().one())
        del row["id"]
        tx.connection.execute(insert(subdomains).values(**{**row, **values}))

    return run


def _term(starts: timedelta, ends: timedelta) -> Callable[[Tx], None]:
    def run(tx: Tx) -> None:
        term = dict(tx.connection.execute(select(terms).order_by(terms.c.id).limit(1)).mappings().one())
        del term["id"]
        expiry = term["ends_at"]
        term |= {"starts_at": expiry + starts, "ends_at": expiry + ends}
        tx.connection.execute(insert(terms).values(**term))
        tx.connection.execute(
            update(subdomains).where(subdomains.c.id == term["subdomain_id"]).values(expires_at=expiry + ends)
        )

    return run


def _count_a_use(tx: Tx) -> None:
    tx.connection.execute(update(coupons).values(uses=coupons.c.uses + 1))


def _lower_the_quota(tx: Tx) -> None:
    tx.connection.execute(update(users).values(free_quota=0))


DAY = timedelta(days=1)
GAP = _term(DAY, 366 * DAY)
OVERLAP = _term(-DAY, 364 * DAY)
BROKEN: list[tuple[str, Callable[[Tx], None], str]] = [
    ("balance of a user", _balance("user", 1), "balance_is_sum"),
    ("balance of the house", _balance("revenue", -1), "balance_is_sum"),
    ("sum of all", _balance("revenue", 1), "ledger_sums_to_zero"),
    ("below zero", _balance("user", -1000), "balance_not_negative"),
    ("history", _charge_of_nothing, "history_is_whole"),
    ("refund of nothing", _refund_of_nothing, "refund_names_its_charge"),
    ("charge of nothing", _charge_of_nothing, "charge_has_its_term"),
    ("coupon", _count_a_use, "coupon_uses"),
    ("held twice", _copy(SHOP), "one_row_a_name"),
    ("no term", _copy(SHOP, label="new", fqdn="new.example.test"), "terms_are_whole"),
    ("no event", _copy(SHOP, label="new", fqdn="new.example.test"), "audited"),
    ("gap", GAP, "terms_are_whole"),
    ("overlap", OVERLAP, "terms_are_whole"),
    ("given time", _set(SHOP, expires_at=START + 400 * DAY), "expiry_is_paid"),
    ("taken time", _set(PAID, expires_at=START), "expiry_is_paid"),
    ("quota", _lower_the_quota, "free_quota"),
    ("wrong host", _set(SHOP, nameservers=["-"]), "delegation_is_valid"),
    ("other case", _set(SHOP, nameservers=["NS1.example.org"]), "delegation_is_valid"),
    ("purged", _set("old.example.test", nameservers=["ns1.example.org"]), "purged_is_empty"),
    ("other name", _set(PAID, fqdn="paid.example.org"), "fqdn"),
    ("other zone", _set(SHOP, nameservers=["ns2.example.org"]), "zone_is_registry"),
    ("not in the zone", _set(PAID, nameservers=["ns1.example.org"]), "zone_is_registry"),
    ("left in the zone", _set(SHOP, nameservers=[]), "zone_is_registry"),
    (
        "waiting",
        _set(SHOP, generation=2, updated_at=START - timedelta(minutes=5, microseconds=1)),
        "nothing_waits",
    ),
]


class _UndoError(Exception):
    """Ends a transaction whose work is not wanted."""


def _found_after(busy: Registry, spoil: Callable[[Tx], None]) -> list[Violation]:
    """Break something, look, and take it back: all in one transaction, for speed."""
    found: list[Violation] = []

    def run(tx: Tx) -> None:
        spoil(tx)
        found.extend(check_all(tx, free_quota=FREE_QUOTA))
        if tx.connection.dialect.name == "sqlite":
            tx.connection.execute(text("PRAGMA ignore_check_constraints = OFF"))
        raise _UndoError

    with pytest.raises(_UndoError):
        busy.write(run)
    return found


def test_what_is_broken_is_found_and_named(busy: Registry) -> None:
    missed = []
    for case, spoil, invariant in BROKEN:
        found = _found_after(busy, spoil)
        assert all(violation.message and violation.object_type for violation in found), case
        if invariant not in {violation.invariant for violation in found}:
            missed.append((case, invariant, found))
    assert missed == []
    assert busy.doctor() == [], "each fault was taken back"


def test_what_waits_for_less_than_five_minutes_is_well(busy: Registry) -> None:
    busy.write(_set(SHOP, generation=2, updated_at=START - timedelta(minutes=5)))
    assert busy.doctor() == []


def test_a_refund_of_another_user_s_charge_is_found(busy: Registry) -> None:
    def spoil(tx: Tx) -> None:
        charge = tx.connection.execute(select(transfers).where(transfers.c.kind == "charge")).mappings().one()
        _transfer(
            tx,
            kind="refund",
            user_id=busy.users["ben"],
            refunded_transfer_id=charge["id"],
            debit_account_id=charge["credit_account_id"],
            credit_account_id=charge["debit_account_id"],
        )

    busy.write(spoil)
    assert "refund_names_its_charge" in {violation.invariant for violation in busy.doctor()}


def test_looking_changes_nothing(busy: Registry) -> None:
    before = busy.dump()
    assert busy.doctor() == []
    assert busy.dump() == before
