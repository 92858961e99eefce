"""Register a subdomain (spec, part 4, POST /subdomains)."""

from dataclasses import dataclass

from sublet import audit
from sublet.accounts.find import lock_acting_user
from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.delegation import check_delegation
from sublet.dns.look_alikes import stored_skeleton
from sublet.dns.types import Delegation
from sublet.errors import (
    FieldError,
    Refusal,
    RegistrationClosed,
    validation_failed,
)
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains.labels import classify
from sublet.platform_domains.model import Label, Offer, PlatformDomain
from sublet.subdomains import delegation_store, store
from sublet.subdomains.availability import refuse_unavailable, unavailable
from sublet.subdomains.charge import charge, check_payable, quote_and_check, registration_price
from sublet.subdomains.lifecycle import term_end
from sublet.subdomains.model import Register, Registered, Subdomain
from sublet.subdomains.modes import choose_mode, mode_errors
from sublet.subdomains.nameservers import (
    cycle_errors,
    places_of,
    platform_domains_above,
    refuse_unregistered,
    registry_warnings,
    unregistered_errors,
)
from sublet.subdomains.naming import resolve_name
from sublet.subdomains.quota import Quota, quota_limit
from sublet.subdomains.sweep.plausible_clock import refuse_implausible_clock


@dataclass(frozen=True, slots=True)
class _Name:
    """The requested name, with the label's row in the operator's list and its class."""

    label: str
    fqdn: str
    listed: Label | None
    label_class: str


def register(tx: Tx, actor: Actor, command: Register, *, free_quota: int) -> Registered:
    """Register a name for the acting user. `free_quota` is the setting, for users without their own quota.

    Raises, in this order:
        AccountSuspended, ClockImplausible: the user is suspended; the name's dates could be wrong.
        PlatformDomainNotFound, RegistrationClosed: the user can't see such a platform domain; it takes no new registrations.
        ValidationFailed: all invalid fields: platform domain, label, nameservers, glue, DS, mode, coupon. Raised again at the end if a
            name above a nameserver was purged meanwhile.
        SubdomainUnavailable: reserved, taken (here or in the zone), in the trash, cooling off; an IDN that looks like another name.
        RegistrationModeNotAllowed, FreeQuotaExceeded: there is no offer for it.
        PaymentConfirmationRequired, InsufficientScope, PriceChanged, InsufficientCredits: the price.
    """
    user = lock_acting_user(tx, actor)
    refuse_implausible_clock(tx)
    platform_domain, label, errors = resolve_name(tx, user, command)
    if platform_domain is not None and not platform_domain.registration_open:
        raise RegistrationClosed("This platform domain takes no new registrations now. Take another one.")
    delegation, above, delegation_errors = _check_delegation(tx, user, command, platform_domain, label)
    name = _classify(tx, user, platform_domain, label) if platform_domain and label else None
    offer = (
        _choose_offer(tx, user, command, platform_domain, name, free_quota)
        if platform_domain and name
        else None
    )
    held = offer if isinstance(offer, Offer) else None
    list_price = registration_price(held, name.listed) if held and name else 0
    coupon, payable_errors = check_payable(
        tx,
        user,
        command.payable,
        action="register",
        platform_domain_id=platform_domain.id if platform_domain else None,
        registration_mode=held.mode if held else None,
        list_price=list_price,
    )
    errors += [*delegation_errors, *mode_errors(command.registration_mode), *payable_errors]
    if errors or platform_domain is None or name is None or offer is None:
        raise validation_failed(errors)
    is_listed = name.listed is not None
    refuse_unavailable(tx, user, platform_domain, name.label, name.label_class, is_listed=is_listed)
    if isinstance(offer, Refusal):
        raise offer
    quote = quote_and_check(
        tx,
        user,
        command.payable,
        coupon,
        action="register",
        fqdn=name.fqdn,
        registration_mode=offer.mode,
        period_days=offer.period_days,
        list_price=list_price,
        new_expires_at=term_end(tx.now, offer.period_days),
    )
    refuse_unregistered(tx, user, name.fqdn, delegation.nameservers, above)
    # From here on it must succeed, unless another process registered the same name first.
    subdomain = _insert(tx, user, platform_domain, name, offer, delegation)
    outcome = charge(tx, user, quote, coupon, subdomain_id=subdomain.id, starts_at=tx.now)
    after = {"fqdn": name.fqdn, "registration_type": offer.mode, "charged_credits": quote.price}
    after |= store.delegation_columns(delegation)
    audit.record(tx, actor, "subdomain.register", subdomain.id, after=after)
    warnings = registry_warnings(tx, subdomain, above)
    return Registered(
        outcome.id, outcome.charged_credits, outcome.coupon, subdomain=subdomain, warnings=warnings
    )


def _check_delegation(
    tx: Tx, user: User, command: Register, platform_domain: PlatformDomain | None, label: str | None
) -> tuple[Delegation, list[PlatformDomain], list[FieldError]]:
    """Return the delegation, the platform domains above its nameservers, and the errors in it."""
    # Without a valid label the own name is unknown; no host is at or below this placeholder.
    owner = f"{label}.{platform_domain.domain}" if label and platform_domain else "unknown.invalid"
    delegation, errors = check_delegation(
        owner,
        command.nameservers,
        command.glue if label else (),
        command.ds_records,
        nameservers_min=platform_domain.nameservers_min if platform_domain else 1,
        nameservers_max=platform_domain.nameservers_max if platform_domain else 13,
    )
    if errors or not label:
        return delegation, [], list(errors)
    above = platform_domains_above(tx, owner, delegation.nameservers)
    places = places_of(tx, owner, delegation.nameservers, above)
    unregistered = unregistered_errors(places, delegation.nameservers, (), user.id)
    return delegation, above, [*unregistered, *cycle_errors(tx, owner, delegation, above)]


def _classify(tx: Tx, user: User, platform_domain: PlatformDomain, label: str) -> _Name:
    listed = platform_domain_store.find_label(tx, platform_domain.id, label)
    patterns = platform_domain_store.list_patterns_for(tx, platform_domain.id) if listed is None else ()
    label_class = classify(label, platform_domain, listed, user.organization_id, patterns)
    return _Name(label, f"{label}.{platform_domain.domain}", listed, label_class)


def _choose_offer(
    tx: Tx, user: User, command: Register, platform_domain: PlatformDomain, name: _Name, free_quota: int
) -> Offer | Refusal:
    offers = platform_domain_store.list_offers(tx, platform_domain.id)
    return choose_mode(
        command.registration_mode,
        name.label_class,
        {offer.mode: offer for offer in offers if offer.withdrawn_at is None},
        quota=Quota(store.count_free(tx, user.id), quota_limit(user.free_quota, free_quota)),
    )


def _insert(
    tx: Tx, user: User, platform_domain: PlatformDomain, name: _Name, offer: Offer, delegation: Delegation
) -> Subdomain:
    subdomain = store.insert_subdomain(
        tx,
        platform_domain,
        delegation,
        user_id=user.id,
        label=name.label,
        fqdn=name.fqdn,
        skeleton=stored_skeleton(name.label),
        registration_type=offer.mode,
        registration_source="api",
        generation=1 if delegation.nameservers else 0,
        registered_at=tx.now,
        expires_at=term_end(tx.now, offer.period_days),
        period_days=offer.period_days,
    )
    if subdomain is None:
        raise unavailable("taken", owned=False)
    delegation_store.insert_hosts(tx, subdomain)
    return subdomain
