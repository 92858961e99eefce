"""Register a subdomain: its user's verb (spec, part 4, POST /subdomains) and the operator's (`sublet
subdomain register`).
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sublet import audit
from sublet.accounts.find import lock_holder, lock_user, refuse_suspended_holder
from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.credits.model import Coupon, Payable
from sublet.db import Tx, together
from sublet.dns.delegation import check_delegation
from sublet.dns.look_alikes import stored_skeleton
from sublet.dns.types import Delegation, RecordSet
from sublet.errors import FieldError, Refusal, validation_failed
from sublet.platform_domains.model import Offer, PlatformDomain
from sublet.platform_domains.offers import period_errors
from sublet.subdomains import delegation_store, store
from sublet.subdomains.availability import (
    RequestedName,
    find_requested_name,
    lock_zones_for_look_alikes,
    refuse_closed,
    refuse_unavailable,
    unavailable,
)
from sublet.subdomains.charge import add_term, charge, check_payable, quote_and_check
from sublet.subdomains.lifecycle import term_end
from sublet.subdomains.model import OperatorPermission, Register, Registered, Subdomain
from sublet.subdomains.modes import NOTHING_WITHHELD, mode_errors
from sublet.subdomains.nameservers import (
    cycle_errors,
    find_enclosed_nameservers,
    refuse_unregistered,
    registry_warnings,
    unregistered_errors,
)
from sublet.subdomains.naming import find_named_platform_domains, resolve_for_operator, resolve_name
from sublet.subdomains.records.change import refuse_restricted, refuse_without_records
from sublet.subdomains.records.rule import check_records
from sublet.subdomains.sweep.plausible_clock import find_implausible_clock_reason, refuse_clock


def register(
    tx: Tx,
    actor: Actor,
    command: Register,
    *,
    free_quota: int,
    permission: OperatorPermission | None = None,
    withheld: Mapping[str, datetime] = NOTHING_WITHHELD,
) -> Registered:
    """Register a name for the actor's account or, if the operator gives a `permission`, for the user in it.

    `free_quota` applies to users without their own quota. `withheld` are the modes that the user can't use
    yet (`modes.withheld_modes`).

    Raises, in this order:
        AccountSuspended: the user is suspended (with a permission: NotFound or Conflict).
        ClockImplausible: the name's dates could be wrong.
        PlatformDomainNotFound, TokenRestricted: the user or the token can't see it; the token is for others.
        RegistrationClosed: the platform domain accepts no registrations.
        ValidationFailed: all invalid fields.
        SubdomainUnavailable: the name is reserved, taken, in the trash, cooling off, or looks like another.
        RecordsNotAllowed, TokenRestricted: the platform domain or the token doesn't allow the given records.
        RegistrationModeNotAllowed, FreeQuotaExceeded: the mode isn't for the label; the quota is used up.
        PaymentConfirmationRequired, InsufficientScope, PriceChanged, InsufficientCredits, TokenRestricted:
            see `quote_and_check`.
        ValidationFailed: a name that encloses a nameserver was purged after the first check.
    """
    # Read before the lock of the user, which the user's other registrations wait for.
    above, clock_reason = find_named_platform_domains(tx, command), find_implausible_clock_reason(tx)
    user = lock_holder(tx, actor) if permission is None else _lock_holder(tx, permission)
    refuse_clock(clock_reason)
    platform_domain, label, errors = _resolve(tx, actor, user, command, permission, above)
    delegation, delegation_errors = _check_delegation(tx, actor, user, command, platform_domain, label, above)
    records, record_errors = _check_records(command, platform_domain, label)
    mode = command.registration_mode
    requested = find_requested_name(
        tx, user, platform_domain, label, mode, free_quota, permission, withheld, is_locking=True
    )
    coupon, payable_errors = _check_payable(tx, user, command.payable, requested)
    errors += [*delegation_errors, *record_errors, *mode_errors(mode), *payable_errors]
    if errors or requested is None:
        raise validation_failed(errors)
    lock_zones_for_look_alikes(tx, requested)
    refuse_unavailable(tx, user, requested)
    _refuse_records(actor, requested, records)
    offer = _offer_or_raise(requested)
    quote = quote_and_check(
        tx,
        actor,
        user,
        command.payable,
        coupon,
        action="register",
        fqdn=requested.fqdn,
        registration_mode=offer.mode,
        period_days=offer.period_days,
        list_price=requested.list_price,
        new_expires_at=term_end(tx.now, offer.period_days),
    )
    refuse_unregistered(tx, actor, user, requested.fqdn, delegation.nameservers, above)
    # From here on only a concurrent registration of the name can make this registration fail (`_insert`).
    subdomain = _insert(tx, user, requested, offer, delegation, records)
    entry_id = charge(tx, actor, user, quote, coupon, subdomain_id=subdomain.id, starts_at=tx.now)
    with together(tx):
        delegation_store.insert_hosts(tx, subdomain)
        outcome = add_term(tx, quote, entry_id, subdomain_id=subdomain.id, starts_at=tx.now)
        _record_registration(tx, actor, subdomain, quote.price)
    warnings = _warnings(tx, subdomain, above)
    paid, parent = (outcome.id, outcome.charged_credits, outcome.coupon), requested.platform_domain
    return Registered(*paid, subdomain=subdomain, platform_domain=parent, warnings=warnings)


def _check_payable(
    tx: Tx, user: User, payable: Payable, requested: RequestedName | None
) -> tuple[Coupon | None, list[FieldError]]:
    usable_offer = requested.offer if requested and isinstance(requested.offer, Offer) else None
    list_price = requested.list_price if requested else 0
    return check_payable(tx, user, payable, usable_offer, action="register", list_price=list_price)


def _record_registration(tx: Tx, actor: Actor, subdomain: Subdomain, charged_credits: int) -> None:
    mode, delegation = subdomain.registration_type, store.delegation_columns(subdomain.delegation)
    after = {
        "fqdn": subdomain.fqdn,
        "registration_type": mode,
        "charged_credits": charged_credits,
        **delegation,
    }
    if subdomain.records:
        after["records"] = store.records_columns(subdomain.records)["records"]
    # Readers of the event take the actor as the name's user, so store `user_id` only if they differ.
    if subdomain.user_id != actor.user_id:
        after["user_id"] = subdomain.user_id
    audit.record(tx, actor, "subdomain.register", subdomain.id, after=after)


def _refuse_records(actor: Actor, requested: RequestedName, records: tuple[RecordSet, ...]) -> None:
    if records:
        refuse_without_records(requested.platform_domain)
        refuse_restricted(actor, [each.name for each in records])


def _warnings(tx: Tx, subdomain: Subdomain, above: Sequence[PlatformDomain]) -> tuple[str, ...]:
    enclosed = find_enclosed_nameservers(tx, subdomain.fqdn, subdomain.delegation.nameservers, above)
    return registry_warnings(tx, subdomain, enclosed, changes=())


def _offer_or_raise(requested: RequestedName) -> Offer:
    """Return the offer for the requested mode, or raise the refusal."""
    if isinstance(requested.offer, Refusal):
        raise requested.offer
    return requested.offer


def _lock_holder(tx: Tx, permission: OperatorPermission) -> User:
    user = lock_user(tx, permission.user)
    refuse_suspended_holder(user)
    return user


def _resolve(
    tx: Tx,
    actor: Actor,
    user: User,
    command: Register,
    permission: OperatorPermission | None,
    found: Sequence[PlatformDomain],
) -> tuple[PlatformDomain | None, str | None, list[FieldError]]:
    """Return the platform domain, the label, and the errors in the name and the permission's `days`."""
    if permission is not None:
        platform_domain, label, errors = resolve_for_operator(command, found)
        return (
            platform_domain,
            label,
            [*errors, *period_errors("days", 1 if permission.days is None else permission.days)],
        )
    platform_domain, label, errors = resolve_name(tx, actor, user, command, found)
    if platform_domain is not None:
        refuse_closed(platform_domain)
    return platform_domain, label, errors


