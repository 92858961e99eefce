"""Compute and charge the price of register, renew and restore: coupon, quote, charge and term."""

from datetime import datetime, timedelta

from sublet.accounts.model import User
from sublet.accounts.sessions import require_recent_sign_in
from sublet.audit import Actor
from sublet.counted import counted
from sublet.credits import store as credit_store
from sublet.credits.coupons import apply_coupon, coupon_problem, normalise_code
from sublet.credits.ledger import NewEntry
from sublet.credits.model import Coupon, Outcome, Payable, Quote
from sublet.credits.quote import check_payment, make_quote
from sublet.db import Tx
from sublet.errors import FieldError, SignInRequired, TokenRestricted
from sublet.platform_domains.model import Label, Offer
from sublet.platform_domains.store import find_renewal
from sublet.subdomains import store
from sublet.subdomains.lifecycle import is_renewed_by_operator
from sublet.subdomains.model import Subdomain

DAY = timedelta(days=1)
_DESCRIPTIONS = {"register": "Registration", "renew": "Renewal", "restore": "Restore"}


def registration_price(offer: Offer, listed: Label | None) -> int:
    """Return the list price of a registration in credits: the label's own price (not in the mode `free`), or
    the offer's.
    """
    if offer.mode != "free" and listed is not None and listed.price_credits is not None:
        return listed.price_credits
    return offer.price_credits


def renewal_price(offer: Offer, own_price: int | None) -> int:
    """Return the list price of a renewal in credits: the label's own renewal price (not in the mode `free`),
    or the offer's.
    """
    return offer.renewal_price_credits if offer.mode == "free" or own_price is None else own_price


def find_renewal_offer(tx: Tx, subdomain: Subdomain) -> tuple[Offer, int]:
    """Return the offer of a name's mode, even if it is withdrawn, and the list price of a renewal."""
    offer, own_price = find_renewal(
        tx, subdomain.platform_domain_id, subdomain.registration_type, subdomain.label
    )
    return offer, renewal_price(offer, own_price)


def list_price_of_renewal(tx: Tx, subdomain: Subdomain) -> int:
    """Return the current price of a renewal in credits, before coupons.

    It is 0 if only the operator renews the name.

    Not checked: the renewal window and the name's state.
    """
    return 0 if is_renewed_by_operator(subdomain) else find_renewal_offer(tx, subdomain)[1]


def check_payable(
    tx: Tx,
    user: User,
    payable: Payable,
    offer: Offer | None,
    *,
    action: str,
    list_price: int,
) -> tuple[Coupon | None, list[FieldError]]:
    """Lock and return the coupon of a request, with the errors in `max_credits` and `coupon_code`.

    Codes: `value_invalid` (max_credits), `coupon_invalid`, `coupon_not_applicable`. Without an offer the
    price is unknown, so `coupon_not_applicable` isn't reported.
    """
    errors = []
    if payable.max_credits is not None and payable.max_credits < 0:
        errors.append(FieldError("max_credits", "value_invalid", "This is negative. Give 0 or more credits."))
    if payable.coupon_code is None:
        return None, errors
    coupon = credit_store.lock_coupon(tx, normalise_code(payable.coupon_code))
    problem = coupon_problem(
        coupon,
        now=tx.now,
        uses_by_user=credit_store.count_uses_by_user(tx, coupon.id, user.id) if coupon else 0,
        action=action,
        platform_domain_id=offer.platform_domain_id if offer else 0,
        registration_mode=offer.mode if offer else "",
        list_price=list_price,
    )
    if problem is not None and (offer is not None or problem.code == "coupon_invalid"):
        return None, [*errors, problem]
    return coupon, errors


