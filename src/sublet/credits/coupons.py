"""Apply, add and retire coupons (docs/spec-choices.md, "Modes and prices")."""

import re
from datetime import datetime

from msgspec import Struct

from sublet import audit
from sublet.audit import Actor
from sublet.credits import store
from sublet.credits.ledger import CREDITS_MAX
from sublet.credits.model import AppliedCoupon, Coupon
from sublet.db import Tx
from sublet.dns.names import shown
from sublet.errors import Conflict, FieldError, NotFound, check_one_of, validation_failed
from sublet.platform_domains.platform_domain import find_platform_domain


def normalise_code(text: str) -> str:
    """Return a coupon's code in its stored form: in capitals, without surrounding spaces."""
    return text.strip().upper()


def apply_coupon(coupon: Coupon, list_price: int) -> AppliedCoupon:
    """Return a coupon's discount on a price in credits: floor(price x percent / 100), or the fixed value up
    to the price.
    """
    discount = list_price * coupon.value // 100 if coupon.kind == "percent" else min(coupon.value, list_price)
    return AppliedCoupon(coupon.code, coupon.kind, coupon.value, discount)


def coupon_problem(
    coupon: Coupon | None,
    *,
    now: datetime,
    uses_by_user: int,
    action: str,
    platform_domain_id: int,
    registration_mode: str,
    list_price: int,
) -> FieldError | None:
    """Return the error if a coupon can't be used for an operation, or None.

    Codes, in the order they are checked: `coupon_invalid` (the coupon doesn't exist, is retired, not valid at
    this time, or used up); `coupon_not_applicable` (the coupon is for another operation, platform domain or
    mode, the operation is free, or the discount is rounded down to 0).
    """
    if coupon is None or coupon.retired_at is not None:
        message = "There is no such coupon. Check the code, or leave it out."
        return FieldError("coupon_code", "coupon_invalid", message)
    invalid = _time_or_limit_problem(coupon, now, uses_by_user)
    if invalid:
        return FieldError("coupon_code", "coupon_invalid", invalid)
    not_applicable = None
    if coupon.action not in (None, action):
        not_applicable = f"This coupon is for another purpose ({coupon.action}). Leave it out."
    elif coupon.platform_domain_id not in (None, platform_domain_id):
        not_applicable = "This coupon is for another platform domain. Leave it out."
    elif coupon.registration_mode not in (None, registration_mode):
        not_applicable = (
            f"This coupon is for names registered as {coupon.registration_mode}. Choose that, or leave the "
            "coupon out."
        )
    elif list_price == 0:
        not_applicable = "This is free, so the coupon was not used. Leave it out."
    elif apply_coupon(coupon, list_price).discount_credits == 0:
        not_applicable = "This coupon takes less than one credit off, so it was not used. Leave it out."
    return FieldError("coupon_code", "coupon_not_applicable", not_applicable) if not_applicable else None


def _time_or_limit_problem(coupon: Coupon, now: datetime, uses_by_user: int) -> str | None:
    if coupon.valid_from is not None and now < coupon.valid_from:
        return "This coupon is not valid yet. Leave it out, or wait."
    if coupon.valid_until is not None and now >= coupon.valid_until:
        return "This coupon is no longer valid. Leave it out."
    if coupon.max_uses is not None and coupon.uses >= coupon.max_uses:
        return "This coupon is used up. Leave it out."
    if coupon.max_uses_per_user is not None and uses_by_user >= coupon.max_uses_per_user:
        return "You have used this coupon as often as you may. Leave it out."
    return None


COUPON_ACTIONS = ("register", "renew", "restore")
COUPON_MODES = ("plus", "premium", "special")
"""The modes that can cost credits. A coupon for the mode `free` would have no effect."""
USES_MAX = 2**31 - 1
_CODE = re.compile(r"[A-Z0-9][A-Z0-9_-]{0,63}")


