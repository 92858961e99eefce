"""Compare a zone on a primary with the registry (`sublet zone check`, and the worker)."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from sublet.db import Tx
from sublet.dns.types import Record
from sublet.dns.verify import DELEGATION_TYPES, ZoneDifferences, compare_zone
from sublet.platform_domains import zone_store
from sublet.platform_domains.model import PlatformDomain
from sublet.primaries import store as publish_store
from sublet.primaries.plan import is_publishable
from sublet.primaries.publishing import desired_records
from sublet.primaries.update import fence_name
from sublet.subdomains import store
from sublet.subdomains.naming import name_above

CLOCK_MARGIN = timedelta(seconds=5)
"""By how much the clocks of two processes that publish and check may differ."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """An owner at which something of ours stands and nothing should, and the name and row that have to take it out."""

    owner: str
    fqdn: str
    subdomain_id: int


@dataclass(frozen=True, slots=True)
class Repairs:
    """What of a check a repair needs, of a zone in which `names` names are ours.

    `wrong_ids` are the rows of what is missing or different. `leftovers` are the owners of what is orphaned, and `reclaimed` those
    of a rebuilt zone at or below names that wait. `apex_keys` are the DNSKEY records at the apex; a signed zone has some. `is_settled`
    tells that nothing was published while the check ran, so that another one at the same serial would find the same.
    """

    names: int
    missing: int
    different: int
    foreign_records: int
    wrong_ids: tuple[int, ...]
    leftovers: tuple[Leftover, ...]
    reclaimed: tuple[Leftover, ...]
    apex_keys: tuple[Record, ...]
    is_settled: bool


@dataclass(frozen=True, slots=True)
class ZoneCheck:
    """What a check found; `waiting` are names whose publication is under way, which are not judged."""

    zone: str
    differences: ZoneDifferences
    waiting: tuple[str, ...]
    repairs: Repairs


def check_zone(
    tx: Tx,
    platform_domain: PlatformDomain,
    live: Iterable[Record],
    *,
    transfer_began_at: datetime,
    rebuilt: bool,
) -> ZoneCheck:
    """Compare a transferred zone with what the registry has published there; nothing is changed.

    `live` was transferred before this transaction began. Names that were published since `transfer_began_at` (by the registry's
    clock), or wait for it, are not judged, nor is anything below them. But records at a name that waits, of which no owner was
    written ahead, are foreign.

    Ours are the records at the owners that the registry published or may have published. With `rebuilt` the zone is not as we left
    it, and may come from an old file: then everything at or below a name that was ever published is ours too, or the delegation of
    a former holder would work again. Records that an earlier check noted as foreign are not ours.
    """
    zone = platform_domain.domain
    owners = store.list_published_owners_of_zone(tx, platform_domain.id)
    desired: dict[str, tuple[Record, ...]] = {}
    ids: dict[str, int] = {}
    waiting: set[str] = set()
    just_published: set[str] = set()
    judged_before = transfer_began_at - CLOCK_MARGIN
    names = 0
    for subdomain in store.stream_published(tx, platform_domain.id):
        names += 1
        if subdomain.generation != subdomain.published_generation:
            waiting.add(subdomain.fqdn)
        elif subdomain.published_at and subdomain.published_at >= judged_before:
            just_published.add(subdomain.fqdn)
        elif records := desired_records(subdomain, platform_domain.delegation_ttl_seconds):
            desired[subdomain.fqdn] = records
            ids[subdomain.fqdn] = subdomain.id
    former: dict[str, int] = {}
    apex_keys: set[Record] = set()
    live = _note_apex_keys(live, zone, apex_keys)
    if rebuilt:
        live = list(live)
        sent = store.list_published_owners_of_zone(tx, platform_domain.id, only_sent=True)
        former = _former_owners(tx, platform_domain, live, sent)
    # Where nothing was written ahead for a name that waits, we can't have put anything: what is there is foreign.
    unjudged = just_published | waiting.intersection(name_above(each, zone) for each in {**former, **owners})
    differences = compare_zone(
        live, desired, {**former, **owners}.keys(), ignored={fence_name(zone)}, unjudged=unjudged
    )
    wrong = {*differences.missing, *(each.name for each in differences.different)}
    repairs = Repairs(
        names=names,
        missing=len(differences.missing),
        different=len(differences.different),
        foreign_records=len(differences.foreign),
        wrong_ids=tuple(sorted(ids[name] for name in wrong)),
        leftovers=_leftovers(zone, {each.owner for each in differences.orphaned}, {**former, **owners}),
        reclaimed=_leftovers(zone, (each for each in former if name_above(each, zone) in unjudged), former),
        apex_keys=tuple(sorted(apex_keys)),
        is_settled=not just_published,
    )
    return ZoneCheck(zone, differences, tuple(sorted(waiting)), repairs)


def _note_apex_keys(live: Iterable[Record], zone: str, apex_keys: set[Record]) -> Iterator[Record]:
    """Give the records on, and add those of them to `apex_keys` that are DNSKEYs at the apex: a large zone is read once."""
    for record in live:
        if record.type == "DNSKEY" and record.owner == zone:
            apex_keys.add(record)
        yield record


def _former_owners(
    tx: Tx, platform_domain: PlatformDomain, live: Iterable[Record], known: Collection[str]
) -> dict[str, int]:
    """Return the live owners at or below names that ever were published, that are not `known`, each with its name's newest row.

    Not those of which an earlier check has noted that they are foreign: a name that could never be published counts as published
    when it was given up.
    """
    zone = platform_domain.domain
    foreign = {record.owner for record in zone_store.list_zone_records(tx, platform_domain.id)}
    found = {
        record.owner
        for record in live
        if record.type in DELEGATION_TYPES
        and record.owner not in known
        and record.owner not in foreign
        and is_publishable(record.owner, zone)  # else it never was ours, and could not be taken out
    }
    newest = publish_store.find_ever_published(
        tx, platform_domain.id, {name_above(owner, zone) for owner in found}
    )
    return {owner: newest[name] for owner in found if (name := name_above(owner, zone)) in newest}


def _leftovers(zone: str, owners: Iterable[str], rows: dict[str, int]) -> tuple[Leftover, ...]:
    return tuple(Leftover(owner, name_above(owner, zone), rows[owner]) for owner in sorted(owners))