def quote_and_check(
    tx: Tx,
    actor: Actor,
    user: User,
    payable: Payable,
    coupon: Coupon | None,
    *,
    action: str,
    fqdn: str,
    registration_mode: str,
    period_days: int,
    list_price: int,
    new_expires_at: datetime,
) -> Quote:
    """Return the quote of an operation, or raise if the operation may not be completed.

    Raises, in this order:
        PaymentConfirmationRequired, InsufficientScope, PriceChanged, InsufficientCredits: see
            `quote.check_payment`.
        SignInRequired: it costs credits, and the session's last sign-in is more than ten minutes ago. It has
            the quote, so that a page goes on showing the price.
        TokenRestricted: see `refuse_over_daily_credits`.
    """
    quote = make_quote(
        action=action,
        fqdn=fqdn,
        registration_mode=registration_mode,
        period_days=period_days,
        list_price=list_price,
        coupon=apply_coupon(coupon, list_price) if coupon else None,
        # The client never sees the quote of a free operation, so the balance is neither read nor locked.
        balance=credit_store.lock_balance(tx, user.id) if list_price > 0 else 0,
        new_expires_at=new_expires_at,
    )
    check_payment(quote, payable)
    if quote.price > 0:
        try:
            require_recent_sign_in(tx, actor)
        except SignInRequired as refusal:
            refusal.quote = quote
            raise
    refuse_over_daily_credits(tx, actor, quote.price)
    return quote


def refuse_over_daily_credits(tx: Tx, actor: Actor, price: int) -> None:
    """Raise `TokenRestricted` if a charge would exceed the token's `daily_credits` within 24 hours.

    Charges by tokens that share the token's budget count too. Refunds don't count. The lock of the user
    serializes charges.
    """
    limit = actor.restrictions.daily_credits
    if limit is None or price == 0 or actor.token_id is None:
        return
    spent = credit_store.sum_charges(tx, actor.token_id, tx.now - DAY)
    if spent + price > limit:
        raise TokenRestricted(
            f"This costs {counted(price, 'credit')}. This token may spend {limit:,} within 24 hours, of "
            f"which {spent:,} are spent. "
            "Wait, or use another token.",
            details={"restriction": "daily_credits", "daily_credits": limit, "spent_credits": spent},
        )


def charge(
    tx: Tx,
    actor: Actor,
    user: User,
    quote: Quote,
    coupon: Coupon | None,
    *,
    subdomain_id: int,
    starts_at: datetime,
    automatic: bool = False,
) -> int | None:
    """Charge the quoted price, and store the use of the coupon. Return the ledger entry's id, or None.

    The reference of the charge identifies the term, so that a term can't be charged twice.
    """
    entry_id = None
    description = _DESCRIPTIONS[quote.action]
    if automatic:
        description = f"Automatic {description.lower()}"
    if quote.price > 0:
        entry_id = credit_store.post(
            tx,
            NewEntry(
                user_id=user.id,
                kind="charge",
                credits=-quote.price,
                reference=charge_reference(quote.action, subdomain_id, starts_at),
                description=f"{description} of {quote.fqdn} ({quote.registration_mode}, "
                f"{counted(quote.period_days, 'day')})",
                subdomain_id=subdomain_id,
                subdomain=quote.fqdn,
                token_id=actor.token_id,
            ),
        )
    if coupon is not None and quote.coupon is not None:
        credit_store.insert_coupon_use(
            tx, coupon.id, user.id, subdomain_id, entry_id, discount_credits=quote.coupon.discount_credits
        )
    return entry_id


def add_term(
    tx: Tx, quote: Quote, entry_id: int | None, *, subdomain_id: int, starts_at: datetime
) -> Outcome:
    """Store the term that a quote is for, with the result of `charge`. Return the verb's outcome."""
    store.insert_term(
        tx,
        subdomain_id=subdomain_id,
        action=quote.action,
        starts_at=starts_at,
        ends_at=quote.new_expires_at,
        charged_credits=quote.price,
        transfer_id=entry_id,
    )
    return Outcome(subdomain_id, quote.price, quote.coupon)


def charge_reference(action: str, subdomain_id: int, starts_at: datetime) -> str:
    """Return the reference of a term's charge: the action, the name's id and the start of the term."""
    return f"{action}:{subdomain_id}:{starts_at:%Y%m%dT%H%M%S.%fZ}"
