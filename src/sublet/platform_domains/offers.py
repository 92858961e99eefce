"""The registration modes that a platform domain offers (the operator's `sublet domain offer`)."""

from sublet import audit
from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.names import shown
from sublet.errors import Conflict, FieldError, NotFound, validation_failed
from sublet.platform_domains import store
from sublet.platform_domains.model import CREDITS_MAX, MODES, Offer
from sublet.platform_domains.platform_domain import find_platform_domain
from sublet.structs import replace

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
    """Offer a mode, change its offer, or offer a withdrawn mode again.

    The offer applies from the next request.

    Omitted prices and terms stay the same. In a first offer the default renewal price is the price, and the
    default term is 365 days.

    Raises, in this order:
        NotFound: no such platform domain.
        ValidationFailed: any wrong fields: mode, price_credits, renewal_price_credits (0 for the mode
            `free`), period_days.
    """
    platform_domain = find_platform_domain(tx, identifier)
    before = _find_offer(tx, platform_domain.id, mode)
    price = price_credits if price_credits is not None else before.price_credits if before else None
    if price is None and mode == "free":
        price = 0
    renewal_price = renewal_price_credits
    if renewal_price is None:
        renewal_price = before.renewal_price_credits if before else price
    period = period_days if period_days is not None else before.period_days if before else PERIOD_DAYS
    errors = _check_terms(mode, price, renewal_price, period)
    if price is None or renewal_price is None or errors:
        raise validation_failed(errors)
    offer = Offer(platform_domain.id, mode, price, renewal_price, period, None)
    if offer == before:
        return offer
    store.replace_offer(tx, offer)
    was = _describe(before) if before else None
    audit.record(tx, actor, "platform_domain.offer", platform_domain.id, before=was, after=_describe(offer))
    return offer


def withdraw_offer(tx: Tx, actor: Actor, identifier: str, mode: str) -> Offer:
    """End new registrations in a mode.

    Names in this mode can still be renewed at the renewal price of the offer.

    Raises, in this order:
        NotFound: no such platform domain; the mode was never offered.
        Conflict: the offer is withdrawn already.
    """
    platform_domain = find_platform_domain(tx, identifier)
    offer = _find_offer(tx, platform_domain.id, mode)
    if offer is None:
        raise NotFound(
            f"{platform_domain.domain} does not offer the mode {shown(mode)}. See `sublet domain show`."
        )
    if offer.withdrawn_at is not None:
        raise Conflict(f"The mode {mode} of {platform_domain.domain} is withdrawn already. No action needed.")
    withdrawn = replace(offer, withdrawn_at=tx.now)
    store.replace_offer(tx, withdrawn)
    after = {"mode": mode, "withdrawn_at": tx.now.isoformat()}
    audit.record(tx, actor, "platform_domain.withdraw_offer", platform_domain.id, after=after)
    return withdrawn


def _find_offer(tx: Tx, platform_domain_id: int, mode: str) -> Offer | None:
    return next((each for each in store.list_offers(tx, platform_domain_id) if each.mode == mode), None)


def _check_terms(
    mode: str, price: int | None, renewal_price: int | None, period_days: int
) -> list[FieldError]:
    errors = []
    if mode not in MODES:
        message = f"`{shown(mode)}` can't be offered. Give one of {', '.join(MODES)}."
        errors.append(FieldError("mode", "registration_mode_invalid", message))
    if price is None:
        errors.append(
            FieldError("price_credits", "required", "Give the price of a registration, in credits.")
        )
    for field, value in (("price_credits", price), ("renewal_price_credits", renewal_price)):
        if value is None:
            continue
        if not 0 <= value <= CREDITS_MAX:
            errors.append(FieldError(field, "value_invalid", f"Give a price of 0 to {CREDITS_MAX} credits."))
        elif mode == "free" and value != 0:
            message = "The mode free costs nothing. Give the mode `plus`."
            errors.append(FieldError(field, "value_invalid", message))
    return [*errors, *period_errors("period_days", period_days)]


def period_errors(field: str, period_days: int) -> list[FieldError]:
    """Return an error if the length of a term is below 1 or above `PERIOD_DAYS_MAX` days."""
    if 1 <= period_days <= PERIOD_DAYS_MAX:
        return []
    return [FieldError(field, "value_invalid", f"Give a term of 1 to {PERIOD_DAYS_MAX} days.")]


def _describe(offer: Offer) -> dict[str, object]:
    return {
        "mode": offer.mode,
        "price_credits": offer.price_credits,
        "renewal_price_credits": offer.renewal_price_credits,
        "period_days": offer.period_days,
        "withdrawn_at": offer.withdrawn_at.isoformat() if offer.withdrawn_at else None,
    }
