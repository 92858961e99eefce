"""What the built-in name server reads for some queries: the zones around their names, at one instant."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from ipaddress import ip_address

from sublet.db import Tx
from sublet.dns.names import ancestors, is_below, owner_key
from sublet.dns.types import Apex, Record, ZoneView
from sublet.platform_domains import store, zone_store
from sublet.platform_domains.model import PlatformDomain

_Path = tuple[str, ...]
"""A query name and those above it, down to the one below the apex at most; the query name first."""


def view_zones(tx: Tx, names: Collection[str], addresses: Sequence[str] = ()) -> dict[str, ZoneView]:
    """Return the zones around query names (lower case, no final dot), by name; those that no zone on this name server holds are left out.

    `addresses` are the public addresses of the name server itself: what apex nameservers inside the zone resolve to. Names that share
    what stands above them share a view, and its statements. At the apex of a zone, the view of the closest zone above is its `parent`.
    """
    paths = {name: (name, *ancestors(name)) for name in names}
    found = store.find_platform_domains_among(tx, {each for path in paths.values() for each in path})
    by_domain = {each.domain: each for each in found}
    alike: dict[tuple[str, ...], list[_Path]] = defaultdict(list)
    parents: dict[str, ZoneView] = {}
    for path in paths.values():
        domains = [each for each in path if each in by_domain]
        primaries = [each for each in domains if not by_domain[each].primary]
        if primaries:
            zone = primaries[0]
            children = domains[: domains.index(zone)]
            alike[(zone, *children)].append(tuple(each for each in path if is_below(each, zone)) or (zone,))
            if path[0] == zone and len(primaries) > 1:
                parent = primaries[1]
                between = [by_domain[each] for each in domains[: domains.index(parent)]]
                above = tuple(each for each in path if is_below(each, parent))
                parents[zone] = _view(tx, by_domain[parent], between, [above], addresses)
    views: dict[str, ZoneView] = {}
    for (zone, *children), inside in alike.items():
        view = _view(tx, by_domain[zone], [by_domain[each] for each in children], inside, addresses)
        views |= dict.fromkeys((path[0] for path in inside), view)
    return views | {zone: replace(views[zone], parent=parent) for zone, parent in parents.items()}


def _view(
    tx: Tx,
    platform_domain: PlatformDomain,
    children: Iterable[PlatformDomain],
    paths: Sequence[_Path],
    addresses: Sequence[str],
) -> ZoneView:
    """Return what a zone holds around these paths; `children` are the platform domains on them that stand on primaries of their own."""
    zone = platform_domain.domain
    owners = {zone, f"*.{zone}"}
    for path in paths:
        owners.update(path, (f"*.{each}" for each in path[1:]))
    records = zone_store.find_records(tx, platform_domain.id, owners)
    for child in children:
        records |= _zone_cut(child)
    records |= _glue(tx, platform_domain, records)
    existing = {zone}
    for path in paths:
        # Of names at and below a delegation nobody asks whether they exist (RFC 1034, section 4.3.2).
        if path[0] != zone and not _is_delegated(path, records):
            existing.update(_existing(tx, platform_domain, path, records))
    return ZoneView(apex_of(platform_domain, addresses), records, frozenset(existing))


def _is_delegated(path: _Path, records: Mapping[str, tuple[Record, ...]]) -> bool:
    """Tell whether a delegation stands on a path; no, where a label has a dot in it, and the path names that are not above."""
    if "\\." in path[0]:
        return False
    return any(record.type == "NS" for each in path for record in records.get(each, ()))


def _existing(
    tx: Tx, platform_domain: PlatformDomain, path: _Path, records: Mapping[str, tuple[Record, ...]]
) -> _Path:
    """Return which names of a path exist: those with records, and all above; those above other names of the zone, or platform domains.

    If the path's first name doesn't exist, also the wildcard for it, if that is above other names of the zone.
    """
    if path[0] in records:
        return path
    keys = (
        *zone_store.next_owner_keys(tx, platform_domain.id, path[0]),
        *store.next_owner_keys(tx, path[0]),
    )
    existing = path
    while existing and not (existing[0] in records or _is_above(existing[0], keys)):
        existing = existing[1:]
    if existing == path:
        return path
    wildcard = f"*.{existing[0] if existing else platform_domain.domain}"
    if wildcard not in records and _is_above(
        wildcard, zone_store.next_owner_keys(tx, platform_domain.id, wildcard)
    ):
        return (wildcard, *existing)
    return existing


def _is_above(name: str, keys: Iterable[str]) -> bool:
    return any(key.startswith(owner_key(name) + ".") for key in keys)


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
            records[each.host] = (
                *records.get(each.host, ()),
                Record(each.host, _address_type(each.address), ttl_seconds, each.address),
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
            Record(host, _address_type(address), ttl_seconds, address)
            for host in own_hosts
            for address in addresses
        ),
    )


@lru_cache(maxsize=256)
def _address_type(address: str) -> str:
    return "A" if ip_address(address).version == 4 else "AAAA"
