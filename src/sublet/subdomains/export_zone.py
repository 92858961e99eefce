"""Export all records of a zone on the built-in name server (`sublet zone export`)."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from sublet.db import Tx
from sublet.dns.names import ancestors, is_at_or_below, is_below
from sublet.dns.records import apex_records
from sublet.dns.types import Record
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_store
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.nested import zone_cut
from sublet.subdomains import store
from sublet.subdomains.view_zone import apex_of, dsync_records, serial_of


def export_zone(tx: Tx, platform_domain: PlatformDomain, addresses: Sequence[str] = ()) -> Iterator[Record]:
    """Yield the records that the built-in name server serves: SOA first, then apex, zone cuts, adopted
    records, registered names.

    `addresses` are the public addresses of the name server itself. Adopted records at or below a registered
    name in the DNS are left out. Large zones are streamed.
    """
    apex = apex_of(platform_domain, serial_of(tx, platform_domain), addresses)
    children = _children(tx, platform_domain)
    hosts = {*apex.nameservers, *(host for child in children for host in child.apex_nameservers)}
    yield from apex_records(apex)
    for record in dsync_records(platform_domain):
        if not zone_store.find_records(tx, platform_domain.id, {record.owner}):
            yield record
    yield from _cuts_and_addresses(tx, platform_domain, children, hosts, addresses)
    cuts = [child.domain for child in children]
    for adopted in zone_store.stream_zone_records(tx, platform_domain.id):
        registered = _registered(tx, platform_domain, {each.owner for each in adopted})
        for record in adopted:
            is_hidden = record.owner in registered or any(is_at_or_below(record.owner, cut) for cut in cuts)
            if not is_hidden and not _is_address_of(record, hosts):
                yield record
    for published in store.stream_published(tx, platform_domain):
        yield from published


def _children(tx: Tx, platform_domain: PlatformDomain) -> list[PlatformDomain]:
    """Return the platform domains below a zone without another platform domain between them and the zone."""
    zone = platform_domain.domain
    below = [each for each in platform_domain_store.list_platform_domains(tx) if is_below(each.domain, zone)]
    names = {each.domain for each in below}
    return [each for each in below if names.isdisjoint(ancestors(each.domain))]


def _cuts_and_addresses(
    tx: Tx,
    platform_domain: PlatformDomain,
    children: Iterable[PlatformDomain],
    hosts: Collection[str],
    addresses: Sequence[str],
) -> list[Record]:
    """Return the delegations of the `children`, and the address records of the nameservers inside the zone.

    `hosts` are the nameservers of the zone and of the children. All addresses of a host get the lowest TTL
    (RFC 2181, section 5.2), as in the responses of the built-in name server.
    """
    found = {each for child in children for records in zone_cut(child).values() for each in records}
    for zone in (platform_domain, *(child for child in children if not child.primary)):
        found.update(apex_of(zone, 1, addresses).addresses)
    registered = _registered(tx, platform_domain, hosts)
    for owner, adopted in zone_store.find_records(tx, platform_domain.id, set(hosts) - registered).items():
        found.update(each for each in adopted if _is_address_of(each, {owner}))
    lowest: dict[tuple[str, str], int] = {}
    for each in found:
        key = each.owner, each.type
        lowest[key] = min(each.ttl_seconds, lowest.get(key, each.ttl_seconds))
    records = {replace(each, ttl_seconds=lowest[each.owner, each.type]) for each in found}
    return sorted(each for each in records if is_below(each.owner, platform_domain.domain))


def _is_address_of(record: Record, hosts: Collection[str]) -> bool:
    return record.owner in hosts and record.type in ("A", "AAAA")


def _registered(tx: Tx, platform_domain: PlatformDomain, owners: Collection[str]) -> set[str]:
    """Return the owner names among `owners` that are at or below a registered name in the DNS."""
    above = {owner: (owner, *ancestors(owner)) for owner in owners}
    found = store.find_published(tx, platform_domain, {each for names in above.values() for each in names})
    return {owner for owner, names in above.items() if not found.keys().isdisjoint(names)}
