"""Compare a zone on a primary with the registry (`sublet zone check`, and the worker)."""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta

from msgspec import Struct, field

from sublet.db import Tx
from sublet.dns.types import DELEGATION_TYPES, PUBLISHED_TYPES, Record
from sublet.platform_domains import zone_store
from sublet.platform_domains.model import PlatformDomain
from sublet.primaries import store as publish_store
from sublet.primaries.compare_zone import ZoneDifferences, compare_zone
from sublet.primaries.update import fence_name, is_publishable
from sublet.subdomains import published_owner_store
from sublet.subdomains.lifecycle import desired_records, is_published
from sublet.subdomains.naming import registrable_name

CLOCK_MARGIN = timedelta(seconds=5)
"""How far the clocks of the publishing and the checking process may differ."""


class OrphanedOwner(Struct, frozen=True):
    """An owner with records of ours that must leave the zone.

    Publishing the row `subdomain_id` of the name `fqdn` deletes them.

    `has_records` is true if they may be of other types than those of a delegation.
    """

    owner: str
    fqdn: str
    subdomain_id: int
    has_records: bool = False


class Repairs(Struct, frozen=True):
    """The input of a repair. `names` is the number of our names in the zone.

    `wrong_ids` are the rows of the missing and different names. `orphaned` are the owners of orphaned
    records. `reclaimed` are the owners at or below skipped names of a rebuilt zone that may have records of
    ours. `apex_dnskeys` are the DNSKEY records at the apex; a signed zone has some. `is_settled` is True if
    nothing was published during the check, so that another check at this serial would find the same.
    """

    names: int
    missing: int
    different: int
    foreign_records: int
    wrong_ids: tuple[int, ...]
    orphaned: tuple[OrphanedOwner, ...]
    reclaimed: tuple[OrphanedOwner, ...]
    apex_dnskeys: tuple[Record, ...]
    is_settled: bool


class ZoneCheck(Struct, frozen=True):
    """The result of a check. `waiting` are the names that wait for publication, which the check skipped."""

    zone: str
    differences: ZoneDifferences
    waiting: tuple[str, ...]
    repairs: Repairs


class _Names(Struct):
    """The registry's names in a zone.

    `desired` and `ids` have the records and rows of the names that can be compared.
    """

    count: int = 0
    desired: dict[str, tuple[Record, ...]] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    just_published: set[str] = field(default_factory=set)


def check_zone(
    tx: Tx,
    platform_domain: PlatformDomain,
    live: Iterable[Record],
    *,
    transfer_began_at: datetime,
    rebuilt: bool,
) -> ZoneCheck:
    """Compare a transferred zone with what the registry has published in it.

    `live` was transferred before this transaction began. The check skips names that were published since
    `transfer_began_at` (by the registry's clock) or wait for publication, and everything below them. A
    waiting name without an owner that was written ahead is not skipped: all records at or below this name are
    foreign.

    Our records are the records at owners that the registry published or may have published. With `rebuilt`
    the zone may come from an old file. Then all records at or below names that were ever published are ours
    too, because the delegation of a former holder must not work again. Records that an earlier check stored
    as foreign are not ours.
    """
    zone = platform_domain.domain
    owners = published_owner_store.list_published_owners_of_zone(tx, platform_domain.id)
    with_records = set(
        published_owner_store.list_published_owners_of_zone(tx, platform_domain.id, only_with_records=True)
    )
    names = _read_names(tx, platform_domain, transfer_began_at - CLOCK_MARGIN)
    former: dict[str, int] = {}
    apex_dnskeys: set[Record] = set()
    live = _tee_apex_dnskeys(live, zone, apex_dnskeys)
    if rebuilt:
        live = list(live)
        sent = published_owner_store.list_published_owners_of_zone(tx, platform_domain.id, only_sent=True)
        former = _former_owners(tx, platform_domain, live, sent)
        if platform_domain.accepts_records:
            with_records |= former.keys()
    ours = former | owners
    # Each owner is written ahead before it is sent, so a waiting name without such an owner has no records of
    # ours.
    skipped = names.just_published | names.waiting.intersection(registrable_name(each, zone) for each in ours)
    differences = compare_zone(
        live,
        names.desired,
        ours.keys(),
        with_records=with_records,
        ignored={fence_name(zone)},
        skipped=skipped,
    )
    wrong = {*differences.missing, *(each.name for each in differences.different)}
    repairs = Repairs(
        names=names.count,
        missing=len(differences.missing),
        different=len(differences.different),
        foreign_records=len(differences.foreign),
        wrong_ids=tuple(sorted(names.ids[name] for name in wrong)),
        orphaned=_orphaned_owners(zone, {each.owner for each in differences.orphaned}, ours, with_records),
        reclaimed=_orphaned_owners(
            zone, (each for each in former if registrable_name(each, zone) in skipped), former, with_records
        ),
        apex_dnskeys=tuple(sorted(apex_dnskeys)),
        is_settled=not names.just_published,
    )
    return ZoneCheck(zone, differences, tuple(sorted(names.waiting)), repairs)


def _read_names(tx: Tx, platform_domain: PlatformDomain, compared_before: datetime) -> _Names:
    names = _Names()
    for subdomain in published_owner_store.stream_published(tx, platform_domain.id):
        names.count += 1
        if not is_published(subdomain):
            names.waiting.add(subdomain.fqdn)
        elif subdomain.published_at and subdomain.published_at >= compared_before:
            names.just_published.add(subdomain.fqdn)
        elif records := desired_records(subdomain, platform_domain.delegation_ttl_seconds):
            names.desired[subdomain.fqdn] = records
            names.ids[subdomain.fqdn] = subdomain.id
    return names


def _tee_apex_dnskeys(live: Iterable[Record], zone: str, apex_dnskeys: set[Record]) -> Iterator[Record]:
    """Yield all records, and add the DNSKEYs at the apex to `apex_dnskeys`, so that a large zone is read
    once.
    """
    for record in live:
        if record.type == "DNSKEY" and record.owner == zone:
            apex_dnskeys.add(record)
        yield record


def _former_owners(
    tx: Tx, platform_domain: PlatformDomain, live: Iterable[Record], known: Collection[str]
) -> dict[str, int]:
    """Return the owners of a rebuilt zone that may have had records of ours, each with the id of the newest
    row of its name.

    These owners are at or below a name that was ever published. Owners in `known` are left out. So are owners
    that an earlier check stored as foreign, because a name also counts as published if its publication was
    given up.
    """
    zone = platform_domain.domain
    types = PUBLISHED_TYPES if platform_domain.accepts_records else DELEGATION_TYPES
    foreign = {record.owner for record in zone_store.list_zone_records(tx, platform_domain.id)}
    found = {
        record.owner
        for record in live
        if record.type in types
        and record.owner not in known
        and record.owner not in foreign
        # Any other owner was never ours, and no update could remove it.
        and is_publishable(record.owner, zone, with_records=platform_domain.accepts_records)
    }
    newest = publish_store.find_ever_published(
        tx, platform_domain.id, {registrable_name(owner, zone) for owner in found}
    )
    return {owner: newest[name] for owner in found if (name := registrable_name(owner, zone)) in newest}


def _orphaned_owners(
    zone: str, owners: Iterable[str], rows: dict[str, int], with_records: Collection[str]
) -> tuple[OrphanedOwner, ...]:
    return tuple(
        OrphanedOwner(owner, registrable_name(owner, zone), rows[owner], owner in with_records)
        for owner in sorted(owners)
    )
