"""Renew a subdomain, for its user (spec, part 4, POST /subdomains/{fqdn}/renew) or the operator (`sublet
subdomain renew`).
"""

from datetime import datetime

from sublet import audit
from sublet.accounts.find import find_member, lock_holder
from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.credits.model import Outcome, Payable
from sublet.db import Tx, together
from sublet.errors import Conflict, RegistrationClosed, RenewalNotAvailable, validation_failed
from sublet.platform_domains.offers import period_errors
from sublet.subdomains import store
from sublet.subdomains.charge import add_term, charge, check_payable, find_renewal_offer, quote_and_check
from sublet.subdomains.find import (
    find_in_account,
    lock_for_operator,
    refuse_purged,
    refuse_unless_allowed,
    reread,
)
from sublet.subdomains.lifecycle import (
    FARTHEST,
    is_renewal_open,
    is_renewed_by_operator,
    next_term_start,
    renewal_opens_at,
    term_end,
)
from sublet.subdomains.model import Subdomain
from sublet.subdomains.sweep.plausible_clock import refuse_implausible_clock


def renew(tx: Tx, actor: Actor, identifier: str, payable: Payable) -> Outcome:
    """Renew a name for one more term from its old expiry.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        ClockImplausible: the new expiry could be wrong.
        SubdomainNotFound: the user has no such name, the token is not for the name, or the name is in the
            trash.
        SubdomainSuspended: the operator suspended the name.
        RegistrationClosed: the platform domain closes.
        RenewalNotAvailable: only the operator renews the name; the renewal window is not open before
            `details.opens_at`.
        ValidationFailed: `max_credits` is negative; the coupon can't be used.
        PaymentConfirmationRequired, InsufficientScope, PriceChanged, InsufficientCredits, TokenRestricted:
            see `quote_and_check`.
    """
    user = lock_holder(tx, actor)
    refuse_implausible_clock(tx)
    subdomain = find_in_account(tx, actor, identifier)
    refuse_unless_allowed(subdomain, "renew", tx.now)
    refuse_closing(subdomain, tx.now)
    refuse_renewed_by_operator(subdomain)
    if not is_renewal_open(subdomain, tx.now):
        raise _not_available(
            subdomain,
            f"This subdomain can't be renewed before {renewal_opens_at(subdomain):%Y-%m-%d %H:%M} UTC. "
            "Wait until then.",
        )
    return extend(tx, actor, user, subdomain, payable, action="renew")


def refuse_closing(subdomain: Subdomain, now: datetime) -> None:
    """Raise `RegistrationClosed` if the platform domain of a name closes or has closed, because its names
    can't be renewed, or restored after their expiry.
    """
    if (until := subdomain.names_until) is None:
        return
    if until <= now:
        reason = f"{subdomain.domain} closed on {until:%Y-%m-%d}, so its names can't be renewed or restored."
    else:
        reason = (
            f"{subdomain.domain} closes on {until:%Y-%m-%d}, so its names can't be renewed, or restored "
            "after their expiry."
        )
    raise RegistrationClosed(f"{reason} Choose a name under another platform domain.")


def refuse_renewed_by_operator(subdomain: Subdomain) -> None:
    """Raise `RenewalNotAvailable` if only the operator renews a name."""
    if is_renewed_by_operator(subdomain):
        raise _not_available(
            subdomain, "The operator renews this subdomain. Open a ticket to ask for a renewal."
        )


def _not_available(subdomain: Subdomain, message: str) -> RenewalNotAvailable:
    return RenewalNotAvailable(
        message,
        details={
            "opens_at": renewal_opens_at(subdomain),
            "expires_at": subdomain.expires_at,
            "last_renewed_at": subdomain.last_renewed_at,
        },
    )


def operator_renew(tx: Tx, actor: Actor, identifier: str, days: int | None = None) -> Subdomain:
    """Add a term of `days` to a name in any mode, without a charge and also outside the renewal window
    (`sublet subdomain renew`).

    `days` defaults to the length of the current term. A name in the trash stays there, but its restore
    becomes free.

    Raises, in this order:
        NotFound: there is no such name.
        ClockImplausible: the new expiry could be wrong.
        ValidationFailed: the days are out of range.
        Conflict: the name was purged; its expiry is more than `FARTHEST` ahead.
    """
    subdomain = lock_for_operator(tx, identifier)
    refuse_implausible_clock(tx)
    period_days = subdomain.period_days if days is None else days
    if errors := period_errors("days", period_days):
        raise validation_failed(errors)
    refuse_purged(subdomain)
    if subdomain.expires_at > tx.now + FARTHEST:
        raise Conflict(
            f"{subdomain.fqdn} expires on {subdomain.expires_at:%Y-%m-%d}, and can't be renewed any further. "
            "No action needed."
        )
    user = find_member(tx, subdomain.user_id).user
    extend(tx, actor, user, subdomain, Payable(), action="renew", given_days=period_days)
    return reread(tx, subdomain)


def extend(
    tx: Tx,
    actor: Actor,
    user: User,
    subdomain: Subdomain,
    payable: Payable,
    *,
    action: str,
    automatic: bool = False,
    given_days: int | None = None,
) -> Outcome:
    """Add a term to a name for its renewal price: for renewals, automatic renewals and paid restores.

    `automatic` changes the description of the charge. `given_days` is a free term from the operator.

    Raises, in this order:
        RenewalNotAvailable: only the operator renews the name.
        ValidationFailed: `max_credits` is negative; the coupon can't be used.
        PaymentConfirmationRequired, InsufficientScope, PriceChanged, InsufficientCredits, TokenRestricted:
            see `quote_and_check`.
    """
    if given_days is None:
        refuse_renewed_by_operator(subdomain)
        offer, list_price = find_renewal_offer(tx, subdomain)
        mode, period_days = offer.mode, offer.period_days
    else:
        offer, list_price = None, 0
        mode, period_days = subdomain.registration_type, given_days
    coupon, errors = check_payable(tx, user, payable, offer, action=action, list_price=list_price)
    if errors:
        raise validation_failed(errors)
    starts_at = next_term_start(subdomain, tx.now, period_days)
    expires_at = term_end(starts_at, period_days)
    quote = quote_and_check(
        tx,
        actor,
        user,
        payable,
        coupon,
        action=action,
        fqdn=subdomain.fqdn,
        registration_mode=mode,
        period_days=period_days,
        list_price=list_price,
        new_expires_at=expires_at,
    )
    store.update_subdomain(
        tx, subdomain.id, expires_at=expires_at, last_renewed_at=tx.now, period_days=period_days
    )
    entry_id = charge(
        tx, actor, user, quote, coupon, subdomain_id=subdomain.id, starts_at=starts_at, automatic=automatic
    )
    with together(tx):
        outcome = add_term(tx, quote, entry_id, subdomain_id=subdomain.id, starts_at=starts_at)
        audit.record(
            tx,
            actor,
            f"subdomain.{action}",
            subdomain.id,
            before={"expires_at": subdomain.expires_at.isoformat()},
            after={"expires_at": expires_at.isoformat(), "charged_credits": quote.price},
        )
    return outcome
