"""Retire a coupon (the operator's `sublet coupon retire`)."""

from sublet import audit
from sublet.audit import Actor
from sublet.credits import coupon_store
from sublet.credits.coupons import normalise_code
from sublet.credits.model import Coupon
from sublet.db import Tx
from sublet.dns.names import shown
from sublet.errors import Conflict, NotFound


def retire_coupon(tx: Tx, actor: Actor, code: str) -> Coupon:
    """Let a coupon be used no more; what it took off stays.

    Raises, in this order:
        NotFound: no such coupon.
        Conflict: retired already.
    """
    coupon = coupon_store.lock_coupon(tx, normalise_code(code))
    if coupon is None:
        raise NotFound(f"There is no coupon `{shown(code)}`. See `sublet coupon list`.")
    if coupon.retired_at is not None:
        raise Conflict(f"The coupon {coupon.code} is retired already. No action needed.")
    coupon_store.retire_coupon(tx, coupon.id)
    audit.record(tx, actor, "coupon.retire", "coupon", coupon.id, after={"retired_at": tx.now.isoformat()})
    retired = coupon_store.find_coupon_by_id(tx, coupon.id)
    assert retired is not None  # noqa: S101 - coupons are never deleted
    return retired
