"""Add a coupon (the operator's `sublet coupon add`)."""

import re
from dataclasses import dataclass
from datetime import datetime

from sublet import audit
from sublet.audit import Actor
from sublet.credits import coupon_store
from sublet.credits.coupons import normalise_code
from sublet.credits.fields import CREDITS_MAX
from sublet.credits.model import Coupon
from sublet.db import Tx
from sublet.dns.names import shown
from sublet.errors import Conflict, FieldError, validation_failed
from sublet.platform_domains.find import find_platform_domain

COUPON_ACTIONS = ("register", "renew", "restore")
COUPON_MODES = ("plus", "premium", "special")
"""What costs credits; a coupon for `free` could never be used."""
USES_MAX = 2**31 - 1
_CODE = re.compile(r"[A-Z0-9][A-Z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class CouponTerms:
    """A coupon as the operator words it: either percent or credits off; None means no limit or restriction.

    `valid_until` is the first instant at which it is no longer valid.
    """

    percent: int | None = None
    fixed_credits: int | None = None
    max_uses: int | None = None
    max_uses_per_user: int | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    action: str | None = None
    domain: str | None = None
    registration_mode: str | None = None


def add_coupon(tx: Tx, actor: Actor, code: str, terms: CouponTerms) -> Coupon:
    """Add a coupon; codes are stored in capitals and never used twice, retired ones neither.

    Raises, in this order:
        ValidationFailed: all wrong fields.
        NotFound: no such platform domain.
        Conflict: there is, or was, a coupon of this code.
    """
    code = normalise_code(code)
    errors = _errors(tx, code, terms)
    if errors:
        raise validation_failed(errors)
    platform_domain = find_platform_domain(tx, terms.domain) if terms.domain is not None else None
    if coupon_store.lock_coupon(tx, code) is not None:
        raise Conflict(f"There is, or was, a coupon {code}. Take another code.")
    coupon_id = coupon_store.insert_coupon(
        tx,
        code=code,
        kind="percent" if terms.percent is not None else "fixed",
        value=terms.percent if terms.percent is not None else terms.fixed_credits,
        max_uses=terms.max_uses,
        max_uses_per_user=terms.max_uses_per_user,
        valid_from=terms.valid_from,
        valid_until=terms.valid_until,
        action=terms.action,
        platform_domain_id=platform_domain.id if platform_domain else None,
        registration_mode=terms.registration_mode,
    )
    coupon = coupon_store.find_coupon_by_id(tx, coupon_id)
    assert coupon is not None  # noqa: S101 - just added
    audit.record(tx, actor, "coupon.add", "coupon", coupon_id, after=_described(coupon))
    return coupon


def _errors(tx: Tx, code: str, terms: CouponTerms) -> list[FieldError]:
    errors = []
    if not _CODE.fullmatch(code):
        message = (
            f"`{shown(code)}` is no code. Give 1 to 64 letters and digits of ASCII, hyphens and underscores."
        )
        errors.append(FieldError("code", "value_invalid", message))
    errors += _value_errors(terms)
    for field, value in (("max_uses", terms.max_uses), ("max_uses_per_user", terms.max_uses_per_user)):
        if value is not None and not 1 <= value <= USES_MAX:
            errors.append(FieldError(field, "value_invalid", "Give 1 or more; leave it out for no limit."))
    if terms.valid_until is not None and terms.valid_until <= max(tx.now, terms.valid_from or tx.now):
        errors.append(
            FieldError(
                "valid_until",
                "value_invalid",
                "Its time would be over before it begins. Give a later valid_until.",
            )
        )
    for field, text, allowed in (
        ("action", terms.action, COUPON_ACTIONS),
        ("registration_mode", terms.registration_mode, COUPON_MODES),
    ):
        if text is not None and text not in allowed:
            errors.append(FieldError(field, "value_invalid", f"Give one of {', '.join(allowed)}."))
    return errors


def _value_errors(terms: CouponTerms) -> list[FieldError]:
    if (terms.percent is None) == (terms.fixed_credits is None):
        return [FieldError("percent", "required", "Say what it takes off: either percent or credits.")]
    if terms.percent is not None and not 1 <= terms.percent <= 100:
        return [FieldError("percent", "value_invalid", "Give 1 to 100 percent.")]
    if terms.fixed_credits is not None and not 1 <= terms.fixed_credits <= CREDITS_MAX:
        return [FieldError("fixed_credits", "value_invalid", f"Give 1 to {CREDITS_MAX} credits.")]
    return []


def _described(coupon: Coupon) -> dict[str, object]:
    described: dict[str, object] = {}
    for name in Coupon.__slots__:
        value = getattr(coupon, name)
        if name not in ("id", "uses", "retired_at", "created_at") and value is not None:
            described[name] = value.isoformat() if isinstance(value, datetime) else value
    return described
