"""Check credits: the ledger, charges with their terms, coupons and packages."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from sqlalchemy import Select, Subquery, case, func, or_, select

from sublet.counted import counted
from sublet.credits.coupons import apply_coupon
from sublet.credits.ledger import (
    EntryWithAccounts,
    entry_problem,
    money_problem,
    price_problem,
    reference_problem,
)
from sublet.credits.model import Coupon
from sublet.credits.store import coupon_uses, coupons, ledger_accounts, ledger_entries, packages
from sublet.db import Tx
from sublet.doctor.model import Violation, select_repeated, was_transferred, yield_violations
from sublet.schema import STREAMED
from sublet.subdomains.charge import charge_reference
from sublet.subdomains.store import subdomains, terms


def check_credits(tx: Tx) -> list[Violation]:
    """Return the broken invariants of the ledger, charges, coupons and packages."""
    return [
        *_check_balances(tx),
        *_check_histories(tx),
        *_check_entries(tx),
        *yield_violations(
            tx,
            "references_are_unique",
            "transfer",
            select_repeated(ledger_entries.c.reference),
            "an earlier transfer has {value}",
        ),
        *_check_refunds(tx),
        *_check_packages(tx),
        *_check_charges(tx),
        *_find_unpaid_terms(tx),
        *_check_coupon_counts(tx),
        *_check_discounts(tx),
        *check_coupon_uses(tx),
    ]


def _check_balances(tx: Tx) -> Iterator[Violation]:
    received, spent = _sums("credit_account_id"), _sums("debit_account_id")
    moved = func.coalesce(received.c.total, 0) - func.coalesce(spent.c.total, 0)
    accounts = ledger_accounts.c
    query: Select[Any] = select(accounts.id, accounts.balance, moved.label("moved")).select_from(
        ledger_accounts.outerjoin(received, received.c.id == accounts.id).outerjoin(
            spent, spent.c.id == accounts.id
        )
    )
    sentence = "the balance is {balance}, its transfers sum to {moved}"
    yield from yield_violations(
        tx, "balance_is_sum", "ledger_account", query.where(accounts.balance != moved), sentence
    )
    negative = select(accounts.id, accounts.balance).where((accounts.kind == "user") & (accounts.balance < 0))
    yield from yield_violations(
        tx, "balance_not_negative", "ledger_account", negative, "the balance is {balance}"
    )
    total = tx.connection.execute(select(func.coalesce(func.sum(accounts.balance), 0))).scalar_one()
    if int(total) != 0:
        yield Violation("ledger_sums_to_zero", "ledger", 0, f"all accounts together sum to {total}")


def _sums(column: str) -> Subquery:
    query = select(ledger_entries.c[column].label("id"), func.sum(ledger_entries.c.credits).label("total"))
    return query.group_by(ledger_entries.c[column]).subquery()


def _check_histories(tx: Tx) -> Iterator[Violation]:
    """Yield the ledger entries whose `balance_after` isn't the sum of their user's entries so far."""
    signed = case(
        (ledger_accounts.c.user_id.is_not(None), ledger_entries.c.credits), else_=-ledger_entries.c.credits
    )
    history = (
        select(
            ledger_entries.c.id,
            ledger_entries.c.balance_after,
            func.sum(signed)
            .over(partition_by=ledger_entries.c.user_id, order_by=ledger_entries.c.id)
            .label("balance"),
        )
        .select_from(
            ledger_entries.join(ledger_accounts, ledger_accounts.c.id == ledger_entries.c.credit_account_id)
        )
        .subquery()
    )
    query = select(history).where(history.c.balance_after != history.c.balance)
    sentence = "balance_after is {balance_after}, the transfers so far sum to {balance}"
    yield from yield_violations(tx, "history_is_whole", "transfer", query, sentence)


def _check_entries(tx: Tx) -> Iterator[Violation]:
    """Yield the ledger entries that a rule in `credits/ledger.py` refuses."""
    debit, credit = ledger_accounts.alias("debit"), ledger_accounts.alias("credit")
    of_accounts = {
        "debit_kind": debit.c.kind,
        "debit_user_id": debit.c.user_id,
        "credit_kind": credit.c.kind,
        "credit_user_id": credit.c.user_id,
    }
    columns = [
        of_accounts[name] if name in of_accounts else ledger_entries.c[name]
        for name in EntryWithAccounts.__struct_fields__
    ]
    query = select(*columns).select_from(
        ledger_entries.outerjoin(debit, debit.c.id == ledger_entries.c.debit_account_id).outerjoin(
            credit, credit.c.id == ledger_entries.c.credit_account_id
        )
    )
    for row in tx.connection.execute(query.execution_options(**STREAMED)):
        entry = EntryWithAccounts(*row)
        for invariant, problem in (
            ("transfer_fits_its_kind", entry_problem(entry)),
            ("reference_fits", reference_problem(entry)),
            ("money_is_plain", price_problem(entry)),
        ):
            if problem is not None:
                yield Violation(invariant, "transfer", entry.id, problem)


def _check_refunds(tx: Tx) -> Iterator[Violation]:
    charge = ledger_entries.alias("charge")
    query = (
        select(ledger_entries.c.id)
        .select_from(ledger_entries.outerjoin(charge, charge.c.id == ledger_entries.c.refunded_transfer_id))
        .where(
            (ledger_entries.c.kind == "refund")
            & (
                charge.c.id.is_(None)
                | (charge.c.kind != "charge")
                | (charge.c.user_id != ledger_entries.c.user_id)
                | (ledger_entries.c.credits > charge.c.credits)
            )
        )
    )
    sentence = "it refunds no charge of this user, or more than the charge"
    yield from yield_violations(tx, "refund_names_its_charge", "transfer", query, sentence)


def _check_packages(tx: Tx) -> Iterator[Violation]:
    query = select(packages.c.id, packages.c.credits, packages.c.price, packages.c.currency)
    for package_id, credit_count, price, currency in tx.connection.execute(query):
        problem = money_problem(price, currency) if credit_count > 0 else f"it gives {credit_count} credits"
        if problem is not None:
            yield Violation("money_is_plain", "package", package_id, problem)


def _check_charges(tx: Tx) -> Iterator[Violation]:
    """Yield the charges without a term, or whose term has another price, name, time or reference."""
    query = (
        select(
            *(
                ledger_entries.c[name]
                for name in ("id", "credits", "subdomain_id", "created_at", "reference")
            ),
            *(
                terms.c[name].label(f"term_{name}")
                for name in ("charged_credits", "subdomain_id", "created_at", "action", "starts_at")
            ),
        )
        .select_from(ledger_entries.outerjoin(terms, terms.c.transfer_id == ledger_entries.c.id))
        .where(ledger_entries.c.kind == "charge")
        .execution_options(**STREAMED)
    )
    for row in tx.connection.execute(query):
        problem = None
        charged = (row.credits, row.subdomain_id, row.created_at)
        if row.term_charged_credits is None:
            problem = "the charge belongs to no registration, renewal or restore"
        elif charged != (row.term_charged_credits, row.term_subdomain_id, row.term_created_at):
            problem = (
                f"{counted(row.credits, 'credit')} for the subdomain {row.subdomain_id}; "
                f"its term says {row.term_charged_credits} for {row.term_subdomain_id}"
            )
        elif row.reference != charge_reference(row.term_action, row.term_subdomain_id, row.term_starts_at):
            problem = f"its reference {row.reference} isn't the reference of its term"
        if problem is not None:
            yield Violation("charge_has_its_term", "transfer", row.id, problem)


def _find_unpaid_terms(tx: Tx) -> Iterator[Violation]:
    """Yield the terms with a price but without a charge, or with a shared charge."""
    is_free = (terms.c.charged_credits == 0) & terms.c.transfer_id.is_(None)
    query = (
        select(
            terms.c.id, terms.c.charged_credits, func.coalesce(ledger_entries.c.kind, "nothing").label("kind")
        )
        .select_from(terms.outerjoin(ledger_entries, ledger_entries.c.id == terms.c.transfer_id))
        .where(~is_free & (ledger_entries.c.kind.is_(None) | (ledger_entries.c.kind != "charge")))
    )
    sentence = "its price in credits is {charged_credits}, paid by: {kind}"
    yield from yield_violations(tx, "charge_has_its_term", "term", query, sentence)
    shared = (
        select(terms.c.transfer_id.label("id"), func.count().label("number"))
        .where(terms.c.transfer_id.is_not(None))
        .group_by(terms.c.transfer_id)
        .having(func.count() > 1)
    )
    yield from yield_violations(tx, "charge_has_its_term", "transfer", shared, "it pays for {number} terms")


def _check_coupon_counts(tx: Tx) -> Iterator[Violation]:
    """Yield the coupons whose count of uses is wrong or above a limit."""
    used = (
        select(coupon_uses.c.coupon_id, func.count().label("uses"))
        .group_by(coupon_uses.c.coupon_id)
        .subquery()
    )
    stored = func.coalesce(used.c.uses, 0)
    query = (
        select(coupons.c.id, coupons.c.uses, stored.label("stored"), coupons.c.max_uses)
        .select_from(coupons.outerjoin(used, used.c.coupon_id == coupons.c.id))
        .where((coupons.c.uses != stored) | (coupons.c.uses > coupons.c.max_uses))
    )
    sentence = "its count of uses is {uses}, {stored} are stored, {max_uses} are allowed"
    yield from yield_violations(tx, "coupon_uses", "coupon", query, sentence)
    query = (
        select(coupons.c.id, coupon_uses.c.user_id, func.count().label("number"), coupons.c.max_uses_per_user)
        .join(coupon_uses, coupon_uses.c.coupon_id == coupons.c.id)
        .group_by(coupons.c.id, coupon_uses.c.user_id, coupons.c.max_uses_per_user)
        .having(func.count() > coupons.c.max_uses_per_user)
    )
    sentence = "the user {user_id} used it {number} times, {max_uses_per_user} are allowed to each user"
    yield from yield_violations(tx, "coupon_uses", "coupon", query, sentence)


def _check_discounts(tx: Tx) -> Iterator[Violation]:
    """Yield the uses whose discount isn't the discount of their coupon.

    The list price is not stored. It is the sum of charge and discount.
    """
    columns = [coupons.c[name] for name in Coupon.__struct_fields__]
    query = (
        select(
            coupon_uses.c.id,
            coupon_uses.c.discount_credits,
            func.coalesce(ledger_entries.c.credits, 0),
            *columns,
        )
        .select_from(
            coupon_uses.join(coupons, coupons.c.id == coupon_uses.c.coupon_id).outerjoin(
                ledger_entries, ledger_entries.c.id == coupon_uses.c.transfer_id
            )
        )
        .execution_options(**STREAMED)
    )
    for use_id, discount, charged, *values in tx.connection.execute(query):
        expected = apply_coupon(Coupon(*values), charged + discount).discount_credits
        if discount != expected or charged + discount <= 0:
            sentence = (
                f"the discount on a price of {charged + discount} is {discount}; its coupon gives {expected}"
            )
            yield Violation("discount_fits", "coupon_use", use_id, sentence)


def check_coupon_uses(tx: Tx) -> Iterator[Violation]:
    """Yield the uses of coupons without a term of their name and user, or whose coupon isn't valid for the
    term.
    """
    paid_together = (coupon_uses.c.transfer_id == terms.c.transfer_id) | (
        coupon_uses.c.transfer_id.is_(None) & terms.c.transfer_id.is_(None)
    )
    its_term = (
        (terms.c.subdomain_id == coupon_uses.c.subdomain_id)
        & (terms.c.created_at == coupon_uses.c.created_at)
        & paid_together
    )
    query = (
        select(
            coupon_uses.c.id,
            terms.c.id,
            or_(
                subdomains.c.user_id == coupon_uses.c.user_id,
                was_transferred(coupon_uses.c.subdomain_id, coupon_uses.c.user_id),
            ),
            func.coalesce(coupons.c.action == terms.c.action, True),
            func.coalesce(coupons.c.platform_domain_id == subdomains.c.platform_domain_id, True),
            func.coalesce(coupons.c.registration_mode == subdomains.c.registration_type, True),
        )
        .select_from(
            coupon_uses.join(coupons, coupons.c.id == coupon_uses.c.coupon_id)
            .outerjoin(subdomains, subdomains.c.id == coupon_uses.c.subdomain_id)
            .outerjoin(terms, its_term)
        )
        .order_by(coupon_uses.c.id)
        .execution_options(**STREAMED)
    )
    for use_id, found in groupby(tx.connection.execute(query), key=lambda row: row[0]):
        # There are several terms if two free terms were added at the same time.
        of_terms = [(term_id, own, all(fitting)) for _, term_id, own, *fitting in found]
        term_id, own, _ = of_terms[0]
        if not own:
            sentence = "it is for a name of another user"
            yield Violation("rows_belong_together", "coupon_use", use_id, sentence)
        elif term_id is None:
            yield Violation("coupon_use_has_its_term", "coupon_use", use_id, "no term was added with it")
        elif not any(fits for _, _, fits in of_terms):
            sentence = "its coupon is for another operation, platform domain or mode"
            yield Violation("coupon_use_has_its_term", "coupon_use", use_id, sentence)
