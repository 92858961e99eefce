"""Offer a mode of a platform domain at a price (the operator's `sublet domain offer`)."""

from sublet import audit
from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.names import shown
from sublet.errors import FieldError, validation_failed
from sublet.platform_domains import store
from sublet.platform_domains.find import find_platform_domain
from sublet.platform_domains.model import MODES, Offer

CREDITS_MAX = 10**12
PERIOD_DAYS_MAX = 3650
PERIOD_DAYS = 365


def offer_mode(
    tx: Tx,
    actor: Actor,
    identifier: str,
    mode: str,
    *,
    price_credits: int | None = None,
    renewal_price_credits: int | None = None,
    period_days: int | None = None,
) -> Offer:
    """Offer a mode, or change its offer; a withdrawn one is offered again. It counts from the next request.

    What is not said stays as it was; at first a renewal costs what a registration does, for 365 days.

    Raises, in this order:
        NotFound: no such platform domain.
        ValidationFailed: all wrong fields: mode, price_credits, renewal_price_credits, period_days. `free` costs 0.
    """
    platform_domain = find_platform_domain(tx, identifier)
    before = next((each for each in store.list_offers(tx, platform_domain.id) if each.mode == mode), None)
    price = price_credits if price_credits is not None else before.price_credits if before else None
    if price is None and mode == "free":
        price = 0
    renewal_price = renewal_price_credits
    if renewal_price is None:
        renewal_price = before.renewal_price_credits if before else price
    period = period_days if period_days is not None else before.period_days if before else PERIOD_DAYS
    errors = _errors(mode, price, renewal_price, period)
    if price is None or renewal_price is None or errors:
        raise validation_failed(errors)
    offer = Offer(platform_domain.id, mode, price, renewal_price, period, None)
    store.replace_offer(tx, offer)
    audit.record(
        tx,
        actor,
        "platform_domain.offer",
        "platform_domain",
        platform_domain.id,
        before=_terms(before) if before else None,
        after=_terms(offer),
    )
    return offer


def _errors(mode: str, price: int | None, renewal_price: int | None, period_days: int) -> list[FieldError]:
    errors = []
    if mode not in MODES:
        message = f"`{shown(mode)}` is no mode to offer. Give one of {', '.join(MODES)}."
        errors.append(FieldError("mode", "registration_mode_invalid", message))
    if price is None:
        errors.append(FieldError("price_credits", "required", "Say what a registration costs, in credits."))
    for field, value in (("price_credits", price), ("renewal_price_credits", renewal_price)):
        if value is None:
            continue
        if not 0 <= value <= CREDITS_MAX:
            errors.append(FieldError(field, "value_invalid", f"Give a price of 0 to {CREDITS_MAX} credits."))
        elif mode == "free" and value != 0:
            errors.append(
                FieldError(field, "value_invalid", "The mode free costs nothing. Give the mode `plus`.")
            )
    if not 1 <= period_days <= PERIOD_DAYS_MAX:
        errors.append(
            FieldError("period_days", "value_invalid", f"Give a term of 1 to {PERIOD_DAYS_MAX} days.")
        )
    return errors


def _terms(offer: Offer) -> dict[str, object]:
    return {
        "mode": offer.mode,
        "price_credits": offer.price_credits,
        "renewal_price_credits": offer.renewal_price_credits,
        "period_days": offer.period_days,
        "withdrawn_at": offer.withdrawn_at.isoformat() if offer.withdrawn_at else None,
    }
