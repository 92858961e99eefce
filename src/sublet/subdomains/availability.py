"""Check whether a user can register a name: the label's class, offers, quota, holder, look-alikes
(docs/spec-choices.md, "Look-alikes"). `view_availability` answers GET /availability, an extension
(docs/spec-choices.md, "Availability").
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
from sublet.dns.look_alikes import looks_reserved, mixes_scripts, skeleton
from sublet.dns.names import is_below, is_idn
from sublet.errors import Refusal, RegistrationClosed, SubdomainUnavailable, validation_failed
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_store
from sublet.platform_domains.labels import MODES_BY_CLASS, classify
from sublet.platform_domains.model import Label, Offer, PlatformDomain, has_zone_nameserver
from sublet.structs import replace
from sublet.subdomains import delegation_store, store
from sublet.subdomains.charge import refuse_over_daily_credits, registration_price, renewal_price
from sublet.subdomains.dates.timeline import future_events
from sublet.subdomains.lifecycle import is_restorable, term_end
from sublet.subdomains.model import OperatorPermission, Register
from sublet.subdomains.modes import NOTHING_WITHHELD, choose_mode, operator_offer
from sublet.subdomains.naming import find_named_platform_domains, registrable_name, resolve_name
from sublet.subdomains.quota import Quota, quota_limit
from sublet.subdomains.sweep.plausible_clock import refuse_implausible_clock


class RequestedName(Struct, frozen=True):
    """A name that a user wants to register, and the platform domain's offers for it.

    `listed` is the label's row in the operator's list of labels. `offers` are the current offers that the
    user can use, by mode. `offer` is the offer for the requested mode, or the refusal. `is_blocked` is true
    if something blocks the name (`delegation_store.find_standing`), `by_operator` if the operator registers
    the name for the user.
    """

    platform_domain: PlatformDomain
    label: str
    listed: Label | None
    label_class: str
    offers: Mapping[str, Offer]
    quota: Quota
    offer: Offer | Refusal
    is_blocked: bool
    by_operator: bool = False

    @property
    def fqdn(self) -> str:
        """The label and the platform domain."""
        return f"{self.label}.{self.platform_domain.domain}"

    @property
    def list_price(self) -> int:
        """The price in credits before coupons.

        It is 0 if the operator registers the name, or if there is no offer.
        """
        if self.by_operator or not isinstance(self.offer, Offer):
            return 0
        return registration_price(self.offer, self.listed)

    @property
    def needs_look_alike_check(self) -> bool:
        """True for an IDN, unless the operator turned the check off or listed the label."""
        return self.platform_domain.look_alike_check and is_idn(self.label) and self.listed is None


def find_requested_name(
    tx: Tx,
    user: User,
    platform_domain: PlatformDomain | None,
    label: str | None,
    registration_mode: str | None,
    free_quota: int,
    permission: OperatorPermission | None = None,
    withheld: Mapping[str, datetime] = NOTHING_WITHHELD,
    *,
    is_locking: bool = False,
) -> RequestedName | None:
    """Return the requested name with its offers, or None if the platform domain or the label is None.

    `free_quota` applies to users without their own quota. The operator's `permission` has a mode that
    replaces `registration_mode`. `withheld` are the modes that the user can't use yet
    (`modes.withheld_modes`). A registration sets `is_locking` (`delegation_store.find_standing`).

    Raises:
        Outdated: the platform domain has changed since it was read.
    """
    if platform_domain is None or label is None:
        return None
    rules = platform_domain_store.find_label_rules(tx, platform_domain.id, label)
    label_class = classify(label, platform_domain, rules.listed, user.organization_id, rules.patterns)
    offers = {offer.mode: offer for offer in rules.offers if offer.withdrawn_at is None}
    fqdn = f"{label}.{platform_domain.domain}"
    standing = delegation_store.find_standing(tx, platform_domain, fqdn, user.id, is_locking=is_locking)
    quota = Quota(standing.free_count, quota_limit(user.free_quota, free_quota))
    if permission is None:
        offer = choose_mode(registration_mode, label_class, offers, quota=quota, withheld=withheld)
    else:
        offer = operator_offer(platform_domain.id, permission.mode, offers, permission.days)
    usable = {mode: each for mode, each in offers.items() if mode not in withheld}
    return RequestedName(
        platform_domain,
        label,
        rules.listed,
        label_class,
        usable,
        quota,
        offer,
        is_blocked=standing.is_blocked,
        by_operator=permission is not None,
    )


def refuse_closed(platform_domain: PlatformDomain) -> None:
    """Raise `RegistrationClosed` if a platform domain accepts no registrations."""
    if not platform_domain.accepts_registrations:
        raise RegistrationClosed(
            "This platform domain takes no registrations now. Choose another platform domain."
        )


def refuse_unavailable(tx: Tx, user: User, requested: RequestedName) -> None:
    """Raise `SubdomainUnavailable` unless a user can register a name.

    Before a registration, call `lock_zones_for_look_alikes` first.

    Reasons, in the order they are checked:
        reserved: the label's class is reserved or blocked (not for the operator); a nameserver of the zone is
            at or below the name; an IDN mixes scripts; a platform domain is at or below the name.
        cooling_off, in_trash, taken: a row holds the name, or the zone has records there that the registry
            didn't write.
        reserved: other users' names have nameservers at or below the name; an IDN looks like another name.
    """
    platform_domain, fqdn = requested.platform_domain, requested.fqdn
    is_reserved = requested.label_class in ("reserved", "blocked") and not requested.by_operator
    if is_reserved or has_zone_nameserver(platform_domain, fqdn):
        raise unavailable("reserved", owned=False)
    if requested.needs_look_alike_check and mixes_scripts(requested.label):
        raise unavailable("mixed_scripts", owned=False)
    if requested.is_blocked:  # further queries find the reason
        _refuse_held(tx, user, requested)
    if _may_have_former_delegation(tx, platform_domain, fqdn):
        raise unavailable("cooling_off", owned=False)
    if requested.is_blocked and zone_store.has_records_at_or_below(tx, platform_domain.id, fqdn):
        # The zone was adopted, or another program edited the zone, so the zone has records at the name.
        raise unavailable("taken", owned=False)
    if requested.is_blocked and delegation_store.has_dependents(tx, fqdn, besides_user_id=user.id):
        # The new holder could answer queries for the names with nameservers at or below this name.
        raise unavailable("depended_on", owned=False)
    if requested.needs_look_alike_check and _looks_alike(tx, user, platform_domain, requested.label):
        raise unavailable("look_alike", owned=False)


def _refuse_held(tx: Tx, user: User, requested: RequestedName) -> None:
    """Raise `SubdomainUnavailable` if a row or a platform domain has the name, or if its removal from the DNS
    is not published.
    """
    platform_domain, fqdn = requested.platform_domain, requested.fqdn
    if platform_domain_store.has_platform_domain_at_or_below(tx, fqdn):
        raise unavailable("reserved", owned=False)
    holder = store.find_unreleased(tx, fqdn)
    if holder is not None:
        # `owned` selects messages about the user's own requests. They would mislead the operator.
        owned = holder.user_id == user.id and holder.purged_at is None and not requested.by_operator
        if holder.purged_at is not None:
            raise unavailable("cooling_off", owned=False)
        if holder.trashed_at is not None:
            restorable = owned and holder.suspended_at is None and is_restorable(holder, tx.now)
            raise unavailable("in_trash", owned=owned, restorable=restorable)
        raise unavailable("taken", owned=owned)
    if store.has_unpublished_row(tx, platform_domain.id, fqdn):
        # An old zone file brought back a former delegation. Its removal is not published yet.
        raise unavailable("cooling_off", owned=False)


def _may_have_former_delegation(tx: Tx, platform_domain: PlatformDomain, fqdn: str) -> bool:
    """True if the zone may have a former holder's delegation, because a rebuilt zone is not checked yet or
    its repair has stopped.
    """
    if not platform_domain.primary:
        return False
    state = zone_store.find_zone_state(tx, platform_domain.id)
    is_unchecked = state.rebuilt_at is not None or state.repair_stopped_at is not None
    return is_unchecked and store.was_published(tx, platform_domain.id, fqdn)


def unavailable(reason: str, *, owned: bool, restorable: bool = False) -> SubdomainUnavailable:
    """Return the refusal for a reason.

    `owned` is true if the user holds the name, `restorable` if the user can restore the name.
    """
    messages = {
        "reserved": "This name is reserved. Choose another name.",
        "mixed_scripts": "This name mixes letters of several scripts, so it "
        "could be mistaken for another name. Use "
        "letters of one script.",
        "look_alike": "This name looks too similar to a registered or "
        "reserved name here. Choose another name.",
        "depended_on": "Names of other users have nameservers at or below "
        "this name, so it is reserved. Choose "
        "another name.",
        "taken": "You hold this name already. Change its nameservers or records instead."
        if owned
        else "This name is taken. Choose another name.",
        "in_trash": "This name is in your trash. Restore it instead."
        if restorable
        else "This name is in the trash and not free yet. Choose another name, or try again later.",
        "cooling_off": "This name was purged recently and is not free yet. "
        "Choose another name, or try again later.",
    }
    # The API reports these as `reserved`: in each case the client must choose another name.
    shown_reason = "reserved" if reason in ("mixed_scripts", "look_alike", "depended_on") else reason
    return SubdomainUnavailable(messages[reason], details={"reason": shown_reason, "owned": owned})


def lock_zones_for_look_alikes(tx: Tx, requested: RequestedName) -> None:
    """Serialize with other cross-zone changes if the name needs a look-alike check, because concurrent
    registrations don't see each other.
    """
    if requested.needs_look_alike_check:
        platform_domain_store.serialize_cross_zone_changes(tx)


def _looks_alike(tx: Tx, user: User, platform_domain: PlatformDomain, label: str) -> bool:
    """True if a label looks like a reserved label, or like the label of an unreleased name of another user.

    Reserved are the labels reserved under all platform domains, the listed labels, and the labels of the
    zone's nameservers.
    """
    looks, domain = skeleton(label), platform_domain.domain
    if looks_reserved(looks):
        return True
    hosts = (*platform_domain.apex_nameservers, platform_domain.soa_mname)
    of_nameservers = [
        registrable_name(host, domain).partition(".")[0] for host in hosts if is_below(host, domain)
    ]
    listed = platform_domain_store.list_guarded_labels(tx, platform_domain.id)
    if any(skeleton(each) == looks for each in (*of_nameservers, *listed)):
        return True
    return store.is_look_alike_held(tx, platform_domain, looks, user.id)


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


def _modes(requested: RequestedName) -> tuple[Offer, ...]:
    listed = requested.listed
    own_renewal_price = None if listed is None else listed.renewal_price_credits
    fitting = [
        requested.offers[mode] for mode in MODES_BY_CLASS[requested.label_class] if mode in requested.offers
    ]
    return tuple(
        replace(
            offer,
            price_credits=registration_price(offer, listed),
            renewal_price_credits=renewal_price(offer, own_renewal_price),
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
