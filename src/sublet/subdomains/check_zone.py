"""Hold a live zone against the registry, and have what is ours repaired (`sublet zone check|repair`)."""

from dataclasses import dataclass

from sublet import audit
from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.plan import implausible_deletions
from sublet.dns.types import Record
from sublet.dns.verify import ZoneDifferences, compare_zone
from sublet.errors import Conflict
from sublet.platform_domains import zone_store
from sublet.platform_domains.model import PlatformDomain
from sublet.subdomains import publish_store
from sublet.subdomains.publishing import desired_records


@dataclass(frozen=True, slots=True)
class ZoneCheck:
    """What a check found; `waiting` are names whose publication is under way, which are not judged."""

    zone: str
    differences: ZoneDifferences
    waiting: tuple[str, ...]


def check_zone(tx: Tx, platform_domain: PlatformDomain) -> ZoneCheck:
    """Compare what the built-in name server's zone holds with what the registry has published there."""
    desired: dict[str, tuple[Record, ...]] = {}
    waiting: list[str] = []
    unjudged: set[str] = set()
    owners = publish_store.list_published_owners_of_zone(tx, platform_domain.id)
    for subdomain in publish_store.list_published(tx, platform_domain.id):
        records = desired_records(subdomain, platform_domain.delegation_ttl_seconds)
        if subdomain.generation != subdomain.published_generation:
            waiting.append(subdomain.fqdn)
            unjudged |= {record.owner for record in records}
            unjudged |= {owner for owner, subdomain_id in owners.items() if subdomain_id == subdomain.id}
        elif records:
            desired[subdomain.fqdn] = records
    differences = compare_zone(
        [_soa(platform_domain), *zone_store.list_zone_records(tx, platform_domain.id)],
        desired,
        owners.keys(),
        ignored=unjudged,
    )
    return ZoneCheck(platform_domain.domain, differences, tuple(sorted(waiting)))


def _soa(platform_domain: PlatformDomain) -> Record:
    """The apex is made from the settings, not stored; the comparison wants to see that it is given a whole zone."""
    rdata = f"{platform_domain.soa_mname}. {platform_domain.soa_rname}. {platform_domain.serial} 0 0 0 0"
    return Record(platform_domain.domain, "SOA", platform_domain.apex_ttl_seconds, rdata)


def repair_zone(tx: Tx, actor: Actor, platform_domain: PlatformDomain, *, force: bool = False) -> ZoneCheck:
    """Have every name that is missing or different published anew, and what is orphaned taken out; return what was found.

    Foreign records and the apex are never touched. The publisher does the work, as for any change.

    Raises:
        Conflict: more names would lose their records than max(20, 1 %) and `force` is not given.
    """
    found = check_zone(tx, platform_domain)
    owners = publish_store.list_published_owners_of_zone(tx, platform_domain.id)
    orphaned = {record.owner for record in found.differences.orphaned}
    names = publish_store.list_published(tx, platform_domain.id)
    if not force and implausible_deletions(len(orphaned), len(names)):
        raise Conflict(
            f"{len(orphaned)} names would lose their records, which is implausible; look at `sublet zone check`, "
            "then repeat with --force if that is right."
        )
    wrong = {*found.differences.missing, *(each.name for each in found.differences.different)}
    again = {subdomain.id for subdomain in names if subdomain.fqdn in wrong}
    again |= {owners[owner] for owner in orphaned if owner in owners}
    publish_store.republish(tx, again)
    if again:
        audit.record(
            tx,
            actor,
            "zone.repair",
            "platform_domain",
            platform_domain.id,
            after={"republished": len(again), "orphaned": sorted(orphaned)[:100]},
        )
    return found
