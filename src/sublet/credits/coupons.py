"""What a coupon does to a price, and when it may be used (docs/spec-choices.md, "Modes and prices")."""

from datetime import datetime

from sublet.credits.model import AppliedCoupon, Coupon
from sublet.errors import FieldError


def normalise_code(text: str) -> str:
    """Return a coupon's code as it is stored: without surrounding spaces, in capitals."""
    return text.strip().upper()


def apply_coupon(coupon: Coupon, list_price: int) -> AppliedCoupon:
    """Return what a coupon takes off a price in credits: floor(price x percent / 100), or up to its fixed value."""
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
    """Return why a coupon can't be used for this, or None when it can.

    Checked in this order: it exists, is not retired, its time, its limits in all and per user (`coupon_invalid`);
    then operation, platform domain, mode and a price to take something off (`coupon_not_applicable`).
    """
    if coupon is None or coupon.retired_at is not None:
        return FieldError(
            "coupon_code",
            "coupon_invalid",
            "There is no such coupon. Check the code, or send the request without it.",
        )
    invalid = _time_or_limit_problem(coupon, now, uses_by_user)
    if invalid:
        return FieldError("coupon_code", "coupon_invalid", invalid)
    not_applicable = None
    if coupon.action not in (None, action):
        not_applicable = (
            f"This coupon is for another operation ({coupon.action}). Send the request without it."
        )
    elif coupon.platform_domain_id not in (None, platform_domain_id):
        not_applicable = "This coupon is for another platform domain. Send the request without it."
    elif coupon.registration_mode not in (None, registration_mode):
        not_applicable = f"This coupon is for the mode {coupon.registration_mode}. Choose that mode, or send the request without the coupon."
    elif list_price == 0:
        not_applicable = "This costs nothing, so the coupon was not used; send the request without it."
    return FieldError("coupon_code", "coupon_not_applicable", not_applicable) if not_applicable else None


def _time_or_limit_problem(coupon: Coupon, now: datetime, uses_by_user: int) -> str | None:
    if coupon.valid_from is not None and now < coupon.valid_from:
        return "This coupon is not valid yet. Send the request without it, or wait until it is."
    if coupon.valid_until is not None and now >= coupon.valid_until:
        return "This coupon is no longer valid. Send the request without it."
    if coupon.max_uses is not None and coupon.uses >= coupon.max_uses:
        return "This coupon is used up. Send the request without it."
    if coupon.max_uses_per_user is not None and uses_by_user >= coupon.max_uses_per_user:
        return "You have used this coupon as often as it may be. Send the request without it."
    return None
