"""All SQL of the ledger's invariants: each question finds the rows that break one."""

from collections.abc import Iterator

from sqlalchemy import Subquery, case, func, select

from sublet.audit import list_events_without_row, list_rows_without_event
from sublet.credits.coupon_store import coupons
from sublet.credits.package_store import packages
from sublet.credits.posted import Posted, money_problem, movement_problem, price_problem, reference_problem
from sublet.credits.store import ledger_accounts, transfers
from sublet.db import Tx
from sublet.invariants import Violation
from sublet.schema import STREAMED

MOVEMENTS = ("payment.record", "credits.grant", "credits.adjust", "credits.refund")
"""The operator's actions that move credits."""


def list_wrong_balances(tx: Tx) -> Iterator[Violation]:
    """Which accounts' balance is not the sum of their transfers, or negative though a user's?"""
    given, taken = _sums("credit_account_id"), _sums("debit_account_id")
    total = func.coalesce(given.c.total, 0) - func.coalesce(taken.c.total, 0)
    query = (
        select(ledger_accounts.c.id, ledger_accounts.c.kind, ledger_accounts.c.balance, total)
        .select_from(
            ledger_accounts.outerjoin(given, given.c.id == ledger_accounts.c.id).outerjoin(
                taken, taken.c.id == ledger_accounts.c.id
            )
        )
        .where(
            (ledger_accounts.c.balance != total)
            | ((ledger_accounts.c.kind == "user") & (ledger_accounts.c.balance < 0))
        )
    )
    for account_id, kind, balance, moved in tx.connection.execute(query):
        if balance != moved:
            sentence = f"the balance is {balance}, its transfers sum to {moved}"
            yield Violation("balance_is_sum", "ledger_account", account_id, sentence)
        if kind == "user" and balance < 0:
            yield Violation("balance_not_negative", "ledger_account", account_id, f"the balance is {balance}")


def _sums(column: str) -> Subquery:
    query = select(transfers.c[column].label("id"), func.sum(transfers.c.credits).label("total"))
    return query.group_by(transfers.c[column]).subquery()


def list_unbalanced_ledger(tx: Tx) -> Iterator[Violation]:
    """Do all accounts together sum to 0?"""
    total = tx.connection.execute(select(func.coalesce(func.sum(ledger_accounts.c.balance), 0))).scalar_one()
    if int(total) != 0:
        yield Violation("ledger_sums_to_zero", "ledger", 0, f"all accounts together sum to {total}")


def list_broken_histories(tx: Tx) -> Iterator[Violation]:
    """Whose transfers do not lead from balance to balance, in the order of their ids?"""
    signed = case((ledger_accounts.c.user_id.is_not(None), transfers.c.credits), else_=-transfers.c.credits)
    told = (
        select(
            transfers.c.id,
            transfers.c.balance_after,
            func.sum(signed).over(partition_by=transfers.c.user_id, order_by=transfers.c.id).label("balance"),
        )
        .select_from(transfers.join(ledger_accounts, ledger_accounts.c.id == transfers.c.credit_account_id))
        .subquery()
    )
    query = select(told).where(told.c.balance_after != told.c.balance)
    for transfer_id, balance_after, balance in tx.connection.execute(query):
        sentence = f"balance_after is {balance_after}, the history gives {balance}"
        yield Violation("history_is_whole", "transfer", transfer_id, sentence)


def list_wrong_refunds(tx: Tx) -> Iterator[Violation]:
    """Which refunds give back more than their charge took, or give it to another user?"""
    charge = transfers.alias("charge")
    query = (
        select(transfers.c.id)
        .select_from(transfers.outerjoin(charge, charge.c.id == transfers.c.refunded_transfer_id))
        .where(
            (transfers.c.kind == "refund")
            & (
                charge.c.id.is_(None)
                | (charge.c.kind != "charge")
                | (charge.c.user_id != transfers.c.user_id)
                | (transfers.c.credits > charge.c.credits)
            )
        )
    )
    for row in tx.connection.execute(query):
        yield Violation(
            "refund_names_its_charge", "transfer", row[0], "the refund fits no charge of this user"
        )


def list_wrong_transfers(tx: Tx) -> Iterator[Violation]:
    """Which transfers are, each looked at alone, no movement of their kind, or have no reference or price of it?"""
    debit, credit = ledger_accounts.alias("debit"), ledger_accounts.alias("credit")
    of_accounts = {
        "debit_kind": debit.c.kind,
        "debit_user_id": debit.c.user_id,
        "credit_kind": credit.c.kind,
        "credit_user_id": credit.c.user_id,
    }
    columns = [of_accounts[name] if name in of_accounts else transfers.c[name] for name in Posted.__slots__]
    query = select(*columns).select_from(
        transfers.outerjoin(debit, debit.c.id == transfers.c.debit_account_id).outerjoin(
            credit, credit.c.id == transfers.c.credit_account_id
        )
    )
    for row in tx.connection.execute(query.execution_options(**STREAMED)):
        posted = Posted(*row)
        for invariant, problem in (
            ("transfer_fits_its_kind", movement_problem(posted)),
            ("reference_fits", reference_problem(posted)),
            ("money_is_plain", price_problem(posted)),
        ):
            if problem is not None:
                yield Violation(invariant, "transfer", posted.id, problem)


def list_repeated_references(tx: Tx) -> Iterator[Violation]:
    """Which references were used more than once? Each names the second transfer and all after it."""
    first = select(transfers.c.reference, func.min(transfers.c.id).label("id")).group_by(
        transfers.c.reference
    )
    repeated = first.having(func.count() > 1).subquery()
    query = (
        select(transfers.c.id, transfers.c.reference)
        .join(repeated, repeated.c.reference == transfers.c.reference)
        .where(transfers.c.id != repeated.c.id)
    )
    for transfer_id, reference in tx.connection.execute(query):
        sentence = f"the reference {reference} was used before"
        yield Violation("references_are_unique", "transfer", transfer_id, sentence)


def list_wrong_packages(tx: Tx) -> Iterator[Violation]:
    """Which packages give nothing, or have a price that is no amount of money?"""
    query = select(packages.c.id, packages.c.credits, packages.c.price, packages.c.currency)
    for package_id, credit_count, price, currency in tx.connection.execute(query):
        problem = money_problem(price, currency) if credit_count > 0 else f"it gives {credit_count} credits"
        if problem is not None:
            yield Violation("money_is_plain", "package", package_id, problem)


def list_unaudited(tx: Tx) -> Iterator[Violation]:
    """Of which packages, coupons and movements, charges aside, does no event tell? Charges have the events of their terms."""
    movement = transfers.c.kind != "charge"
    yield from list_rows_without_event(
        tx, "transfer", transfers.c.id, transfers.c.created_at, MOVEMENTS, among=movement
    )
    yield from list_rows_without_event(tx, "coupon", coupons.c.id, coupons.c.created_at, ["coupon.add"])
    yield from list_rows_without_event(tx, "coupon", coupons.c.id, coupons.c.retired_at, ["coupon.retire"])
    yield from list_rows_without_event(tx, "package", packages.c.id, packages.c.created_at, ["package.add"])
    yield from list_rows_without_event(
        tx, "package", packages.c.id, packages.c.retired_at, ["package.retire"]
    )
    for object_type, ids in (
        ("transfer", transfers.c.id),
        ("coupon", coupons.c.id),
        ("package", packages.c.id),
    ):
        yield from list_events_without_row(tx, object_type, ids)
