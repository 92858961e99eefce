"""What the built-in name server reads for one query: the zone around a name, at one instant."""

from collections.abc import Sequence
from ipaddress import ip_address

from sublet.db import Tx
from sublet.dns.names import ancestors, is_below
from sublet.dns.types import Apex, Record, ZoneView
from sublet.platform_domains import store, zone_store
from sublet.platform_domains.model import PlatformDomain


def view_zone(tx: Tx, name: str, addresses: Sequence[str] = ()) -> ZoneView | None:
    """Return the zone around a query name (lower case, no final dot), or None when no zone on this name server holds it.

    `addresses` are the public addresses of the name server itself: what apex nameservers inside the zone resolve to.
    """
    path = (name, *ancestors(name))
    found = store.find_platform_domains_among(tx, path)
    zones = [each for each in found if not each.primary]
    if not zones:
        return None
    platform_domain = zones[0]
    inside = [each for each in path if is_below(each, platform_domain.domain)]
    wildcards = [f"*.{each}" for each in (*inside[1:], platform_domain.domain)]
    records = zone_store.find_records(tx, platform_domain.id, [*inside, *wildcards, platform_domain.domain])
    for each in found:
        if each.primary and is_below(each.domain, platform_domain.domain):
            records |= _zone_cut(each)
    apex = apex_of(platform_domain, addresses)
    records |= _glue(tx, platform_domain, records)
    own = {record.owner for record in apex.addresses}
    existing = {
        each
        for each in inside
        if each in records
        or each in own
        or zone_store.has_names_at_or_below(tx, platform_domain.id, each)
        or store.has_platform_domain_at_or_below(tx, each)
    }
    return ZoneView(apex, records, frozenset({*existing, platform_domain.domain}))


def _zone_cut(child: PlatformDomain) -> dict[str, tuple[Record, ...]]:
    """Return the delegation of a platform domain that stands on a primary of its own, below a zone that doesn't.

    Its nameservers are those of its apex; addresses are known of those that are watched as its secondaries.
    """
    ttl_seconds = child.apex_ttl_seconds
    records = {
        child.domain: tuple(
            Record(child.domain, "NS", ttl_seconds, f"{host}.") for host in child.apex_nameservers
        )
    }
    for each in child.secondaries:
        if each.host in child.apex_nameservers:
            rdtype = "A" if ip_address(each.address).version == 4 else "AAAA"
            records[each.host] = (
                *records.get(each.host, ()),
                Record(each.host, rdtype, ttl_seconds, each.address),
            )
    return records


def _glue(
    tx: Tx, platform_domain: PlatformDomain, records: dict[str, tuple[Record, ...]]
) -> dict[str, tuple[Record, ...]]:
    hosts = {
        record.rdata.removesuffix(".").lower()
        for found in records.values()
        for record in found
        if record.type == "NS"
    }
    wanted = [host for host in hosts if is_below(host, platform_domain.domain) and host not in records]
    return zone_store.find_records(tx, platform_domain.id, wanted) if wanted else {}


def apex_of(platform_domain: PlatformDomain, addresses: Sequence[str] = ()) -> Apex:
    """Return what a zone's SOA and NS records are made of."""
    ttl_seconds = platform_domain.apex_ttl_seconds
    own_hosts = [host for host in platform_domain.apex_nameservers if is_below(host, platform_domain.domain)]
    return Apex(
        zone=platform_domain.domain,
        nameservers=platform_domain.apex_nameservers,
        soa_mname=platform_domain.soa_mname,
        soa_rname=platform_domain.soa_rname,
        serial=platform_domain.serial,
        refresh_seconds=platform_domain.refresh_seconds,
        retry_seconds=platform_domain.retry_seconds,
        expire_seconds=platform_domain.expire_seconds,
        negative_ttl_seconds=platform_domain.negative_ttl_seconds,
        ttl_seconds=ttl_seconds,
        addresses=tuple(
            Record(host, "A" if ip_address(address).version == 4 else "AAAA", ttl_seconds, address)
            for host in own_hosts
            for address in addresses
        ),
    )
