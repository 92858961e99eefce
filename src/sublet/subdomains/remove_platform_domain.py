"""Remove a platform domain that has no names (`sublet domain remove`). Its row stays, because released names and the audit refer to it."""

from collections.abc import Iterator

from sublet import audit
from sublet.audit import Actor
from sublet.counted import counted
from sublet.credits.coupons import retire_coupon
from sublet.credits.store import list_coupons
from sublet.db import Tx
from sublet.dns.names import is_at_or_below
from sublet.errors import Conflict
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_state_store, zone_store
from sublet.platform_domains.find import find_platform_domain
from sublet.platform_domains.model import PlatformDomain
from sublet.subdomains import delegation_store, published_owner_store, store


def remove_platform_domain(tx: Tx, actor: Actor, identifier: str, *, force: bool = False) -> PlatformDomain:
    """Remove a platform domain with its offers, grants, labels, patterns, adopted records and zone state. Retire its coupons.

    The audit, the ledger and the rows of released names stay. The same domain can be added again.

    Raises, in this order:
        NotFound: there is no such platform domain.
        Conflict: the platform domain accepts registrations.
        Conflict: the platform domain has unreleased names, or platform domains below it; nameservers of another zone are at or below it; names
            under other platform domains have nameservers at or below it, and `force` is false.

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
    zone_state_store.delete_zone_state(tx, found.id)
    zone_store.delete_records(tx, found.id)
    platform_domain_store.remove_platform_domain(tx, found.id)
    before = {"domain": found.domain, "primary": found.primary}
    audit.record(tx, actor, "platform_domain.remove", found.id, before=before)
    return found


def _obstacles(tx: Tx, found: PlatformDomain, *, force: bool) -> Iterator[str]:
    """Yield a sentence for each reason why a platform domain can't be removed. The sentence says what to do."""
    domain = found.domain
    live, in_trash, cooling_off = store.count_unreleased(tx, found.id)
    if live:
        yield (
            f"It has {counted(live, 'live name')}: close it at a date with `--names-until DATE`, or ask the holders to delete their names. "
            "A suspended name stays until it is unsuspended."
        )
    if in_trash or cooling_off:
        yield (
            f"It has {counted(in_trash, 'name')} in the trash and {cooling_off} cooling off: wait until they are released, or purge them "
            "(`sublet subdomain purge NAME --release`)."
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
            "Names under other platform domains have nameservers at or below it: ask the holders to change the nameservers, or give --force."
        )


def _has_server_below(other: PlatformDomain, domain: str) -> bool:
    hosts = (*other.apex_nameservers, other.soa_mname, *(each.host for each in other.secondaries))
    return any(is_at_or_below(host, domain) for host in hosts)
