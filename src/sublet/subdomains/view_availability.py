"""Check whether a user could register a name now (GET /availability, an extension; docs/spec-choices.md,
"Availability").
"""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from sublet.accounts.find import refuse_suspended
from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.credits.model import Payable
from sublet.credits.quote import check_payment, make_quote
from sublet.credits.store import find_balance
from sublet.db import Tx
from sublet.errors import Refusal, validation_failed
from sublet.platform_domains.labels import MODES_BY_CLASS
from sublet.platform_domains.model import Offer
from sublet.structs import replace
from sublet.subdomains import store
from sublet.subdomains.availability import (
    RequestedName,
    find_requested_name,
    refuse_closed,
    refuse_unavailable,
)
from sublet.subdomains.charge import refuse_over_daily_credits, registration_price, renewal_price
from sublet.subdomains.dates.timeline import future_events
from sublet.subdomains.lifecycle import term_end
from sublet.subdomains.model import Register
from sublet.subdomains.modes import NOTHING_WITHHELD
from sublet.subdomains.naming import find_named_platform_domains, resolve_name
from sublet.subdomains.sweep.plausible_clock import refuse_implausible_clock


class Availability(Struct, frozen=True):
    """The availability of a name.

    `refusal` is the error that a registration would raise now, or None if it would succeed.

    `available_at` is the release date of a name that the user holds or held, if neither the user nor the
    operator acts before it. `modes` are the offers with the name's prices. If the registration is refused for
    another reason than the price, `modes` is empty.
    """

    fqdn: str
    refusal: Refusal | None
    available_at: datetime | None
    modes: tuple[Offer, ...]


def view_availability(
    tx: Tx,
    actor: Actor,
    user: User,
    command: Register,
    *,
    free_quota: int,
    may_spend: bool,
    withheld: Mapping[str, datetime] = NOTHING_WITHHELD,
) -> Availability:
    """Return the availability of a name for a registration with `confirm` and valid nameservers, but without
    a mode or a coupon.

    The checks and parameters are those of `register`, without its locks. `may_spend` is true if the token has
    the scope credits:spend.

    Raises, in this order:
        PlatformDomainNotFound, TokenRestricted: the user can't see such a platform domain with this token;
            the token is for other names.
        ValidationFailed: all errors in the name.
    """
    found = find_named_platform_domains(tx, command)
    platform_domain, label, errors = resolve_name(tx, actor, user, command, found)
    requested = find_requested_name(tx, user, platform_domain, label, None, free_quota, withheld=withheld)
    if errors or requested is None:
        raise validation_failed(errors)
    modes: tuple[Offer, ...] = ()
    refusal = None
    try:
        refuse_suspended(user)
        refuse_implausible_clock(tx)
        refuse_closed(requested.platform_domain)
        refuse_unavailable(tx, user, requested)
        if isinstance(requested.offer, Refusal):
            raise requested.offer
        modes = _modes(requested)
        _check_payment(tx, actor, user, requested, requested.offer, may_spend=may_spend)
    except Refusal as refused:
        refusal = refused
    return Availability(requested.fqdn, refusal, _available_at(tx, user, requested.fqdn), modes)


def _own_renewal_price(requested: RequestedName) -> int | None:
    return None if requested.listed is None else requested.listed.renewal_price_credits


def _modes(requested: RequestedName) -> tuple[Offer, ...]:
    fitting = [
        requested.offers[mode] for mode in MODES_BY_CLASS[requested.label_class] if mode in requested.offers
    ]
    return tuple(
        replace(
            offer,
            price_credits=registration_price(offer, requested.listed),
            renewal_price_credits=renewal_price(offer, _own_renewal_price(requested)),
        )
        for offer in fitting
        if requested.quota.allows(offer.mode)
    )


def _check_payment(
    tx: Tx, actor: Actor, user: User, requested: RequestedName, offer: Offer, *, may_spend: bool
) -> None:
    quote = make_quote(
        action="register",
        fqdn=requested.fqdn,
        registration_mode=offer.mode,
        period_days=offer.period_days,
        list_price=requested.list_price,
        coupon=None,
        balance=find_balance(tx, user.id),
        new_expires_at=term_end(tx.now, offer.period_days),
    )
    check_payment(quote, Payable(confirm=True, may_spend=may_spend))
    refuse_over_daily_credits(tx, actor, quote.price)


def _available_at(tx: Tx, user: User, fqdn: str) -> datetime | None:
    holder = store.find_unreleased(tx, fqdn)
    if holder is None or holder.user_id != user.id:
        return None
    return next((each.at for each in future_events(holder, tx.now) if each.event == "released"), None)
