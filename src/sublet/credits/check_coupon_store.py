"""All SQL of the coupons' invariants: each question finds the rows that break one."""

from collections.abc import Iterator

from sqlalchemy import func, select

from sublet.credits.coupons import apply_coupon
from sublet.credits.model import Coupon
from sublet.credits.store import coupon_uses, coupons, transfers
from sublet.db import Tx
from sublet.invariants import Violation
from sublet.schema import STREAMED


def list_wrong_counts(tx: Tx) -> Iterator[Violation]:
    """Which coupons' count of uses is not that of their uses, or above the limit in all or of one user?"""
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
    query = (
        select(coupons.c.id, coupon_uses.c.user_id, func.count(), coupons.c.max_uses_per_user)
        .join(coupon_uses, coupon_uses.c.coupon_id == coupons.c.id)
        .group_by(coupons.c.id, coupon_uses.c.user_id, coupons.c.max_uses_per_user)
        .having(func.count() > coupons.c.max_uses_per_user)
    )
    for coupon_id, user_id, uses, allowed in tx.connection.execute(query):
        sentence = f"the user {user_id} used it {uses} times, {allowed} are allowed to each"
        yield Violation("coupon_uses", "coupon", coupon_id, sentence)


def list_wrong_discounts(tx: Tx) -> Iterator[Violation]:
    """Which uses took off another discount than their coupon gives, or more than the price, by what was charged?

    The list price of that day is not stored: it is what was charged and the discount together.
    """
    columns = [coupons.c[name] for name in Coupon.__slots__]
    query = (
        select(
            coupon_uses.c.id, coupon_uses.c.discount_credits, func.coalesce(transfers.c.credits, 0), *columns
        )
        .select_from(
            coupon_uses.join(coupons, coupons.c.id == coupon_uses.c.coupon_id).outerjoin(
                transfers, transfers.c.id == coupon_uses.c.transfer_id
            )
        )
        .execution_options(**STREAMED)
    )
    for use_id, discount, charged, *values in tx.connection.execute(query):
        given = apply_coupon(Coupon(*values), charged + discount).discount_credits
        if discount != given or charged + discount <= 0:
            sentence = f"it took {discount} off a price of {charged + discount}; its coupon takes {given}"
            yield Violation("discount_fits", "coupon_use", use_id, sentence)