class CouponTerms(Struct, frozen=True):
    """The terms of a new coupon.

    Either `percent` or `fixed_credits` is set. In the other fields None means no limit or restriction.

    The coupon is valid before the instant `valid_until`, not at it.
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
    """Add a coupon. Its code is stored in capitals.

    Raises, in this order:
        ValidationFailed: all invalid fields.
        NotFound: there is no such platform domain.
        Conflict: a coupon with this code exists, retired or not.
    """
    code = normalise_code(code)
    errors = _check_terms(tx, code, terms)
    if errors:
        raise validation_failed(errors)
    platform_domain = find_platform_domain(tx, terms.domain) if terms.domain is not None else None
    if store.lock_coupon(tx, code) is not None:
        raise Conflict(
            f"The code {code} belongs to another coupon, which may be retired. Choose another code."
        )
    coupon = store.insert_coupon(
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
    audit.record(tx, actor, "coupon.add", coupon.id, after=_audited_terms(coupon))
    return coupon


def _check_terms(tx: Tx, code: str, terms: CouponTerms) -> list[FieldError]:
    errors = []
    if not _CODE.fullmatch(code):
        message = (
            f"`{shown(code)}` is not a valid code. Give 1 to 64 ASCII letters, digits, hyphens and "
            "underscores."
        )
        errors.append(FieldError("code", "value_invalid", message))
    errors += _check_discount(terms)
    for field, value in (("max_uses", terms.max_uses), ("max_uses_per_user", terms.max_uses_per_user)):
        if value is not None and not 1 <= value <= USES_MAX:
            errors.append(
                FieldError(field, "value_invalid", f"Give 1 to {USES_MAX}, or leave it out for no limit.")
            )
    if terms.valid_until is not None and terms.valid_until <= max(tx.now, terms.valid_from or tx.now):
        message = (
            "The coupon would never be valid: valid_until is past, or not after valid_from. Give a later "
            "valid_until."
        )
        errors.append(FieldError("valid_until", "value_invalid", message))
    errors += check_one_of("action", terms.action, COUPON_ACTIONS)
    errors += check_one_of("registration_mode", terms.registration_mode, COUPON_MODES)
    return errors


def _check_discount(terms: CouponTerms) -> list[FieldError]:
    if (terms.percent is None) == (terms.fixed_credits is None):
        return [FieldError("percent", "required", "Give either a discount in percent or one in credits.")]
    if terms.percent is not None and not 1 <= terms.percent <= 100:
        return [FieldError("percent", "value_invalid", "Give 1 to 100 percent.")]
    if terms.fixed_credits is not None and not 1 <= terms.fixed_credits <= CREDITS_MAX:
        return [FieldError("fixed_credits", "value_invalid", f"Give 1 to {CREDITS_MAX} credits.")]
    return []


def _audited_terms(coupon: Coupon) -> dict[str, object]:
    terms: dict[str, object] = {}
    for name in Coupon.__struct_fields__:
        value = getattr(coupon, name)
        if name not in ("id", "uses", "retired_at", "created_at") and value is not None:
            terms[name] = value.isoformat() if isinstance(value, datetime) else value
    return terms


def retire_coupon(tx: Tx, actor: Actor, code: str) -> Coupon:
    """Retire a coupon, so that no request can use it any more. Past discounts stay.

    Raises, in this order:
        NotFound: there is no such coupon.
        Conflict: the coupon is retired already.
    """
    coupon = store.lock_coupon(tx, normalise_code(code))
    if coupon is None:
        raise NotFound(f"There is no coupon `{shown(code)}`. See `sublet coupon list`.")
    if coupon.retired_at is not None:
        raise Conflict(f"The coupon {coupon.code} is retired already. No action needed.")
    audit.record(tx, actor, "coupon.retire", coupon.id, after={"retired_at": tx.now.isoformat()})
    return store.retire_coupon(tx, coupon.id)
