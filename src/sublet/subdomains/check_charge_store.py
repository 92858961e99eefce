"""All SQL of the invariants of what names cost: terms with their charges, their coupons' uses, and whose all of it is."""

from collections.abc import Iterator
from itertools import groupby

from sqlalchemy import func, select

from sublet.counted import counted
from sublet.credits.store import coupon_uses, coupons, transfers
from sublet.db import Tx
from sublet.invariants import Violation
from sublet.schema import STREAMED
from sublet.subdomains.charge import charge_reference
from sublet.subdomains.store import subdomains, terms


def list_wrong_charges(tx: Tx) -> Iterator[Violation]:
    """Which charges belong to not exactly one term, or to one of another price, name, instant or start than they say?"""
    query = (
        select(
            transfers.c.id,
            transfers.c.credits,
            transfers.c.subdomain_id,
            transfers.c.created_at,
            transfers.c.reference,
            terms.c.charged_credits,
            terms.c.subdomain_id,
            terms.c.created_at,
            terms.c.action,
            terms.c.starts_at,
        )
        .select_from(transfers.outerjoin(terms, terms.c.transfer_id == transfers.c.id))
        .where(transfers.c.kind == "charge")
        .execution_options(**STREAMED)
    )
    for (
        transfer_id,
        charged,
        of,
        at,
        reference,
        wanted,
        term_of,
        term_at,
        action,
        starts_at,
    ) in tx.connection.execute(query):
        problem = None
        if wanted is None:
            problem = "the charge belongs to no registration, renewal or restore"
        elif charged != wanted or of != term_of or at != term_at:
            problem = (
                f"{counted(charged, 'credit')} for the subdomain {of}; its term says {wanted} for {term_of}"
            )
        elif reference != charge_reference(action, term_of, starts_at):
            problem = f"its reference {reference} is not that of its term"
        if problem is not None:
            yield Violation("charge_has_its_term", "transfer", transfer_id, problem)


def list_unpaid_terms(tx: Tx) -> Iterator[Violation]:
    """Which terms that cost something have no charge, share it with another, or are paid by something that is none?"""
    query = select(terms.c.id, terms.c.charged_credits, transfers.c.kind).select_from(
        terms.outerjoin(transfers, transfers.c.id == terms.c.transfer_id)
    )
    free = (terms.c.charged_credits == 0) & terms.c.transfer_id.is_(None)
    for term_id, charged, kind in tx.connection.execute(
        query.where(~free & (transfers.c.kind.is_(None) | (transfers.c.kind != "charge")))
    ):
        sentence = f"it cost {counted(charged, 'credit')} and is paid by {f'a {kind}' if kind else 'nothing'}"
        yield Violation("charge_has_its_term", "term", term_id, sentence)
    shared = (
        select(terms.c.transfer_id, func.count())
        .where(terms.c.transfer_id.is_not(None))
        .group_by(terms.c.transfer_id)
        .having(func.count() > 1)
    )
    for transfer_id, count in tx.connection.execute(shared):
        yield Violation("charge_has_its_term", "transfer", transfer_id, f"{count} terms are paid by it")


def list_foreign_charges(tx: Tx) -> Iterator[Violation]:
    """Which movements are for a name of another user, for none that there is, or call it otherwise?"""
    query = (
        select(transfers.c.id, transfers.c.subdomain_id)
        .select_from(transfers.outerjoin(subdomains, subdomains.c.id == transfers.c.subdomain_id))
        .where(
            (transfers.c.subdomain_id.is_not(None) | transfers.c.subdomain.is_not(None))
            & (
                subdomains.c.id.is_(None)
                | (subdomains.c.user_id != transfers.c.user_id)
                | (subdomains.c.fqdn != func.coalesce(transfers.c.subdomain, ""))
            )
        )
    )
    for transfer_id, subdomain_id in tx.connection.execute(query):
        sentence = f"it is for the subdomain {subdomain_id}, which is not its user's, or not of that name"
        yield Violation("rows_belong_together", "transfer", transfer_id, sentence)


def list_wrong_coupon_uses(tx: Tx) -> Iterator[Violation]:
    """Which uses of coupons belong to no term of their name and user, or to one that the coupon is not for?"""
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
            subdomains.c.user_id == coupon_uses.c.user_id,
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
        # More than one only where two terms that cost nothing were added in one instant.
        of_terms = [(term_id, own, all(fitting)) for _, term_id, own, *fitting in found]
        term_id, own, _ = of_terms[0]
        if not own:
            sentence = "it is for a name that is not its user's"
            yield Violation("rows_belong_together", "coupon_use", use_id, sentence)
        elif term_id is None:
            yield Violation("coupon_use_has_its_term", "coupon_use", use_id, "no term was added with it")
        elif not any(fits for _, _, fits in of_terms):
            sentence = "its coupon is for another operation, platform domain or mode"
            yield Violation("coupon_use_has_its_term", "coupon_use", use_id, sentence)
