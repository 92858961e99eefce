"""Close a platform domain at a date, or withdraw the date, and remove one that has no names (`sublet domain
remove`).

Until the date, names stay even after their expiry, but no name can be registered or renewed. On the date the
sweep moves all names to the trash (docs/spec-choices.md, "A platform domain that closes").
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from sublet import audit
from sublet.accounts import store as account_store
from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.counted import counted
from sublet.credits.coupons import retire_coupon
from sublet.credits.store import list_coupons
from sublet.db import Tx
from sublet.dns.names import is_at_or_below
from sublet.errors import Conflict, FieldError, validation_failed
from sublet.mail.letter import render
from sublet.mail.outbox import enqueue
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_store
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.platform_domain import find_platform_domain
from sublet.subdomains import delegation_store, published_owner_store, store
from sublet.subdomains.edit_zone_settings import refuse_losses
from sublet.subdomains.lifecycle import FARTHEST
from sublet.subdomains.sweep import store as sweep_store

NOTICE = timedelta(days=30)
"""The minimum time between the mail to the holders and the closing date."""


def close_platform_domain(
    tx: Tx, actor: Actor, identifier: str, names_until: datetime, *, force: bool = False
) -> tuple[PlatformDomain, int]:
    """Set or change the date until which a platform domain's names are kept, and mail each holder.

    Return the platform domain and the number of mails. The sweep recomputes the dates of the names, in
    batches.

    Raises, in this order:
        NotFound: there is no such platform domain.
        Conflict: the platform domain has closed; it closes at this date already.
        ValidationFailed: the date is less than `NOTICE` or more than `FARTHEST` ahead.
        Conflict: names are paid for beyond the date, and `force` is false.
    """
    found = _lock_open(tx, identifier)
    if names_until == found.names_until:
        raise Conflict(f"{found.domain} closes on {names_until:%Y-%m-%d} already. No action needed.")
    if names_until < tx.now + NOTICE:
        earliest = tx.now + NOTICE + timedelta(days=1)
        sentence = f"Holders must get {NOTICE.days} days' notice. Give {earliest:%Y-%m-%d} or a later date."
        raise validation_failed([FieldError("names_until", "value_invalid", sentence)])
    if names_until > tx.now + FARTHEST:
        sentence = f"Give {tx.now + FARTHEST:%Y-%m-%d} or an earlier date."
        raise validation_failed([FieldError("names_until", "value_invalid", sentence)])
    paid = store.find_paid_names_after(tx, found.id, names_until)
    if paid is not None and not force:
        raise Conflict(
            f"{found.domain} has {counted(paid.count, 'name')} paid for beyond {names_until:%Y-%m-%d}, the "
            f"last until {paid.last_expires_at:%Y-%m-%d}. Give a later date, or give --force and refund the "
            "remaining terms with `sublet credits refund`."
        )
    return _set_date_and_mail_holders(tx, actor, found, names_until)


def keep_platform_domain(
    tx: Tx, actor: Actor, identifier: str, *, force: bool = False
) -> tuple[PlatformDomain, int]:
    """Withdraw the date at which a platform domain closes, and mail each holder.

    Return the platform domain and the number of mails.

    Raises, in this order:
        NotFound: there is no such platform domain.
        Conflict: the platform domain has closed; it has no closing date; names would move to the trash at
            once, because their grace period is over, and `force` is false.
    """
    found = _lock_open(tx, identifier)
    if found.names_until is None:
        raise Conflict(f"{found.domain} has no closing date. No action needed.")
    before = sweep_store.count_losses_by_rule(tx, tx.now, found.id)
    kept = _set_date_and_mail_holders(tx, actor, found, None)
    if not force:
        refuse_losses(before, sweep_store.count_losses_by_rule(tx, tx.now, found.id))
    return kept


def _lock_open(tx: Tx, identifier: str) -> PlatformDomain:
    # A registration beside this transaction would miss its mail, and could be paid for beyond the date.
    platform_domain_store.lock_against_registrations(tx, find_platform_domain(tx, identifier).id)
    found = find_platform_domain(tx, identifier)
    if found.names_until is not None and found.names_until <= tx.now:
        raise Conflict(
            f"{found.domain} closed on {found.names_until:%Y-%m-%d}. Remove it when its names are released."
        )
    return found


def _set_date_and_mail_holders(
    tx: Tx, actor: Actor, found: PlatformDomain, names_until: datetime | None
) -> tuple[PlatformDomain, int]:
    platform_domain_store.update_platform_domain(tx, found.id, names_until=names_until)
    sweep_store.set_redate_after(tx, found.id, 0)
    mails = 0
    for user_id, names in store.stream_holders(tx, found.id):
        user = account_store.find_user(tx, user_id)
        if user is None or user.deleted_at is not None:
            continue
        _mail_holder(tx, user, found, names, names_until)
        mails += 1
    action = "platform_domain.keep" if names_until is None else "platform_domain.close"
    audit.record(
        tx, actor, action, found.id, before=_as_value(found.names_until), after=_as_value(names_until)
    )
    return find_platform_domain(tx, str(found.id)), mails


def _mail_holder(
    tx: Tx, user: User, found: PlatformDomain, names: list[str], names_until: datetime | None
) -> None:
    template = "domain_stays" if names_until is None else "domain_closes"
    message = render(template, name=user.name, domain=found.domain, names=names, names_until=names_until)
    date = "kept" if names_until is None else f"{names_until:%Y%m%d}"
    reference = f"closing:{found.id}:{user.id}:{date}:{tx.now:%Y%m%dT%H%M%S.%fZ}"
    enqueue(tx, user, message, reference=reference, page="/names")


def _as_value(names_until: datetime | None) -> dict[str, str | None]:
    return {"names_until": names_until.isoformat() if names_until is not None else None}


def remove_platform_domain(tx: Tx, actor: Actor, identifier: str, *, force: bool = False) -> PlatformDomain:
    """Remove a platform domain with its offers, grants, labels, patterns, adopted records and zone state.

    Retire its coupons.

    The audit, the ledger and the rows of released names stay. The same domain can be added again.

    Raises, in this order:
        NotFound: there is no such platform domain.
        Conflict: the platform domain accepts registrations.
        Conflict: the platform domain has unreleased names, or platform domains below it; nameservers of
            another zone are at or below it; names under other platform domains have nameservers at or below
            it, and `force` is false.

    Not checked: the zone on a primary, and its delegation in the parent zone.
    """
    found = find_platform_domain(tx, identifier)
    if found.accepts_registrations:
        # This transaction would not see a concurrent registration.
        raise Conflict(
            f"{found.domain} takes registrations. Run `sublet domain edit {found.domain} --closed` first."
        )
    platform_domain_store.lock_against_registrations(tx, found.id)
    obstacles = list(_obstacles(tx, found, force=force))
    if obstacles:
        raise Conflict(f"{found.domain} can't be removed. {' '.join(obstacles)}")
    for coupon in list_coupons(tx):
        if coupon.platform_domain_id == found.id and coupon.retired_at is None:
            retire_coupon(tx, actor, coupon.code)
    published_owner_store.delete_published_owners_of_zone(tx, found.id)
    zone_store.delete_zone_state(tx, found.id)
    zone_store.delete_records(tx, found.id)
    platform_domain_store.remove_platform_domain(tx, found.id)
    before = {"domain": found.domain, "primary": found.primary}
    audit.record(tx, actor, "platform_domain.remove", found.id, before=before)
    return found


def _obstacles(tx: Tx, found: PlatformDomain, *, force: bool) -> Iterator[str]:
    """Yield a sentence for each reason why a platform domain can't be removed.

    The sentence says what to do.
    """
    domain = found.domain
    live, in_trash, cooling_off = store.count_unreleased(tx, found.id)
    if live:
        yield (
            f"It has {counted(live, 'live name')}: close it at a date with `--names-until DATE`, or ask "
            "the holders to delete their names. "
            "A suspended name stays until it is unsuspended."
        )
    if in_trash or cooling_off:
        yield (
            f"It has {counted(in_trash, 'name')} in the trash and {cooling_off} cooling off: wait until "
            "they are released, or purge them (`sublet subdomain purge NAME --release`)."
        )
    others = [each for each in platform_domain_store.list_platform_domains(tx) if each.id != found.id]
    nested = sorted(each.domain for each in others if is_at_or_below(each.domain, domain))
    if nested:
        yield f"The platform domains {', '.join(nested)} are below it: remove them first."
    served = sorted(
        each.domain for each in others if each.domain not in nested and _has_server_below(each, domain)
    )
    if served:
        yield f"Nameservers of {', '.join(served)} are inside it: give these zones other nameservers first."
    if not force and delegation_store.has_dependents(tx, domain):
        yield (
            "Names under other platform domains have nameservers at or below it: ask the holders to change "
            "the nameservers, or give --force."
        )


def _has_server_below(other: PlatformDomain, domain: str) -> bool:
    hosts = (*other.apex_nameservers, other.soa_mname, *(each.host for each in other.secondaries))
    return any(is_at_or_below(host, domain) for host in hosts)
