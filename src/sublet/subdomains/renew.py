"""Renew a subdomain (spec, part 4, POST /subdomains/{fqdn}/renew)."""

from sublet import audit
from sublet.accounts.find import lock_acting_user
from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.credits.model import Outcome, Payable
from sublet.db import Tx
from sublet.errors import RegistrationClosed, RenewalNotAvailable, validation_failed
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains.model import Offer
from sublet.subdomains import store
from sublet.subdomains.charge import charge, check_payable, quote_and_check, renewal_price
from sublet.subdomains.find import find_in_account, refuse_unless_allowed
from sublet.subdomains.lifecycle import is_renewal_open, next_term_start, renewal_opens_at, term_end
from sublet.subdomains.model import Subdomain
from sublet.subdomains.sweep.plausible_clock import refuse_implausible_clock


def renew(tx: Tx, actor: Actor, identifier: str, payable: Payable) -> Outcome:
    """Renew a name for one more term, counted from its old expiry.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        ClockImplausible: the new expiry could be wrong.
        SubdomainNotFound: the user has no such name, or it is in the trash.
        SubdomainSuspended: the operator suspended it.
        RegistrationClosed: the platform domain closes.
        RenewalNotAvailable: the renewal window is not open; `details.opens_at` says when it opens.
        ValidationFailed: the coupon can't be used.
        PaymentConfirmationRequired, InsufficientScope, PriceChanged, InsufficientCredits: the price.
    """
    user = lock_acting_user(tx, actor)
    refuse_implausible_clock(tx)
    subdomain = find_in_account(tx, user.id, identifier)
    refuse_unless_allowed(subdomain, "renew", tx.now)
    refuse_closing(subdomain)
    if not is_renewal_open(subdomain, tx.now):
        raise RenewalNotAvailable(
            "This subdomain can't be renewed yet. Wait until `details.opens_at`.",
            details={
                "opens_at": renewal_opens_at(subdomain),
                "expires_at": subdomain.expires_at,
                "last_renewed_at": subdomain.last_renewed_at,
            },
        )
    return extend(tx, actor, user, subdomain, payable, action="renew")


def refuse_closing(subdomain: Subdomain) -> None:
    """Raise `RegistrationClosed` if the platform domain of a name closes, so that the name can't be renewed or, later, restored."""
    if subdomain.names_until is not None:
        raise RegistrationClosed(
            f"{subdomain.domain} closes on {subdomain.names_until:%Y-%m-%d}, so its names can't be renewed, "
            "or restored after their paid time. Choose a name under another platform domain before."
        )


def extend(
    tx: Tx,
    actor: Actor,
    user: User,
    subdomain: Subdomain,
    payable: Payable,
    *,
    action: str,
    automatic: bool = False,
) -> Outcome:
    """Add a term to a name for its renewal price. Renewal, automatic renewal and paid restores share this.

    `automatic` is recorded in the payment history.

    Raises, in this order:
        ValidationFailed: the coupon can't be used.
        PaymentConfirmationRequired, InsufficientScope, PriceChanged, InsufficientCredits: the price.
    """
    offer, list_price = _priced(tx, subdomain)
    coupon, errors = check_payable(
        tx,
        user,
        payable,
        action=action,
        platform_domain_id=subdomain.platform_domain_id,
        registration_mode=offer.mode,
        list_price=list_price,
    )
    if errors:
        raise validation_failed(errors)
    starts_at = next_term_start(subdomain, tx.now, offer.period_days)
    expires_at = term_end(starts_at, offer.period_days)
    quote = quote_and_check(
        tx,
        user,
        payable,
        coupon,
        action=action,
        fqdn=subdomain.fqdn,
        registration_mode=offer.mode,
        period_days=offer.period_days,
        list_price=list_price,
        new_expires_at=expires_at,
    )
    # From here on it must succeed.
    store.update_subdomain(
        tx, subdomain.id, expires_at=expires_at, last_renewed_at=tx.now, period_days=offer.period_days
    )
    outcome = charge(
        tx, user, quote, coupon, subdomain_id=subdomain.id, starts_at=starts_at, automatic=automatic
    )
    audit.record(
        tx,
        actor,
        f"subdomain.{action}",
        subdomain.id,
        before={"expires_at": subdomain.expires_at.isoformat()},
        after={"expires_at": expires_at.isoformat(), "charged_credits": quote.price},
    )
    return outcome


def list_price_of_renewal(tx: Tx, subdomain: Subdomain) -> int:
    """Return the current price of a renewal in credits, before coupons. Not checked: whether the name may be renewed now."""
    return _priced(tx, subdomain)[1]


def _priced(tx: Tx, subdomain: Subdomain) -> tuple[Offer, int]:
    offer = _offer_of(tx, subdomain)
    listed = platform_domain_store.find_label(tx, subdomain.platform_domain_id, subdomain.label)
    return offer, renewal_price(offer, listed)


def _offer_of(tx: Tx, subdomain: Subdomain) -> Offer:
    """Return the offer under which a name is renewed: the one of its mode, even if it is withdrawn."""
    for offer in platform_domain_store.list_offers(tx, subdomain.platform_domain_id):
        if offer.mode == subdomain.registration_type:
            return offer
    raise LookupError(
        f"the offer {subdomain.registration_type} of {subdomain.domain} is gone; offers are only withdrawn"
    )
