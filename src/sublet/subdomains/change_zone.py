"""Change the built-in name server's zone by one batch: the embedded default's counterpart of an UPDATE message."""

from dataclasses import dataclass

from sublet.db import Tx
from sublet.dns.plan import plan_changes
from sublet.platform_domains import zone_store
from sublet.subdomains.publishing import Batch, Item


@dataclass(frozen=True, slots=True)
class ZoneChanged:
    """What came of it: the zone's new serial, and the subdomains whose names were in use by someone else."""

    serial: int
    refused_ids: frozenset[int]


def change_zone(tx: Tx, batch: Batch) -> ZoneChanged:
    """Delete per type at every owner that is or may be published, then add what is desired, all at once.

    A name of which nothing was ever sent must not be in use (RFC 2136, section 2.4.5, for a real primary): nothing that we
    did not write is ever overwritten. Such names are left out and returned; the others are applied.
    """
    refused = frozenset(item.subdomain_id for item in batch.items if item.first and _in_use(tx, batch, item))
    items = [item for item in batch.items if item.subdomain_id not in refused]
    changes = plan_changes(
        batch.zone,
        (owner for item in items for owner in item.owners),
        (record for item in items for record in item.desired),
    )
    return ZoneChanged(zone_store.apply_changes(tx, batch.platform_domain_id, changes), refused)


def _in_use(tx: Tx, batch: Batch, item: Item) -> bool:
    return bool(item.desired) and zone_store.has_names_at_or_below(tx, batch.platform_domain_id, item.fqdn)