def _check_delegation(
    tx: Tx,
    actor: Actor,
    user: User,
    command: Register,
    platform_domain: PlatformDomain | None,
    label: str | None,
    above: Sequence[PlatformDomain],
) -> tuple[Delegation, list[FieldError]]:
    """Return the delegation and its errors. `above` has the platform domains above its nameservers."""
    # Without a valid label the name is unknown. No nameserver is at or below this placeholder.
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
        return delegation, list(errors)
    enclosed = find_enclosed_nameservers(tx, owner, delegation.nameservers, above)
    unregistered = unregistered_errors(owner, enclosed, delegation.nameservers, (), actor, user.id)
    return delegation, [*unregistered, *cycle_errors(tx, owner, delegation, above)]


def _check_records(
    command: Register, platform_domain: PlatformDomain | None, label: str | None
) -> tuple[tuple[RecordSet, ...], tuple[FieldError, ...]]:
    if not command.records or platform_domain is None or not label:
        return (), ()
    if command.nameservers:
        sentence = "A name has nameservers or records. Give only one of the two."
        return (), (FieldError("records", "value_invalid", sentence),)
    return check_records(f"{label}.{platform_domain.domain}", command.records, platform_domain)


def _insert(
    tx: Tx,
    user: User,
    requested: RequestedName,
    offer: Offer,
    delegation: Delegation,
    records: tuple[RecordSet, ...],
) -> Subdomain:
    subdomain = store.insert_subdomain(
        tx,
        requested.platform_domain,
        delegation,
        records,
        user_id=user.id,
        label=requested.label,
        fqdn=requested.fqdn,
        skeleton=stored_skeleton(requested.label),
        registration_type=offer.mode,
        registration_source="operator" if requested.by_operator else "api",
        generation=1 if delegation.nameservers or records else 0,
        registered_at=tx.now,
        expires_at=term_end(tx.now, offer.period_days),
        period_days=offer.period_days,
    )
    if subdomain is None:
        raise unavailable("taken", owned=False)
    return subdomain
