"""List the notices about names that may lose a nameserver, zones without a delegation, quotas, and clocks
that were ahead.
"""

from collections.abc import Iterator

from sqlalchemy import exists, func, select

from sublet.accounts.store import users
from sublet.audit import audit_events
from sublet.counted import counted
from sublet.dates import CLOCKS_APART, moment
from sublet.db import Tx
from sublet.dns.names import ancestors, owner_key
from sublet.doctor.model import Notice
from sublet.health.store import find_brake
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.nested import list_missing_cuts
from sublet.subdomains import delegation_store
from sublet.subdomains.nameservers import EnclosedNameserver, find_enclosed_nameserver
from sublet.subdomains.store import subdomains


def list_notices(tx: Tx) -> list[Notice]:
    """Return a notice for each name that depends on a name in the trash or an unregistered name, each zone
    that isn't delegated, and audit events with future times.
    """
    platform_domains = {each.domain: each for each in platform_domain_store.list_platform_domains(tx)}
    below = [
        notice
        for domain in sorted(platform_domains)
        for notice in _find_notices_below(tx, domain, platform_domains)
    ]
    return [
        *_find_health_notices(tx),
        *below,
        *(_not_delegated_notice(*each) for each in list_missing_cuts(tx)),
        *_find_future_events(tx),
    ]


def find_over_quota(tx: Tx, free_quota: int) -> Iterator[Notice]:
    """Yield the users with more free names than their quota. `free_quota` is the setting.

    This breaks no invariant, because the operator may have lowered the quota.

    Names that the operator registered or moved don't count.
    """
    events = audit_events.c
    was_moved = exists().where(
        (events.object_type == "subdomain")
        & (events.object_id == subdomains.c.id)
        & (events.action == "subdomain.transfer")
        & (events.actor_kind == "operator")
    )
    held = (
        select(subdomains.c.user_id, func.count().label("held"))
        .where((subdomains.c.registration_type == "free") & subdomains.c.trashed_at.is_(None))
        .where((subdomains.c.registration_source != "operator") & ~was_moved)
        .group_by(subdomains.c.user_id)
        .subquery()
    )
    quota = func.coalesce(users.c.free_quota, free_quota)
    query = (
        select(users.c.id, held.c.held, quota.label("quota"))
        .join(held, held.c.user_id == users.c.id)
        .where(held.c.held > quota)
    )
    for user_id, count, limit in tx.connection.execute(query):
        sentence = f"the user holds {count} free names, the quota is {limit}"
        yield Notice("free_quota", "user", user_id, sentence)


def _find_health_notices(tx: Tx) -> Iterator[Notice]:
    state = find_brake(tx)
    if state.stopped_reason is not None:
        sentence = (
            f"{state.stopped_reason} No mail about a breakage is sent, and no name leaves the DNS, until "
            "`sublet health resume`"
        )
        yield Notice("health_stopped", "health", 1, sentence)
    if state.impaired_reason is not None:
        sentence = (
            f"{state.impaired_reason} The health of all names that are checked is unknown until this is "
            "repaired"
        )
        yield Notice("health_impaired", "health", 1, sentence)


def _find_future_events(tx: Tx) -> Iterator[Notice]:
    """Yield a notice if events have future times. This breaks no invariant: a clock was ahead, and nothing
    can correct the events.
    """
    events = audit_events.c
    query = select(func.count(), func.max(events.id), func.max(events.at))
    number, newest_id, at = tx.connection.execute(query.where(events.at > tx.now + CLOCKS_APART)).one()
    if number:
        sentence = f"it is the newest of {counted(number, 'event')} with future times, up to {moment(at)}"
        yield Notice("audit_is_past", "audit_event", newest_id, sentence)


def _not_delegated_notice(above: PlatformDomain, child: PlatformDomain) -> Notice:
    sentence = f"{above.domain} on {above.primary} had no NS records of {child.domain} at its last check"
    return Notice("zone_not_delegated", "zone", child.domain, sentence)


def _find_notices_below(tx: Tx, domain: str, platform_domains: dict[str, PlatformDomain]) -> Iterator[Notice]:
    place: EnclosedNameserver | None = None
    last = ""
    for subdomain_id, fqdn, key in delegation_store.stream_hosts_below(tx, domain):
        host = owner_key(key)
        above = next(each for each in (host, *ancestors(host)) if each in platform_domains)
        if above != domain:
            continue  # The call for the platform domain `above` covers this host.
        name = ".".join(host.split(".")[-domain.count(".") - 2 :])
        if name != last:  # The stream is sorted, so all hosts below a name come together.
            last, place = name, find_enclosed_nameserver(tx, host, platform_domains[domain])
        if place is None:
            continue
        if place.is_in_trash:
            at = place.removal_at
            until = f"purged on {moment(at)}" if at is not None else "purged"
            sentence = f"{fqdn} uses {host}, which is removed when {name} is {until}"
            yield Notice("nameserver_in_trash", "subdomain", subdomain_id, sentence)
        elif not place.is_held:
            sentence = (
                f"{fqdn} uses {host}, but {name} is not registered. Other users can't register {name} "
                "meanwhile"
            )
            yield Notice("nameserver_unregistered", "subdomain", subdomain_id, sentence)
