"""Change the built-in name server's zone by one batch: the embedded default's counterpart of an UPDATE message."""

from collections.abc import Collection
from dataclasses import dataclass

from sublet.db import Tx
from sublet.dns.plan import plan_changes
from sublet.platform_domains import zone_store
from sublet.subdomains import publish_store, store
from sublet.subdomains.publishing import Batch, Item


@dataclass(frozen=True, slots=True)
class ZoneChanged:
    """What came of it: the zone's new serial, and the subdomains that were left out.

    `refused_ids` are those whose names were in use by someone else, `stale_ids` those that want something newer by now,
    or nothing any more.
    """

    serial: int
    refused_ids: frozenset[int]
    stale_ids: frozenset[int] = frozenset()


def change_zone(tx: Tx, batch: Batch) -> ZoneChanged:
    """Delete per type at every owner that is or may be published, then add what is desired, all at once.

    An owner at which nothing of ours was ever put must not be in use (RFC 2136, section 2.4.5, for a real primary): nothing that
    we did not write is ever overwritten. Such names are left out and returned; the others are applied.

    The fence: changes of one zone follow one another, and one that was prepared for an older generation changes nothing; so
    a publisher that was long away can't put back what another has replaced. Nor does one for a generation that another has
    published meanwhile: a name that was released since then may be somebody else's, who stands in the zone now.
    """
    zone_store.lock_zone(tx, batch.platform_domain_id)
    stale = _stale_ids(tx, batch)
    current = [item for item in batch.items if item.subdomain_id not in stale]
    owners = store.list_owners(tx, [item.subdomain_id for item in current])
    refused = frozenset(
        item.subdomain_id
        for item in current
        if _in_use(tx, batch, item, {owner for owner, sent in owners[item.subdomain_id].items() if sent})
    )
    items = [item for item in current if item.subdomain_id not in refused]
    changes = plan_changes(
        batch.zone,
        (owner for item in items for owner in item.owners),
        (record for item in items for record in item.desired),
    )
    store.mark_sent(tx, [item.subdomain_id for item in items])
    return ZoneChanged(zone_store.apply_changes(tx, batch.platform_domain_id, changes), refused, stale)


def _stale_ids(tx: Tx, batch: Batch) -> frozenset[int]:
    waiting = publish_store.list_waiting_generations(tx, [item.subdomain_id for item in batch.items])
    return frozenset(
        item.subdomain_id for item in batch.items if waiting.get(item.subdomain_id) != item.generation
    )


def _in_use(tx: Tx, batch: Batch, item: Item, sent: Collection[str]) -> bool:
    new = {record.owner for record in item.desired}.difference(sent)
    if item.fqdn in new:
        new = {item.fqdn}  # all others lie below it
    return any(
        zone_store.has_names_at_or_below(tx, batch.platform_domain_id, owner, besides=sent) for owner in new
    )
