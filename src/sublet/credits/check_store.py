"""All SQL of the ledger's and coupons' invariants: each question finds the rows that break one."""

from collections.abc import Iterator

from sqlalchemy import case, func, select

from sublet.credits.coupon_store import coupon_uses, coupons
from sublet.credits.store import ledger_accounts, transfers
from sublet.db import Tx
from sublet.invariants import Violation


def list_wrong_balances(tx: Tx) -> Iterator[Violation]:
    """Which accounts' balance is not the sum of their transfers, or negative though a user's?"""
    given = dict(_sums(tx, "credit_account_id"))
    taken = dict(_sums(tx, "debit_account_id"))
    accounts = select(ledger_accounts.c.id, ledger_accounts.c.kind, ledger_accounts.c.balance)
    for account_id, kind, balance in tx.connection.execute(accounts):
        total = given.get(account_id, 0) - taken.get(account_id, 0)
        if balance != total:
            sentence = f"the balance is {balance}, its transfers sum to {total}"
            yield Violation("balance_is_sum", "ledger_account", account_id, sentence)
        if kind == "user" and balance < 0:
            yield Violation("balance_not_negative", "ledger_account", account_id, f"the balance is {balance}")


def _sums(tx: Tx, column: str) -> list[tuple[int, int]]:
    query = select(transfers.c[column], func.sum(transfers.c.credits)).group_by(transfers.c[column])
    return [(row[0], int(row[1])) for row in tx.connection.execute(query)]


def list_unbalanced_ledger(tx: Tx) -> Iterator[Violation]:
    """Do all accounts together sum to 0?"""
    total = tx.connection.execute(select(func.coalesce(func.sum(ledger_accounts.c.balance), 0))).scalar_one()
    if int(total) != 0:
        yield Violation("ledger_sums_to_zero", "ledger", 0, f"all accounts together sum to {total}")


def list_broken_histories(tx: Tx) -> Iterator[Violation]:
    """Whose transfers do not lead from balance to balance, in the order of their ids?"""
    signed = case((ledger_accounts.c.user_id.is_not(None), transfers.c.credits), else_=-transfers.c.credits)
    query = (
        select(transfers.c.id, transfers.c.user_id, signed, transfers.c.balance_after)
        .select_from(transfers.join(ledger_accounts, ledger_accounts.c.id == transfers.c.credit_account_id))
        .order_by(transfers.c.user_id, transfers.c.id)
    )
    balances: dict[int, int] = {}
    for transfer_id, user_id, moved, balance_after in tx.connection.execute(query):
        balances[user_id] = balances.get(user_id, 0) + moved
        if balances[user_id] != balance_after:
            sentence = f"balance_after is {balance_after}, the history gives {balances[user_id]}"
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


def list_wrong_coupons(tx: Tx) -> Iterator[Violation]:
    """Which coupons' count of uses is not that of their uses, or above the limit?"""
    used = (
        select(coupon_uses.c.coupon_id, func.count().label("uses"))
        .group_by(coupon_uses.c.coupon_id)
        .subquery()
    )
    query = select(
        coupons.c.id, coupons.c.uses, func.coalesce(used.c.uses, 0), coupons.c.max_uses
    ).select_from(coupons.outerjoin(used, used.c.coupon_id == coupons.c.id))
    for coupon_id, uses, counted, max_uses in tx.connection.execute(query):
        if uses != counted or (max_uses is not None and uses > max_uses):
            sentence = f"{uses} uses are counted, {counted} are stored, {max_uses} are allowed"
            yield Violation("coupon_uses", "coupon", coupon_id, sentence)
