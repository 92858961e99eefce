"""Read the part of a zone that the built-in name server needs to answer queries, and export all of its
records (`sublet zone export`).

A zone has what the names publish for which `lifecycle.is_in_dns` is true (a delegation, or records), and the
adopted records. A registered name in the DNS hides the adopted records at and below it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from sublet.db import Tx
from sublet.dns.addresses import address_record_type
from sublet.dns.names import ancestors, is_at_or_below, is_below, owner_key
from sublet.dns.records import apex_records
from sublet.dns.serial import served_serial, zone_seconds
from sublet.dns.types import Apex, Record, ZoneView
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_store
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.nested import zone_cut
from sublet.structs import replace
from sublet.subdomains import store

_Path = tuple[str, ...]
"""A query name and its ancestors below the apex, the query name first. If the query name is the apex, the
apex alone.
"""


def view_zones(tx: Tx, names: Collection[str], addresses: Sequence[str] = ()) -> dict[str, ZoneView]:
    """Return the part of a zone that is needed to answer each query name.

    Skip names in no zone of this server.

    `names` are in lower case, without a final dot. `addresses` are the public addresses of the name server
    itself. Nameservers of a zone that are inside the zone resolve to them. Query names below the same
    platform domains share one view, to save queries. If a query name is an apex, `parent` is the view of the
    closest zone above.
    """
    paths = {name: (name, *ancestors(name)) for name in names}
    found = platform_domain_store.find_platform_domains_among(
        tx, {each for path in paths.values() for each in path}
    )
    by_domain = {each.domain: each for each in found}
    paths_by_zones: dict[tuple[str, ...], list[_Path]] = defaultdict(list)
    parents: dict[str, ZoneView] = {}
    for path in paths.values():
        domains = [each for each in path if each in by_domain]
        built_in = [each for each in domains if not by_domain[each].primary]
        if built_in:
            zone = built_in[0]
            children = domains[: domains.index(zone)]
            paths_by_zones[(zone, *children)].append(
                tuple(each for each in path if is_below(each, zone)) or (zone,)
            )
            if path[0] == zone and len(built_in) > 1:
                parent = built_in[1]
                between = [by_domain[each] for each in domains[: domains.index(parent)]]
                above = tuple(each for each in path if is_below(each, parent))
                parents[zone] = _view(tx, by_domain[parent], between, [above], addresses)
    views: dict[str, ZoneView] = {}
    for (zone, *children), inside in paths_by_zones.items():
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
    """Return the part of a zone that is needed to answer for these paths.

    Each of the `children`, the platform domains on them, gets a zone cut.
    """
    zone = platform_domain.domain
    owners = {zone, f"*.{zone}"}
    for path in paths:
        owners.update(path, (f"*.{each}" for each in path[1:]))
    records = zone_store.find_records(tx, platform_domain.id, owners)
    dsync = dsync_records(platform_domain)
    records = _by_owner(each for each in dsync if each.owner in owners) | records
    for child in children:
        records |= zone_cut(child)
    found = store.find_published(tx, platform_domain, {each for path in paths for each in path})
    _add_published(found, owners, records)
    _add_glue(tx, platform_domain, records)
    keys = [owner_key(each.owner) for published in found.values() for each in published]
    existing = {zone}
    for path in paths:
        # Names at and below a delegation get a referral whether or not they exist (RFC 1034, section 4.3.2),
        # so skip their paths.
        if path[0] != zone and not _crosses_delegation(path, records):
            existing.update(_existing(tx, platform_domain, path, records, keys))
            existing.update(each.owner.partition(".")[2] for each in dsync)
    return ZoneView(
        apex_of(platform_domain, serial_of(tx, platform_domain), addresses), records, frozenset(existing)
    )


def serial_of(tx: Tx, platform_domain: PlatformDomain) -> int:
    """Return the serial of a zone on the built-in name server.

    It rises with the time of the newest change of a name.
    """
    newest = store.find_newest_change(tx, platform_domain.id)
    seconds = 0 if newest is None else zone_seconds(newest)
    return int(served_serial(platform_domain.serial, seconds))


def _crosses_delegation(path: _Path, records: Mapping[str, tuple[Record, ...]]) -> bool:
    """True if a name on the path is delegated.

    False if a label has an escaped dot: `ancestors` splits it there, so a delegated name on the path may be
    no ancestor.
    """
    if "\\." in path[0]:
        return False
    return any(record.type == "NS" for each in path for record in records.get(each, ()))


def _existing(
    tx: Tx,
    platform_domain: PlatformDomain,
    path: _Path,
    records: Mapping[str, tuple[Record, ...]],
    published_keys: Sequence[str],
) -> _Path:
    """Return the existing names on a path: those with records, and those above records or a platform domain.

    `published_keys` are the owner keys of all records of the registered names on the paths.

    If the query name (the first) doesn't exist, also include the wildcard at its closest encloser (RFC 4592),
    if names exist below the wildcard.
    """
    if path[0] in records:
        return path
    keys = (
        *zone_store.next_owner_keys(tx, platform_domain.id, path[0]),
        *platform_domain_store.next_owner_keys(tx, path[0]),
        *published_keys,
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


def _add_published(
    found: Mapping[str, tuple[Record, ...]], owners: Collection[str], records: dict[str, tuple[Record, ...]]
) -> None:
    """Add what registered names publish, and remove all other records at and below these names.

    Delegations are added whole, for the glue. Of other records only those at `owners` are added.
    """
    for name, published in found.items():
        for owner in [each for each in records if is_at_or_below(each, name)]:
            del records[owner]
        is_delegated = any(each.type == "NS" for each in published)
        records |= _by_owner(each for each in published if is_delegated or each.owner in owners)


def _add_glue(tx: Tx, platform_domain: PlatformDomain, records: dict[str, tuple[Record, ...]]) -> None:
    """Add the addresses of nameservers inside the zone: those of the registered name above the nameserver, or
    else adopted records.
    """
    zone = platform_domain.domain
    hosts = {
        record.rdata.removesuffix(".").lower()
        for found in records.values()
        for record in found
        if record.type == "NS"
    }
    wanted = {host for host in hosts if is_below(host, zone) and host not in records}
    if not wanted:
        return
    above = {host: [each for each in (host, *ancestors(host)) if is_below(each, zone)] for host in wanted}
    published = store.find_published(
        tx, platform_domain, {each for names in above.values() for each in names}
    )
    adopted = zone_store.find_records(tx, platform_domain.id, wanted)
    for host, names in above.items():
        name = next((each for each in names if each in published), None)
        found = adopted if name is None else _by_owner(published[name])
        if host in found:
            records[host] = tuple(each for each in found[host] if each.type in ("A", "AAAA"))


def _by_owner(records: Iterable[Record]) -> dict[str, tuple[Record, ...]]:
    found: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        found[record.owner].append(record)
    return {owner: tuple(each) for owner, each in found.items()}


def dsync_records(platform_domain: PlatformDomain) -> tuple[Record, ...]:
    """Return the DSYNC records (RFC 9859): where children send NOTIFY messages about CDS and CSYNC records,
    if the zone follows these.
    """
    if not platform_domain.apex_nameservers:
        return ()
    follows = {"CDS": platform_domain.automatic_ds != "off", "CSYNC": platform_domain.csync}
    target = platform_domain.apex_nameservers[0]
    owner = f"*._dsync.{platform_domain.domain}"
    ttl_seconds = platform_domain.apex_ttl_seconds
    return tuple(
        Record(owner, "DSYNC", ttl_seconds, f"{rdtype} NOTIFY 53 {target}.")
        for rdtype, is_followed in follows.items()
        if is_followed
    )


def apex_of(platform_domain: PlatformDomain, serial: int, addresses: Sequence[str] = ()) -> Apex:
    """Return the data of a zone's SOA and NS records, and the addresses of its own nameservers."""
    ttl_seconds = platform_domain.apex_ttl_seconds
    own_hosts = [host for host in platform_domain.apex_nameservers if is_below(host, platform_domain.domain)]
    return Apex(
        zone=platform_domain.domain,
        nameservers=platform_domain.apex_nameservers,
        soa_mname=platform_domain.soa_mname,
        soa_rname=platform_domain.soa_rname,
        serial=serial,
        refresh_seconds=platform_domain.refresh_seconds,
        retry_seconds=platform_domain.retry_seconds,
        expire_seconds=platform_domain.expire_seconds,
        negative_ttl_seconds=platform_domain.negative_ttl_seconds,
        ttl_seconds=ttl_seconds,
        addresses=tuple(
            Record(host, address_record_type(address), ttl_seconds, address)
            for host in own_hosts
            for address in addresses
        ),
    )


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
